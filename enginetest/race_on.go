//go:build race

package enginetest

// raced reports whether the race detector is on. It makes everything several times slower, so
// tests with many workers use fewer.
func (s *scene) raced() bool { return true }
