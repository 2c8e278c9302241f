package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/wire"
	"github.com/dulymq/duly/server/auth"
	"github.com/dulymq/duly/server/route"
)

func (s *Server) healthRoutes() []route.Route {
	return []route.Route{
		{Method: "GET", Path: "/healthz", Need: auth.Open, Handler: alive, Doc: route.Doc{
			ID: "checkHealth", Summary: "Is the process alive?", Answer: wire.HealthForm, ExampleAnswer: healthy,
		}},
		{Method: "GET", Path: "/readyz", Need: auth.Open, Handler: s.ready, Doc: route.Doc{
			ID: "checkReadiness", Summary: "Does the engine answer?", Text: "503 also from the moment that the server is told to stop, and for a minute after it has found the store reset: what was stored is lost then. Of several pools the default one has to answer; others that do not are named, and the status is degraded. It is degraded too while the disk is full: pushes are refused as full and workers go on, so the answer stays 200.", Answer: wire.HealthForm,
			Errors: []duly.Code{duly.CodeUnavailable}, ExampleAnswer: healthy,
		}},
	}
}

const healthy = `{"status":"ok"}`

func alive(c *route.Call) error { return c.ReplyAs(http.StatusOK, "application/json", []byte(healthy)) }

// readyWithin bounds how long the engine may take to answer.
const readyWithin = 2 * time.Second

func (s *Server) ready(c *route.Call) error {
	if s.host.Leaving.Load() || c.Draining().Err() != nil {
		return route.ErrLeaving
	}
	ctx, cancel := context.WithTimeout(c.Context(), readyWithin)
	defer cancel()
	if err := s.answers(ctx); err != nil {
		c.Log().Warn("the engine is not ready", "code", string(duly.CodeOf(err)), "error", route.Fault(err))
		return duly.ErrUnavailable
	}
	if at, reset := s.reset(); reset {
		c.Log().Warn("the store was reset", "at", at.At.UTC().Format(time.RFC3339), "queues", fmt.Sprint(at.Queues), "tokens", at.Tokens)
		return wire.Own(duly.Errorf(duly.CodeUnavailable, "the store was reset at %s: what it held is lost; the log says what", at.At.UTC().Format(time.RFC3339)))
	}

	down, full := s.cfg.Pools.Down(ctx), s.full(ctx)
	if len(down)+len(full) == 0 {
		return alive(c)
	}
	c.Log().Warn("not everything is ready", "unavailable", down, "full", full)
	degraded := wire.Health{Status: "degraded", Unavailable: down, Full: full}
	return c.Reply(http.StatusOK, wire.HealthForm.Append(c.Out(), degraded))
}

// answers asks the engine, of several the one without which nobody is let in.
func (s *Server) answers(ctx context.Context) (err error) {
	if s.cfg.Pools != nil {
		_, err = s.cfg.Registry.Tokens(ctx, "", duly.PageParams{Limit: 1})
	} else {
		_, err = s.cfg.Engine.Queues(ctx, duly.DefaultNamespace, duly.PageParams{Limit: 1})
	}
	return err
}

// full lists the pools that refuse new jobs because their disk is full; an
// engine without pools is the default one.
func (s *Server) full(ctx context.Context) []string {
	if s.cfg.Accepter != nil && errors.Is(s.cfg.Accepter.Accepts(ctx), duly.ErrFull) {
		return []string{duly.DefaultPool}
	}
	return s.cfg.Pools.Full(ctx)
}

// resetShows is for how long a server is not ready after its store was reset:
// whoever looks at it every now and then is to see that, and the server goes on
// with what is there.
const resetShows = time.Minute

// reset tells of a reset that is to show.
func (s *Server) reset() (duly.Reset, bool) {
	if s.cfg.Resetter == nil {
		return duly.Reset{}, false
	}
	last := s.cfg.Resetter.LastReset()
	return last, !last.At.IsZero() && s.cfg.Clock.Now().Sub(last.At) < resetShows
}
