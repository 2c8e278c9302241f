package history

import (
	"slices"
	"time"
)

// Column is one number of a step.
type Column int

// The columns of every series. A step adds up the events of the first five, has the last number of ready jobs, and the
// largest age in seconds of the oldest ready job.
const (
	Pushed Column = iota
	Acked
	Failed
	Stalled
	Dead
	Ready
	Oldest
	// columns is their number. In the series of a namespace, the counts of a histogram of lateness follow.
	columns
)

// perPiece is the number of steps that a ring allocates at once, at most 64.
const perPiece = 36

// piece holds consecutive steps.
type piece struct {
	First int64 // the number of its first step
	// Seen has a bit for each step that was looked at.
	Seen   uint64
	Values floats
}

// ring has the newest steps of one length. Steps are numbered from the Unix epoch.
type ring struct {
	step time.Duration
	// keep is the number of steps, width the number of values in each.
	keep, width int
	Pieces      []*piece // by their first step, without those that were never looked at
}

// find returns the place of the piece with a step.
func (r *ring) find(step int64) (place int, found bool) {
	return slices.BinarySearchFunc(r.Pieces, step-step%perPiece, func(p *piece, first int64) int {
		return int(p.First - first)
	})
}

// get returns the values of a step, nil if it was not looked at.
func (r *ring) get(step int64) []float32 {
	place, found := r.find(step)
	if !found {
		return nil
	}
	p, at := r.Pieces[place], int(step%perPiece)
	if p.Seen&(1<<at) == 0 {
		return nil
	}
	return p.Values[at*r.width : (at+1)*r.width]
}

// see marks a step as looked at, and returns its values.
func (r *ring) see(step int64) []float32 {
	place, found := r.find(step)
	if !found {
		p := &piece{First: step - step%perPiece, Values: make([]float32, perPiece*r.width)}
		r.Pieces = slices.Insert(r.Pieces, place, p)
	}
	p, at := r.Pieces[place], int(step%perPiece)
	p.Seen |= 1 << at
	return p.Values[at*r.width : (at+1)*r.width]
}

// span is the time between two looks.
type span struct{ from, to time.Time }

// number returns the number of the step that contains a time.
func (r *ring) number(t time.Time) int64 { return t.UnixMilli() / r.step.Milliseconds() }

// start returns when a step begins.
func (r *ring) start(step int64) time.Time { return time.UnixMilli(step * r.step.Milliseconds()).UTC() }

// add records what happened between two looks. Steps share the events by their part of the time.
func (r *ring) add(s span, sample []float32) {
	length := s.to.Sub(s.from)
	for step := r.number(s.from); r.start(step).Before(s.to); step++ {
		begin, end := r.start(step), r.start(step+1)
		if begin.Before(s.from) {
			begin = s.from
		}
		if end.After(s.to) {
			end = s.to
		}
		part := float32(end.Sub(begin).Seconds() / length.Seconds())

		values := r.see(step)
		for i, v := range sample {
			switch Column(i) {
			case Ready:
				values[i] = v
			case Oldest:
				values[i] = max(values[i], v)
			default:
				values[i] += v * part
			}
		}
	}
}

// trim removes the steps that are too old.
func (r *ring) trim(now time.Time) {
	oldest := r.number(now) - int64(r.keep)
	r.Pieces = slices.DeleteFunc(r.Pieces, func(p *piece) bool { return p.First+perPiece <= oldest })
}

// cut removes the step that contains a time, and all later ones.
func (r *ring) cut(from time.Time) {
	first := r.number(from)
	for _, p := range r.Pieces {
		for at := max(0, first-p.First); at < perPiece; at++ {
			p.Seen &^= 1 << at
			clear(p.Values[int(at)*r.width : int(at+1)*r.width])
		}
	}
	r.Pieces = slices.DeleteFunc(r.Pieces, func(p *piece) bool { return p.Seen == 0 })
}

// The lengths of the steps, and how many of them a queue and a namespace have.
var (
	steps         = [...]time.Duration{10 * time.Second, time.Minute, 10 * time.Minute}
	queueKeep     = [...]int{180, 360, 432}
	namespaceKeep = [...]int{180, 360, 1008}
)

// series is the history of a queue or of a namespace.
type series struct {
	Rings [len(steps)]ring
	// active is the number of recent events. It decides which series lose their memory first.
	active float64
}

func newSeries(keep [len(steps)]int, width int) *series {
	s := &series{}
	_ = s.adopt(keep, width) // a series without steps has no fault
	return s
}

func (s *series) add(between span, sample []float32) {
	for i := range s.Rings {
		s.Rings[i].add(between, sample)
	}
	for _, v := range sample[:Ready] {
		s.active += float64(v)
	}
}

func (s *series) cut(from time.Time) {
	for i := range s.Rings {
		s.Rings[i].cut(from)
	}
}

// age removes old steps, and reports whether the series is empty.
func (s *series) age(now time.Time) (empty bool) {
	empty = true
	for i := range s.Rings {
		s.Rings[i].trim(now)
		empty = empty && len(s.Rings[i].Pieces) == 0
	}
	s.active *= 0.99
	return empty
}

// bytes estimates the memory of the series.
func (s *series) bytes() (n int64) {
	const head = 256 // of a series: its rings, its queue and its place in the map
	n = head
	for i := range s.Rings {
		n += int64(len(s.Rings[i].Pieces)) * int64(perPiece*s.Rings[i].width*4+56)
	}
	return n
}
