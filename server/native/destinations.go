package native

import (
	"slices"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/wire"
)

// checkJobs puts an error to each job with a destination that may not be called.
func (a *API) checkJobs(jobs *wire.Items[duly.Job]) {
	for i := range jobs.Values {
		if jobs.Errs != nil && jobs.Errs[i] != nil {
			continue
		}
		err := a.checkJob(&jobs.Values[i])
		if err == nil {
			continue
		}
		if jobs.Errs == nil {
			jobs.Errs = make([]error, len(jobs.Values))
		}
		jobs.Errs[i] = err
	}
}

func (a *API) checkJob(j *duly.Job) error {
	return a.checkDestinations("callback", j.Callback, j.OnDone, j.OnDead)
}

// checkDestinations checks where jobs and their notices go. first is the field of the
// first of them.
func (a *API) checkDestinations(first string, destinations ...string) error {
	if a.cfg.CheckDestination == nil || !slices.ContainsFunc(destinations, func(d string) bool { return d != "" }) {
		return nil
	}
	for i, field := range []string{first, "on_done", "on_dead"} {
		if err := a.cfg.CheckDestination(field, destinations[i]); err != nil {
			return err
		}
	}
	return nil
}
