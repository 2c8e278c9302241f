package failures

import (
	"context"
	"hash/maphash"
	"time"

	"github.com/dulymq/duly"
)

// MaxGroups is the number of groups of one queue. The jobs of further groups count as others.
const MaxGroups = 1000

// Lister lists jobs. Every engine implements it.
type Lister interface {
	// List returns a page of jobs of one state.
	List(ctx context.Context, q duly.QueueRef, p duly.ListParams) (duly.ListPage, error)
}

// tally counts the dead jobs of one queue during a walk.
type tally struct {
	groups map[string]*Group
	// room reports whether one more group has room.
	room func() bool
	// examined is the number of counted jobs, other the number of those without a group.
	examined, other int64
	// size and died are the statistics of the queue when the walk began.
	size, died int64
	// cursor is the next page, last the page before with its jobs.
	cursor, last string
	jobs         map[uint64]bool
	ended        bool
	at           time.Time
}

// seed is the seed of the hashes of [deathOf].
var seed = maphash.MakeSeed()

// deathOf returns a hash that identifies one death of a job. A hash takes little memory, because each queue in memory has a page of them.
func deathOf(j *duly.JobInfo) uint64 {
	return maphash.String(seed, j.ID) ^ uint64(j.FinishedAt.UnixMilli())
}

func newTally(room func() bool) *tally {
	return &tally{groups: map[string]*Group{}, room: room}
}

// step reads the next page. ended is set after the last one.
func (t *tally) step(ctx context.Context, e Lister, q duly.QueueRef) error {
	page, err := listDead(ctx, e, q, t.cursor, duly.MaxBatch)
	if err != nil {
		return err
	}

	// A walk that continues reads its last page again, because new jobs may have filled it.
	seen := t.jobs
	if len(page.Jobs) > 0 {
		t.last, t.jobs = t.cursor, make(map[uint64]bool, len(page.Jobs))
	}
	for i := range page.Jobs {
		j := &page.Jobs[i]
		key := deathOf(j)
		t.jobs[key] = true
		if !seen[key] {
			t.add(q.Name, j)
		}
	}
	t.cursor, t.ended = page.Next, page.Next == ""
	return nil
}

// add counts a job.
func (t *tally) add(queue string, j *duly.JobInfo) {
	t.examined++
	pattern := Pattern(j.LastError)
	g := t.groups[pattern]
	if g == nil {
		if len(t.groups) >= MaxGroups || !t.room() {
			t.other++
			return
		}
		g = &Group{Fingerprint: hashOf(pattern), Pattern: pattern}
		t.groups[pattern] = g
	}
	g.add(queue, j)
}

// again makes the walk continue after its last job.
func (t *tally) again() { t.cursor, t.ended = t.last, false }

// listDead returns a page of dead jobs.
func listDead(ctx context.Context, e Lister, q duly.QueueRef, cursor string, limit int) (duly.ListPage, error) {
	return e.List(ctx, q, duly.ListParams{
		State: duly.StateDead, PageParams: duly.PageParams{Cursor: cursor, Limit: limit},
	})
}

// All walks over all dead jobs of a queue. It calls seen, if set, after each page with the number of jobs so far.
func All(ctx context.Context, e Lister, q duly.QueueRef, seen func(jobs int64)) (*Report, error) {
	t := newTally(func() bool { return true })
	for !t.ended {
		if err := t.step(ctx, e, q); err != nil {
			return nil, err
		}
		if seen != nil {
			seen(t.examined)
		}
	}

	r := &Report{groups: map[string]*Group{}, Jobs: t.examined}
	r.add(q.Name, t)
	r.sort()
	return r, nil
}
