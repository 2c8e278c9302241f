package model

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
)

// A set is compared with a plain sorted slice over more jobs than a block
// holds.
func TestSetIsASortedSlice(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	byLength := func(a, b *job) int { return cmp.Compare(a.leaseEnd, b.leaseEnd) }
	s, plain := &set{compare: byLength}, []*job{}
	for step := range 20_000 {
		j := &job{leaseEnd: r.Int64N(5000)}
		i, found := slices.BinarySearchFunc(plain, j, byLength)
		switch {
		case !found && step < 12_000:
			s.add(j)
			plain = slices.Insert(plain, i, j)
		case found:
			s.remove(j)
			plain = slices.Delete(plain, i, i+1)
		default:
			s.remove(j) // a job that is not in the set
		}

		if step%500 == 0 {
			sameJobs(t, "all", slices.Collect(s.all()), plain)
			i, found = slices.BinarySearchFunc(plain, j, byLength)
			if found {
				i++
			}
			sameJobs(t, "behind", slices.Collect(s.behind(j)), plain[i:])

			back := slices.Clone(plain)
			slices.Reverse(back)
			sameJobs(t, "reversed", slices.Collect(s.reversed()), back)
			if found {
				i--
			}
			sameJobs(t, "before", slices.Collect(s.before(j)), back[len(back)-i:])
		}

		if s.size != len(plain) || len(plain) > 0 && s.first() != plain[0] {
			t.Fatalf("step %d: %d jobs, want %d, or another one is the first", step, s.size, len(plain))
		}
	}
}

func sameJobs(t *testing.T, what string, got, want []*job) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Fatalf("%s has %d jobs, want %d, or in another order", what, len(got), len(want))
	}
}
