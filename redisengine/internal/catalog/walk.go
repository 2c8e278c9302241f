package catalog

// Walk is how far a call has come in the shards of a queue. If one of them has
// another configuration by now the call is repeated, and what the others have
// said stands: else a queue whose configuration is changed all the time would
// never be walked through. One that was made anew is.
type Walk struct {
	birth string // of the queue
	done  int    // shards
}

// Begin tells whether the queue is one whose shards were not asked yet.
func (w *Walk) Begin(q *Queue) bool {
	birth := q.Version[8:]
	if w.birth == birth {
		return false
	}
	*w = Walk{birth: birth}
	return true
}

// Each does something with every shard that is left, beginning at the first one.
func (w *Walk) Each(q *Queue, first int, f func(s *Shard) error) error {
	w.Begin(q)
	for ; w.done < len(q.Shards); w.done++ {
		if err := f(q.Shards[(first+w.done)%len(q.Shards)]); err != nil {
			return err
		}
	}
	return nil
}
