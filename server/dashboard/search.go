package dashboard

import (
	"fmt"
	"math"
	"strconv"
	"sync"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/server/dashboard/view"
	"github.com/dulymq/duly/server/failures"
	"github.com/dulymq/duly/server/jobfilter"
	"github.com/dulymq/duly/server/route"
)

const (
	// maxSearches and maxExports are the numbers of searches and of exports at one time. Each may use the engine for
	// searchTime in searchEvery. A slow reader of an export takes no place of a search.
	maxSearches, maxExports = 4, 2
	searchTime, searchEvery = 250 * time.Millisecond, time.Second
)

// searches are the places of searches. A place is free again searchEvery after its search began.
type searches struct {
	mu    sync.Mutex
	until [maxSearches]time.Duration // monotonic
}

// enter takes one of most places.
func (s *searches) enter(clock duly.Clock, most int) (leave func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := clock.Mono()
	for i := range s.until[:most] {
		if s.until[i] > now {
			continue
		}
		s.until[i] = math.MaxInt64
		return func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.until[i] = now + searchEvery
		}, nil
	}
	return nil, &duly.Error{Code: duly.CodeUnavailable, RetryAfter: searchEvery,
		Message: fmt.Sprintf("%d searches or exports run already; load the page again in a second", most)}
}

// matcher returns the condition of a request on the jobs of a list, nil without one. bodies reports whether it needs the
// bodies of the jobs.
func (d *Dashboard) matcher(c *route.Call, s duly.State) (match func(*duly.JobInfo) bool, bodies bool, err error) {
	fp := ""
	if s == duly.StateDead {
		if fp, err = groupOf(c); err != nil {
			return nil, false, err
		}
	}
	filter, err := jobfilter.Parse(c.Query("where"), d.cfg.Clock.Now())
	switch {
	case err != nil:
		return nil, false, err
	case d.cfg.HideBodies && filter.Content():
		return nil, false, contract.Errorf(duly.CodeForbidden,
			"this dashboard shows no bodies, headers and results, so no condition can be about them")
	case fp == "" && filter.Empty():
		return nil, false, nil
	}
	return func(j *duly.JobInfo) bool {
		holds := filter.Match(j) && (fp == "" || failures.Fingerprint(j.LastError) == fp)
		j.Body, j.Result = nil, nil // a page does not show them
		return holds
	}, filter.Bodies(), nil
}

// list returns a page of jobs. With conditions it examines jobs for a limited time.
func (d *Dashboard) list(c *route.Call, q duly.QueueRef, list duly.ListParams) (f jobfilter.Found, err error) {
	match, bodies, err := d.matcher(c, list.State)
	if err != nil {
		return f, err
	}
	if match == nil {
		f.ListPage, err = d.cfg.Engine.List(c.Context(), q, list)
		return f, err
	}

	leave, err := d.searches.enter(d.cfg.Clock, maxSearches)
	if err != nil {
		return f, err
	}
	defer leave()
	list.Bodies = bodies
	return jobfilter.Page(c.Context(), d.cfg.Engine, d.cfg.Clock, q, list, searchTime, match)
}

// progress describes a search over its pages so far, and returns the counts for the next page.
func progress(c *route.Call, found *jobfilter.Found, total int64, v *view.Jobs) (counts []string) {
	count := func(name string, more int) int {
		before, _ := strconv.Atoi(c.Query(name))
		return max(0, before) + more
	}
	examined, matches := count("examined", found.Examined), count("found", len(found.Jobs))
	v.Progress = fmt.Sprintf("%d examined · %d found", examined, matches)
	if v.From == "" {
		v.Progress = fmt.Sprintf("%d of %d examined · %d found", examined, max(total, int64(examined)), matches)
	}
	return []string{"examined", strconv.Itoa(examined), "found", strconv.Itoa(matches)}
}
