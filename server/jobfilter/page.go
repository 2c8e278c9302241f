package jobfilter

import (
	"context"
	"time"

	"github.com/dulymq/duly"
)

// step is the number of jobs of one call to the engine.
const step = 500

// Lister lists jobs. Every engine implements it.
type Lister interface {
	// List returns a page of jobs of one state.
	List(ctx context.Context, q duly.QueueRef, p duly.ListParams) (duly.ListPage, error)
}

// Found is a part of the jobs that match.
type Found struct {
	duly.ListPage
	// Examined is the number of jobs among which they were found.
	Examined int
}

// Page returns the jobs of a list for which match returns true. It ends when it has found list.Limit jobs, when the list
// ends, or after the first page of the engine that ends budget or more after the start. So a page may have few jobs or
// none, and a next page.
func Page(
	ctx context.Context, e Lister, clock duly.Clock, q duly.QueueRef, list duly.ListParams, budget time.Duration,
	match func(j *duly.JobInfo) bool,
) (f Found, err error) {
	begin, most := clock.Mono(), list.Limit
	f.Next, list.Limit = list.Cursor, step
	for {
		list.Cursor = f.Next
		page, err := e.List(ctx, q, list)
		if err != nil {
			return f, err
		}

		// A page can't end within a page of the engine. If that has too many jobs, the next call asks only for those up to
		// the last one that fits.
		found, last := some(page.Jobs, most-len(f.Jobs), match)
		if last < len(page.Jobs) {
			list.Limit = last
			continue
		}
		f.Jobs, f.Next, f.Examined = append(f.Jobs, found...), page.Next, f.Examined+len(page.Jobs)
		if f.Next == "" || len(f.Jobs) == most || clock.Mono()-begin >= budget {
			return f, nil
		}
		list.Limit = step
	}
}

// some returns at most room of the jobs that match, and the number of jobs up to the last one that fits.
func some(jobs []duly.JobInfo, room int, match func(j *duly.JobInfo) bool) (found []duly.JobInfo, last int) {
	for i := range jobs {
		if !match(&jobs[i]) {
			continue
		}
		if len(found) == room {
			return found, last
		}
		found, last = append(found, jobs[i]), i+1
	}
	return found, len(jobs)
}
