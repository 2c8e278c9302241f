package admin

import (
	"io"
	"runtime"
	"runtime/pprof"
	"runtime/trace"
	"strconv"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/server/metrics"
	"github.com/dulymq/duly/server/route"
)

// What net/http/pprof does, behind a right and without the program's arguments,
// which may hold secrets.

const (
	usualProfile   = 30 * time.Second
	longestProfile = 5 * time.Minute
)

// profile answers one of the program's profiles: "profile" and "trace" are
// taken for a while, the others are there.
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
		return duly.Errorf(duly.CodeNotFound, "there is no such profile; there are profile, trace, and those of Go's runtime/pprof")
	}
	debug, err := number(c, "debug", 0, 2)
	if err != nil {
		return err
	}
	if name == "heap" {
		runtime.GC() // the profile is of the last one
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

// record takes a profile for as long as the query says.
func (a *API) record(c *route.Call, start func(io.Writer) error, stop func()) error {
	seconds, err := number(c, "seconds", int(usualProfile.Seconds()), int(longestProfile.Seconds()))
	if err != nil {
		return err
	}
	ctx, release, err := c.Stay()
	if err != nil {
		return ended(err)
	}
	defer release()
	if err := start(&lateStream{call: c, name: "duly.pprof"}); err != nil {
		return duly.Errorf(duly.CodeConflict, "another profile is being taken; repeat when that has ended")
	}
	defer stop()
	timer := a.Clock.NewTimer(time.Duration(seconds) * time.Second)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-c.Draining().Done():
	}
	return nil
}

// number reads a query parameter; usual if it is absent.
func number(c *route.Call, name string, usual, most int) (int, error) {
	text := c.Query(name)
	if text == "" {
		return usual, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > most {
		return 0, duly.Invalid(name, "must be a number between 0 and %d", most)
	}
	return n, nil
}

func (a *API) metrics(c *route.Call) error { return metrics.Serve(a.Gatherer, c) }
