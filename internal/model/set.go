package model

import (
	"cmp"
	"iter"
	"slices"
	"sort"
)

// blockSize is where a block of a set is cut in two.
const blockSize = 512

// set is a sorted set of jobs. The sort key of a job must not change while it is in a set. The jobs
// are in short sorted blocks, so a change in a queue of 100 000 jobs moves only hundreds of
// pointers.
type set struct {
	blocks  [][]*job // no block is empty
	size    int
	compare func(a, b *job) int
}

// find returns the place of j, or where j would be inserted: block b, index i.
func (s *set) find(j *job) (b, i int, found bool) {
	b = sort.Search(len(s.blocks), func(b int) bool {
		block := s.blocks[b]
		return s.compare(block[len(block)-1], j) >= 0
	})
	if b == len(s.blocks) {
		return b, 0, false
	}
	i, found = slices.BinarySearchFunc(s.blocks[b], j, s.compare)
	return b, i, found
}

func (s *set) add(j *job) {
	s.size++
	b, i, _ := s.find(j)
	switch {
	case len(s.blocks) == 0:
		s.blocks = [][]*job{{j}}
		return
	case b == len(s.blocks): // after all other jobs
		b--
		i = len(s.blocks[b])
	}
	block := slices.Insert(s.blocks[b], i, j)
	s.blocks[b] = block

	// The capacity of the first half is cut, so that an append does not write into the second half.
	if half := blockSize / 2; len(block) > blockSize {
		s.blocks[b] = block[:half:half]
		s.blocks = slices.Insert(s.blocks, b+1, slices.Clone(block[half:]))
	}
}

// remove removes j if the set has it.
func (s *set) remove(j *job) {
	b, i, found := s.find(j)
	if !found {
		return
	}
	s.size--
	if s.blocks[b] = slices.Delete(s.blocks[b], i, i+1); len(s.blocks[b]) == 0 {
		s.blocks = slices.Delete(s.blocks, b, b+1)
	}
}

// first returns the first job, or nil if the set is empty.
func (s *set) first() *job {
	if len(s.blocks) == 0 {
		return nil
	}
	return s.blocks[0][0]
}

// all yields the jobs of the set, which must not change during the loop.
func (s *set) all() iter.Seq[*job] { return s.from(0, 0) }

// behind yields the jobs that sort after j. The set need not contain j.
func (s *set) behind(j *job) iter.Seq[*job] {
	b, i, found := s.find(j)
	if found {
		i++
	}
	return s.from(b, i)
}

// before yields the jobs that sort before j in reverse order. The set need not contain j.
func (s *set) before(j *job) iter.Seq[*job] {
	b, i, _ := s.find(j)
	return s.back(b, i)
}

func (s *set) reversed() iter.Seq[*job] { return s.back(len(s.blocks), 0) }

// back yields the jobs before a place in reverse order.
func (s *set) back(b, i int) iter.Seq[*job] {
	return func(yield func(*job) bool) {
		for {
			for i > 0 {
				i--
				if !yield(s.blocks[b][i]) {
					return
				}
			}
			if b == 0 {
				return
			}
			b--
			i = len(s.blocks[b])
		}
	}
}

// beyond yields the jobs after a place, in reverse order those before it. A nil place is the beginning.
func (s *set) beyond(place *job, reverse bool) iter.Seq[*job] {
	switch {
	case place == nil && reverse:
		return s.reversed()
	case place == nil:
		return s.all()
	case reverse:
		return s.before(place)
	}
	return s.behind(place)
}

// further returns the later of two places in the direction of the list. A nil b is ignored.
func (s *set) further(a, b *job, reverse bool) *job {
	if b == nil || (s.compare(a, b) > 0) != reverse {
		return a
	}
	return b
}

func (s *set) from(b, i int) iter.Seq[*job] {
	return func(yield func(*job) bool) {
		for ; b < len(s.blocks); b, i = b+1, 0 {
			for _, j := range s.blocks[b][i:] {
				if !yield(j) {
					return
				}
			}
		}
	}
}

// firstOf returns the first n jobs of a sequence.
func firstOf(jobs iter.Seq[*job], n int) (some []*job) {
	for j := range jobs {
		if len(some) == n {
			break
		}
		some = append(some, j)
	}
	return some
}

// count returns the length of a sequence, but at most `most`.
func count(jobs iter.Seq[*job], most int) (n int) {
	for range jobs {
		if n == most {
			break
		}
		n++
	}
	return n
}

func byNumber(a, b *job) int { return slices.Compare(a.number[:], b.number[:]) }

func byDue(a, b *job) int { return cmp.Or(cmp.Compare(a.DueAt, b.DueAt), byNumber(a, b)) }

// byRank compares two jobs by their order of delivery.
func byRank(a, b *job) int { return cmp.Or(cmp.Compare(b.Priority, a.Priority), byDue(a, b)) }

func byKey(a, b *job) int {
	return cmp.Or(cmp.Compare(len(a.OrderKey), len(b.OrderKey)), cmp.Compare(a.OrderKey, b.OrderKey), byRank(a, b))
}

func byLeaseEnd(a, b *job) int { return cmp.Or(cmp.Compare(a.leaseEnd, b.leaseEnd), byNumber(a, b)) }

func byFinished(a, b *job) int { return cmp.Or(cmp.Compare(a.finished, b.finished), byNumber(a, b)) }

func byEnd(a, b *job) int { return cmp.Or(cmp.Compare(a.end(), b.end()), byNumber(a, b)) }
