package cli

import (
	"context"
	"time"

	"github.com/dulymq/duly/server/failures"
)

// deadGroup is the JSON of a group of dead jobs.
type deadGroup struct {
	Group    string           `json:"group"`
	Pattern  string           `json:"pattern"`
	Count    int64            `json:"count"`
	First    time.Time        `json:"first"`
	Last     time.Time        `json:"last"`
	Attempts []deadAttempt    `json:"attempts"`
	Samples  []deadGroupCause `json:"samples"`
}

// deadAttempt is the number of jobs that died at one attempt.
type deadAttempt struct {
	Attempt int   `json:"attempt"`
	Count   int64 `json:"count"`
}

// deadGroupCause is one job of a group.
type deadGroupCause struct {
	ID    string    `json:"id"`
	Error string    `json:"error,omitempty"`
	At    time.Time `json:"at"`
}

// deadGroups prints the groups of a queue's dead jobs by their errors, up to the limit.
func (a *app) deadGroups(ctx context.Context, p *printer, s *session, queue string, limit int) error {
	stats, err := s.Stats(ctx, s.queue(queue))
	if err != nil {
		return a.orMissing(ctx, s, err, queue)
	}

	bar := a.newProgress("count", stats.Sizes.Dead)
	r, err := failures.All(ctx, s, s.queue(queue), func(jobs int64) { bar.set(jobs, stats.Sizes.Dead, 0) })
	bar.end()
	if err != nil {
		return a.orMissing(ctx, s, err, queue)
	}
	if len(r.Groups) == 0 {
		if err := a.mustExist(ctx, s, queue); err != nil {
			return err
		}
		a.noteOnTerminal("there are no dead jobs in %s", queue)
		return nil
	}

	// A negative limit means none.
	rows := r.Groups
	if limit >= 0 && limit < len(rows) {
		rows = rows[:limit]
	}
	if err := p.deadGroups(r, rows); err != nil {
		return err
	}
	if more := len(r.Groups) - len(rows); more > 0 && !p.json {
		a.note("… %d more (--limit none)", more)
	}
	if r.Other > 0 && !p.json {
		a.note("… %s in further groups; %d groups are counted", plural(r.Other, "job"), failures.MaxGroups)
	}
	return nil
}

// deadGroups prints groups as a table, or as a line of JSON each.
func (p *printer) deadGroups(r *failures.Report, groups []*failures.Group) error {
	t := p.newTable(">JOBS", ">SHARE", "FIRST", "LAST", "TRIES", "GROUP", "")
	for _, g := range groups {
		if p.json {
			if err := p.value(deadGroupOf(g)); err != nil {
				return err
			}
			continue
		}
		t.add(txt(countText(g.Count)), txt(r.Share(g)), txt(relative(g.First, p.now())), txt(relative(g.Last, p.now())),
			txt(g.Tries()), txt(g.Fingerprint), cell{g.Sample(), red})
	}
	t.flush()
	return p.flush()
}

// deadGroupOf returns the JSON of a group.
func deadGroupOf(g *failures.Group) deadGroup {
	v := deadGroup{Group: g.Fingerprint, Pattern: g.Pattern, Count: g.Count, First: g.First, Last: g.Last}
	for _, n := range g.Attempts {
		v.Attempts = append(v.Attempts, deadAttempt(n))
	}
	for _, s := range g.Samples {
		v.Samples = append(v.Samples, deadGroupCause{ID: s.ID, Error: s.Error, At: s.At})
	}
	return v
}
