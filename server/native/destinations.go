package native

import (
	"slices"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/wire"
)

// checkJobs sets the error of each job with a destination that may not be called.
func (a *API) checkJobs(jobs *wire.Items[duly.Job]) {
	for i := range jobs.Values {
		// The first fault of a job is enough.
		if jobs.Err(i) != nil {
			continue
		}
		if err := a.checkJob(&jobs.Values[i]); err != nil {
			jobs.Fail(i, err)
		}
	}
}

func (a *API) checkJob(j *duly.Job) error {
	return a.checkDestinations("callback", j.Callback, j.OnDone, j.OnDead)
}

// checkDestinations checks the destinations of jobs and of their notices. first is the field name
// of the first destination.
func (a *API) checkDestinations(first string, destinations ...string) error {
	given := slices.ContainsFunc(destinations, func(d string) bool { return d != "" })
	// Most jobs have no destination.
	if a.cfg.CheckDestination == nil || !given {
		return nil
	}
	for i, field := range []string{first, "on_done", "on_dead"} {
		if err := a.cfg.CheckDestination(field, destinations[i]); err != nil {
			return err
		}
	}
	return nil
}
