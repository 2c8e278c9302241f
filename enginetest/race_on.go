//go:build race

package enginetest

// raced tells that the race detector looks on, which makes everything several
// times slower: tests that only want a crowd are content with a smaller one.
func (s *scene) raced() bool { return true }
