package server

import (
	"context"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/model"
	"github.com/dulymq/duly/server/pools"
)

// stackEngine stores the methods Push that a push has passed, its own excluded.
type stackEngine struct {
	*model.Engine
	passed []string
}

func (e *stackEngine) Push(ctx context.Context, jobs []duly.Job) ([]duly.PushResult, error) {
	var pcs [128]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	e.passed = nil
	for more := true; more; {
		var f runtime.Frame
		if f, more = frames.Next(); strings.HasSuffix(f.Function, ").Push") {
			e.passed = append(e.passed, f.Function)
		}
	}
	return e.Engine.Push(ctx, jobs)
}

// allTracer traces every push.
type allTracer struct{ pushes int }

func (*allTracer) Begin(r *http.Request, _ string) (context.Context, func(int)) {
	return r.Context(), func(int) {}
}

func (a *allTracer) Pushing(ctx context.Context, jobs []duly.Job) (
	context.Context, []duly.Job, func([]duly.PushResult, error),
) {
	a.pushes++
	return ctx, jobs, func([]duly.PushResult, error) {}
}

func (*allTracer) Firing(ctx context.Context, _ duly.QueueRef, _ int64, items []contract.FireItem) (
	context.Context, []contract.FireItem, func([]contract.FireResult, error),
) {
	return ctx, items, func([]contract.FireResult, error) {}
}

// With all observers of calls switched on, a push by HTTP passes one decorator, or two with pools.
// Pools choose an engine, so they do not count as a decorator. internal/archtest lists the types
// that can be one, because a method that an embedded engine provides is not in a stack.
func TestPushPassesAtMostTwoDecorators(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		in   bool
		want int
	}{{"one engine", false, 1}, {"pools", true, 2}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var engine *stackEngine
			tracer := &allTracer{}
			f := serve(t, func(cfg *Config) {
				engine = &stackEngine{Engine: cfg.Engine.(*firingEngine).Engine}
				cfg.Engine, cfg.Tracer = engine, tracer
				if !c.in {
					return
				}
				in, err := pools.New(pools.Config{Clock: cfg.Clock, Logger: cfg.Logger,
					Engines: map[string]pools.Engine{contract.DefaultPool: {Open: engine}}})
				if err != nil {
					t.Fatal(err)
				}
				cfg.Engine, cfg.Store, cfg.Pools = nil, Store{}, in
			})

			for i, call := range []struct{ method, path, body string }{
				{"POST", "/v1/default/push", `{"jobs":[{"queue":"q"}]}`},
				{"POST", "/v1/default/queues/q/jobs", `{}`},
				{"PUT", "/api/default/q?token=" + f.tokens["admin"], "body"},
			} {
				if a := f.send(call.method, call.path, call.body); a.status/100 != 2 {
					t.Fatalf("%s: %d %s", call.path, a.status, a.body)
				}
				passed := 0
				for _, name := range engine.passed {
					if !strings.HasSuffix(name, "pools.(*Pools).Push") {
						passed++
					}
				}
				if passed != c.want || tracer.pushes != i+1 {
					t.Errorf("%s: the push passed %d decorators, want %d: %q", call.path, passed, c.want, engine.passed)
				}
			}
		})
	}
}
