package failures

import (
	"context"
	"time"

	"github.com/dulymq/duly"
)

const (
	// MaxSelected is the number of jobs of one [Selection.Each].
	MaxSelected = 10_000
	// patience bounds the time of one [Selection.Each].
	patience = 10 * time.Second
	// pageCalls is the number of calls of one [Selection.Page].
	pageCalls = 20
)

// Selection selects the dead jobs of a group in one queue.
type Selection struct {
	Fingerprint string
	// Before leaves out the jobs that died later, with the precision of milliseconds in which engines store it.
	Before time.Time
	// Cursor is the place where the selection continues, "" for its beginning.
	Cursor string
	// More is set by Each if the selection has more jobs. Then Cursor is their place.
	More bool
}

// has reports whether a job is selected.
func (s *Selection) has(j *duly.JobInfo) bool {
	return (s.Before.IsZero() || !j.FinishedAt.After(s.Before)) && Fingerprint(j.LastError) == s.Fingerprint
}

// Each calls do with the IDs of the selected jobs, in steps of at most [duly.MaxBatch]. do removes the jobs from the dead
// ones. Each ends after [MaxSelected] jobs or 10 s. A later call continues.
func (s *Selection) Each(
	ctx context.Context, e Lister, clock duly.Clock, q duly.QueueRef, do func(ids []string) error,
) error {
	begin, left := clock.Mono(), MaxSelected
	for {
		page, err := listDead(ctx, e, q, s.Cursor, duly.MaxBatch)
		if err != nil {
			return err
		}
		var ids []string
		for i := range page.Jobs {
			if s.has(&page.Jobs[i]) {
				ids = append(ids, page.Jobs[i].ID)
			}
		}

		// The rest of a page stays where it is, so the selection continues at the same page.
		if s.More = len(ids) > left; s.More {
			ids = ids[:left]
		}
		if len(ids) > 0 {
			if err := do(ids); err != nil {
				return err
			}
		}
		left -= len(ids)
		if s.More {
			return nil
		}
		if s.Cursor = page.Next; s.Cursor == "" {
			return nil
		}
		if s.More = left == 0 || clock.Mono()-begin >= patience; s.More {
			return nil
		}
	}
}

// Page is a part of the list of selected jobs.
type Page struct {
	duly.ListPage
	// Examined is the number of jobs among which they were found.
	Examined int
}

// Page returns up to most of the selected jobs from the cursor on. It examines a limited number of jobs, so a page may
// have few jobs and a next page.
func (s *Selection) Page(ctx context.Context, e Lister, q duly.QueueRef, most int) (p Page, err error) {
	p.Next = s.Cursor
	limit := duly.MaxBatch
	for range pageCalls {
		page, err := listDead(ctx, e, q, p.Next, limit)
		if err != nil {
			return p, err
		}
		var found []duly.JobInfo
		for i := range page.Jobs {
			if s.has(&page.Jobs[i]) {
				found = append(found, page.Jobs[i])
			}
		}

		// A page cannot end within a page of the engine. So a short one replaces a page with too many jobs.
		if len(p.Jobs)+len(found) > most {
			if 2*len(p.Jobs) > most {
				return p, nil
			}
			limit = most - len(p.Jobs)
			continue
		}
		p.Jobs, p.Next = append(p.Jobs, found...), page.Next
		p.Examined += len(page.Jobs)
		if p.Next == "" || len(p.Jobs) == most {
			return p, nil
		}
	}
	return p, nil
}
