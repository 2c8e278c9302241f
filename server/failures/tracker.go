package failures

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

const (
	// budget is the time of one look. The next look continues.
	budget = 2 * time.Second
	// pause is how much longer than the last walk of a queue the time before the next one is.
	pause = 2
	// keep is how long the groups of a queue stay in memory after the last look.
	keep = 10 * time.Minute
	// maxAll is the number of groups of all queues in memory.
	maxAll = 10_000
)

// Size has the statistics of a queue that show whether its dead jobs have changed.
type Size struct {
	Queue string
	// Dead is the number of dead jobs, Died the counter of jobs that became dead.
	Dead, Died int64
	// Mono is the monotonic time of the statistics.
	Mono time.Duration
	// Err is why the statistics could not be read.
	Err error
}

// SizeOf returns the size of a queue by its statistics.
func SizeOf(queue string, s *duly.Stats, mono time.Duration) Size {
	return Size{Queue: queue, Dead: s.Sizes.Dead, Died: s.Counters.Dead, Mono: mono}
}

// Sizes returns the sizes of the queues of a survey, or of only one if it is named. If the survey ended before that
// queue, Sizes calls stats.
func Sizes(
	ctx context.Context, queues []contract.QueueStats, only duly.QueueRef, mono time.Duration,
	stats func(context.Context, duly.QueueRef) (duly.Stats, error),
) (list []Size, err error) {
	for i := range queues {
		if q := &queues[i]; only.Name == "" || only.Name == q.Name {
			list = append(list, SizeOf(q.Name, &q.Stats, mono))
			list[len(list)-1].Err = q.Err
		}
	}
	if only.Name == "" || len(list) > 0 {
		return list, nil
	}

	s, err := stats(ctx, only)
	return []Size{SizeOf(only.Name, &s, mono)}, err
}

// Tracker keeps the groups of the queues that people look at. It calls the engine only within a look. It is safe for
// concurrent use.
type Tracker struct {
	Engine Lister
	Clock  duly.Clock

	mu     sync.Mutex
	queues map[duly.QueueRef]*queue
	all    atomic.Int64 // groups in memory
}

// queue has the groups of one queue.
type queue struct {
	// turn has one element. A look takes it while it uses the fields below.
	turn chan struct{}
	used time.Duration // guarded by the tracker's mutex

	// shown is the last complete walk, nil before its end. next is the walk in progress, nil without one.
	shown, next *tally
	// seen is the time of the newest statistics. ended and took are the end and the time of the last walk.
	seen, ended, took time.Duration
}

// Sizes returns the size of one queue by its newest statistics.
func (t *Tracker) Sizes(queue string, s *duly.Stats) []Size {
	return []Size{SizeOf(queue, s, t.Clock.Mono())}
}

