package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/wire"
	"github.com/dulymq/duly/server/auth"
	"github.com/dulymq/duly/server/route"
)

const readyText = "It answers 503 while the server stops, and for a minute after it has found the store reset: " +
	"the stored jobs are lost then. With several pools the default one has to answer. " +
	"The answer names the others that do not, and the status is degraded. " +
	"It is also degraded while the disk is full: pushes are refused as full, workers continue, and the answer is 200."

func (s *Server) healthRoutes() []route.Route {
	return []route.Route{
		{Method: "GET", Path: "/healthz", Access: auth.Open, Handler: alive, Doc: route.Doc{
			ID: "checkHealth", Summary: "Is the process alive?", Answer: wire.HealthForm, ExampleAnswer: healthy,
		}},
		{Method: "GET", Path: "/readyz", Access: auth.Open, Handler: s.ready, Doc: route.Doc{
			ID: "checkReadiness", Summary: "Does the engine answer?", Text: readyText,
			Answer: wire.HealthForm, ExampleAnswer: healthy, Errors: []duly.Code{duly.CodeUnavailable},
		}},
	}
}

const healthy = `{"status":"ok"}`

func alive(c *route.Call) error { return c.ReplyAs(http.StatusOK, "application/json", []byte(healthy)) }

// readyTimeout is the time that the engine has to answer.
const readyTimeout = 2 * time.Second

func (s *Server) ready(c *route.Call) error {
	if s.router.Leaving.Load() || c.Draining().Err() != nil {
		return route.ErrLeaving
	}
	ctx, cancel := context.WithTimeout(c.Context(), readyTimeout)
	defer cancel()

	if err := s.pingEngine(ctx); err != nil {
		c.Log().Warn("the engine is not ready", "code", string(duly.CodeOf(err)), "error", route.Fault(err))
		return duly.ErrUnavailable
	}
	if last, recent := s.recentReset(); recent {
		at := last.At.UTC().Format(time.RFC3339)
		c.Log().Warn("the store was reset", "at", at, "queues", fmt.Sprint(last.Queues), "tokens", last.Tokens)
		return wire.Own(contract.Errorf(duly.CodeUnavailable,
			"the store was reset at %s and has lost its data; the log has the details", at))
	}

	down, full := s.cfg.Pools.Down(ctx), s.fullPools(ctx)
	if len(down)+len(full) == 0 {
		return alive(c)
	}
	c.Log().Warn("not everything is ready", "unavailable", down, "full", full)
	degraded := wire.Health{Status: "degraded", Unavailable: down, Full: full}
	return c.Reply(http.StatusOK, wire.HealthForm.Append(c.Out(), degraded))
}

// pingEngine returns an error if the engine does not answer. With several pools it asks the pool
// with the tokens, because without tokens no request is admitted.
func (s *Server) pingEngine(ctx context.Context) (err error) {
	if s.cfg.Pools != nil {
		_, err = s.cfg.Store.Registry.Tokens(ctx, "", duly.PageParams{Limit: 1})
	} else {
		_, err = s.cfg.Engine.Queues(ctx, duly.DefaultNamespace, duly.PageParams{Limit: 1})
	}
	return err
}

// fullPools returns the pools that refuse new jobs because their disk is full. An engine without
// pools counts as the pool default.
func (s *Server) fullPools(ctx context.Context) []string {
	if a := s.cfg.Store.Accepter; a != nil && errors.Is(a.Accepts(ctx), duly.ErrFull) {
		return []string{contract.DefaultPool}
	}
	return s.cfg.Pools.Full(ctx)
}

// resetPeriod is how long a server is not ready after its store was reset, so that a monitor sees
// it. After that the server continues with the data that the store still has.
const resetPeriod = time.Minute

// recentReset returns the last reset, and reports whether it was within resetPeriod.
func (s *Server) recentReset() (last contract.Reset, recent bool) {
	if s.cfg.Store.Resetter == nil {
		return contract.Reset{}, false
	}
	last = s.cfg.Store.Resetter.LastReset()
	return last, !last.At.IsZero() && s.cfg.Clock.Now().Sub(last.At) < resetPeriod
}
