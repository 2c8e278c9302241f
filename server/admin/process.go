package admin

import (
	"io"
	"runtime"
	"runtime/pprof"
	"runtime/trace"
	"strconv"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/server/metrics"
	"github.com/dulymq/duly/server/route"
)

// The routes serve the profiles of net/http/pprof. Unlike that package, these routes require a
// right, and never show the program's arguments, which may contain secrets.

const (
	defaultProfileTime = 30 * time.Second
	maxProfileTime     = 5 * time.Minute
)

// profile returns a profile of the process. The profiles "profile" and "trace" are recorded for
// some time. The other profiles are available at once.
func (a *API) profile(c *route.Call) error {
	switch name := c.PathValue("profile"); name {
	case "profile":
		return a.record(c, pprof.StartCPUProfile, pprof.StopCPUProfile)
	case "trace":
		return a.record(c, trace.Start, trace.Stop)
	default:
		return lookup(c, name)
	}
}

func lookup(c *route.Call, name string) error {
	p := pprof.Lookup(name)
	if p == nil {
		return contract.Errorf(duly.CodeNotFound, "there is no such profile; use profile, trace, or one of Go's runtime/pprof")
	}

	debug, err := number(c, "debug", 0, 2)
	if err != nil {
		return err
	}
	if name == "heap" {
		// The profile shows the heap at the end of the last collection.
		runtime.GC()
	}
	w, err := c.Stream(contentType(debug))
	if err != nil {
		return err
	}
	return p.WriteTo(w, debug)
}

func contentType(debug int) string {
	if debug > 0 {
		return "text/plain; charset=utf-8"
	}
	return "application/octet-stream"
}

// record records a profile for the time in the query.
func (a *API) record(c *route.Call, start func(io.Writer) error, stop func()) error {
	seconds, err := number(c, "seconds", int(defaultProfileTime.Seconds()), int(maxProfileTime.Seconds()))
	if err != nil {
		return err
	}
	ctx, release, err := c.LongContext()
	if err != nil {
		return ended(err)
	}
	defer release()

	// The process can record only one profile of a kind at a time.
	if err := start(&lateStream{call: c, name: "duly.pprof"}); err != nil {
		return contract.Errorf(duly.CodeConflict, "another caller is recording this profile; retry when it has ended")
	}
	defer stop()

	timer := a.Clock.NewTimer(time.Duration(seconds) * time.Second)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	// A profile must not delay the shutdown of the server. The caller gets what is recorded so far.
	case <-c.Draining().Done():
	}
	return nil
}

// number returns a query parameter as a number, or a default if the parameter is absent.
func number(c *route.Call, name string, byDefault, maximum int) (int, error) {
	text := c.Query(name)
	if text == "" {
		return byDefault, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > maximum {
		return 0, contract.Invalid(name, "must be a number between 0 and %d", maximum)
	}
	return n, nil
}

func (a *API) metrics(c *route.Call) error { return metrics.Serve(a.Gatherer, c) }