// Look returns the groups of some queues of a namespace. It walks over the queues that have changed, for a limited
// time. A queue that fails is a problem of the report. If all queues fail, Look returns the error.
func (t *Tracker) Look(ctx context.Context, namespace string, sizes []Size) (*Report, error) {
	until := t.Clock.Mono() + budget
	r := &Report{groups: map[string]*Group{}}
	var failed error
	asked := 0
	for i := range sizes {
		size := &sizes[i]
		ref := duly.QueueRef{Namespace: namespace, Name: size.Queue}
		r.Jobs += size.Dead
		if size.Err != nil {
			asked++
			r.Problems, failed = append(r.Problems, size.Queue), errors.Join(failed, size.Err)
			continue
		}
		if size.Dead == 0 {
			t.empty(ref.Normal(), size)
			continue
		}

		asked++
		if err := t.lookAt(ctx, ref, size, until, r); err != nil {
			r.Problems = append(r.Problems, size.Queue)
			failed = errors.Join(failed, err)
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}

	t.sweep()
	if asked > 0 && len(r.Problems) == asked {
		return nil, failed
	}
	r.sort()
	return r, nil
}

// Count returns the number of a group's jobs in one queue by its newest statistics. uncounted is the number of dead jobs
// that the report has not counted, which may belong to the group.
func (t *Tracker) Count(
	ctx context.Context, fingerprint string, q duly.QueueRef, now *duly.Stats,
) (count, uncounted int64, err error) {
	r, err := t.Look(ctx, q.Namespace, t.Sizes(q.Name, now))
	if err != nil {
		return 0, 0, err
	}
	if g := r.Find(fingerprint); g != nil {
		count = g.Count
	}
	return count, max(0, now.Sizes.Dead-r.Examined), nil
}

// lookAt adds the groups of one queue to a report.
func (t *Tracker) lookAt(ctx context.Context, ref duly.QueueRef, size *Size, until time.Duration, r *Report) error {
	q := t.queue(ref.Normal())
	select {
	case <-q.turn:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { q.turn <- struct{}{} }()

	err := t.update(ctx, q, ref, size, until)
	switch {
	case q.shown != nil:
		r.add(ref.Name, q.shown)
	case q.next != nil:
		r.add(ref.Name, q.next)
	}
	r.Unfinished = r.Unfinished || q.next != nil || q.shown != nil && !q.shown.ended
	return err
}

// queue returns the state of a queue.
func (t *Tracker) queue(ref duly.QueueRef) *queue {
	t.mu.Lock()
	defer t.mu.Unlock()
	q := t.queues[ref]
	if q == nil {
		q = &queue{turn: make(chan struct{}, 1)}
		q.turn <- struct{}{}
		if t.queues == nil {
			t.queues = map[duly.QueueRef]*queue{}
		}
		t.queues[ref] = q
	}
	q.used = t.Clock.Mono()
	return q
}

// sweep drops the queues that nobody has looked at for a while.
func (t *Tracker) sweep() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for ref, q := range t.queues {
		if t.Clock.Mono()-q.used < keep {
			continue
		}
		select {
		case <-q.turn:
			t.clear(q)
			delete(t.queues, ref)
			q.turn <- struct{}{} // a look may wait for it
		default: // in use after all
		}
	}
}

// clear drops the groups of a queue. The caller has its turn.
func (t *Tracker) clear(q *queue) {
	t.drop(q.shown)
	t.drop(q.next)
	q.shown, q.next = nil, nil
}

// empty drops the groups of a queue without dead jobs. Otherwise a queue that was destroyed and created again could look
// unchanged.
func (t *Tracker) empty(ref duly.QueueRef, size *Size) {
	t.mu.Lock()
	q := t.queues[ref]
	t.mu.Unlock()
	if q == nil {
		return
	}

	select {
	case <-q.turn:
		if size.Mono >= q.seen {
			t.clear(q)
		}
		q.turn <- struct{}{}
	default: // another look has it
	}
}

func (t *Tracker) room() bool {
	if t.all.Load() >= maxAll {
		return false
	}
	t.all.Add(1)
	return true
}

func (t *Tracker) drop(w *tally) {
	if w != nil {
		t.all.Add(-int64(len(w.groups)))
	}
}

// update walks over a queue if it has changed, at most until a moment.
func (t *Tracker) update(ctx context.Context, q *queue, ref duly.QueueRef, size *Size, until time.Duration) error {
	begin, old := t.Clock.Mono(), size.Mono < q.seen
	q.seen = max(q.seen, size.Mono)
	if q.next == nil {
		switch {
		case q.shown == nil:
			t.start(q, size)
		case old:
			return nil
		case q.shown.ended && q.shown.agrees(size):
			q.shown.at = t.Clock.Now()
			return nil
		case q.shown.ended && begin-q.ended < pause*q.took:
			return nil
		case q.shown.onlyGrew(size):
			if q.shown.ended {
				q.took = 0
				q.shown.again()
			}
		default:
			t.start(q, size)
		}
	}

	err := t.run(ctx, q, ref, size, until)
	now := t.Clock.Mono()
	q.took += now - begin
	if q.next == nil && err == nil {
		q.ended = now
	}
	return err
}

// start begins a walk over all dead jobs.
func (t *Tracker) start(q *queue, size *Size) {
	q.next, q.took = newTally(t.room), 0
	q.next.size, q.next.died = size.Dead, size.Died
}

// run continues the walk of a queue.
func (t *Tracker) run(ctx context.Context, q *queue, ref duly.QueueRef, size *Size, until time.Duration) error {
	if q.next == nil {
		// New jobs are behind the last one, except with several shards.
		for !q.shown.ended {
			if t.Clock.Mono() >= until {
				return nil
			}
			if err := q.shown.step(ctx, t.Engine, ref); err != nil {
				if ctx.Err() == nil {
					t.start(q, size)
				}
				return err
			}
		}
		if q.shown.examined >= size.Dead {
			q.shown.size, q.shown.died, q.shown.at = size.Dead, size.Died, t.Clock.Now()
			return nil
		}
		t.start(q, size)
	}

	q.next.at = t.Clock.Now()
	for !q.next.ended {
		if t.Clock.Mono() >= until {
			return nil
		}
		if err := q.next.step(ctx, t.Engine, ref); err != nil {
			// The cursor may be the reason, so the walk begins again, except if only the caller has gone.
			if ctx.Err() == nil {
				t.drop(q.next)
				q.next = nil
			}
			return err
		}
	}
	t.drop(q.shown)
	q.shown, q.next = q.next, nil
	q.shown.at = t.Clock.Now()
	return nil
}

// agrees reports whether a walk has counted the jobs of the statistics. No job has left the set if as many have died as
// it has grown by.
func (t *tally) agrees(s *Size) bool {
	if t.size == s.Dead && t.died == s.Died {
		return true
	}
	if t.examined == s.Dead && t.onlyGrew(s) {
		t.size, t.died = s.Dead, s.Died
		return true
	}
	return false
}

// onlyGrew reports whether jobs have died since the walk, and none has left the set.
func (t *tally) onlyGrew(s *Size) bool {
	return s.Died > t.died && s.Died-t.died == s.Dead-t.size
}
