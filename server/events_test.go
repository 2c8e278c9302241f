package server

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/logtest"
	"github.com/dulymq/duly/server/observe"
)

// questioned is an engine that counts calls to Stats.
type questioned struct {
	contract.Engine
	asked int
}

func (c *questioned) Stats(ctx context.Context, q duly.QueueRef) (duly.Stats, error) {
	c.asked++
	return c.Engine.Stats(ctx, q)
}

// Every death of a job is logged once. Without activity, no stats are read.
func TestDeadJobsAreLogged(t *testing.T) {
	t.Parallel()
	engine := &questioned{}
	f := serve(t, func(c *Config) {
		engine.Engine = c.Engine
		c.Engine = engine
	})
	ctx := t.Context()

	die := func(queue string) {
		t.Helper()
		f.send("POST", "/v1/default/push", `{"jobs":[{"queue":"`+queue+`","tries":1,"max_stalls":"none"}]}`)
		a := f.send("POST", "/v1/default/reserve", `{"queues":["`+queue+`"],"lease":"1s"}`)
		receipt, _, _ := strings.Cut(strings.SplitN(a.body, `"receipt":"`, 2)[1], `"`)
		f.send("POST", "/v1/default/settle", `{"outcomes":[{"receipt":"`+receipt+`","as":"nack"}]}`)
	}

	logged := func() int { return strings.Count(f.log.String(), `"jobs have become dead"`) }
	die("before")
	f.deaths.begin(f.survey.Snapshot(ctx))
	engine.asked = 0
	f.sweep.swept(ctx)
	if logged() != 0 {
		t.Error("deaths before the start are logged")
	}
	die("q")
	f.sweep.swept(ctx)
	if logged() != 1 || !strings.Contains(f.log.String(), `"queue":"`+duly.Q("q").String()+`","jobs":1,"dead":1`) {
		t.Errorf("%d deaths are logged", logged())
	}
	f.send("POST", "/v1/default/push", `{"jobs":[{"queue":"q","tries":1,"max_stalls":"none"}]}`)
	f.send("POST", "/v1/default/reserve", `{"queues":["q"],"lease":"1s"}`)
	f.sweep.swept(ctx) // the lease has not ended yet
	f.clock.Advance(2 * time.Second)
	f.sweep.swept(ctx)
	if logged() != 2 {
		t.Errorf("%d deaths are logged after a stall", logged())
	}
	before := engine.asked
	for range 3 {
		f.sweep.swept(ctx)
	}
	if engine.asked != before || logged() != 2 {
		t.Errorf("nothing goes on, and the engine was asked %d times", engine.asked-before)
	}
}

// The loss and the return of the store are logged once each.
func TestLossAndReturnOfTheStoreAreLoggedOnce(t *testing.T) {
	t.Parallel()
	var log logtest.Log
	c, current := clock.NewFake(), error(nil)
	engine := &failing{nil, func() error { return current }}
	health := newHealthLog(&Config{Clock: c, Logger: slog.New(slog.NewJSONHandler(&log, nil))})
	e := observe.New(engine, health.observer())
	gone, cancel := context.WithCancel(t.Context())
	cancel()

	step := func(ctx context.Context, err error, want string) {
		t.Helper()
		before := log.String()
		current = err
		_, _ = e.Push(ctx, []duly.Job{{}})
		_, _ = e.Reserve(ctx, duly.ReserveParams{})
		_, _ = e.Settle(ctx, "", nil)
		said := strings.TrimPrefix(log.String(), before)
		if strings.Count(said, "\n") != min(len(want), 1) || !strings.Contains(said, want) {
			t.Errorf("after %v the log says %q, want %q", err, said, want)
		}
	}

	step(t.Context(), nil, "")
	// The caller closed the connection, which says nothing about the store.
	step(gone, duly.ErrUnavailable, "")
	step(t.Context(), duly.ErrFull, "")
	step(t.Context(), duly.ErrUnavailable, `"the store is lost: calls to it fail"`)
	c.Advance(3 * time.Second)
	step(t.Context(), duly.ErrUnavailable, "")
	step(t.Context(), context.DeadlineExceeded, "")
	step(t.Context(), duly.ErrClosed, "")
	step(t.Context(), duly.ErrFull, `"the store is back","pool":"default","after":3000000000`)
	step(t.Context(), errors.New("x"), "")
	step(t.Context(), duly.ErrUnavailable, "lost")
	step(t.Context(), nil, "back")
}

// C15.41: the access log has a line for each request, with the token's name and without its text.
// Without an access log, only failed requests have lines.
func TestAccessLogHasALinePerRequest(t *testing.T) {
	t.Parallel()
	for _, on := range []bool{true, false} {
		var log logtest.Log
		f := serve(t, func(c *Config) {
			c.Settings.AccessLog = on
			c.Logger = slog.New(slog.NewJSONHandler(&log, nil))
		})
		f.send("POST", "/v1/default/push", `{"jobs":[{"queue":"q","body":"CANARY"}]}`, "produce")
		f.send("GET", "/v1/default/queues/q/jobs?state=ready", "", "produce")
		var lines []map[string]any

		for line := range strings.Lines(log.String()) {
			var l map[string]any
			if err := json.Unmarshal([]byte(line), &l); err != nil {
				t.Fatalf("%v in %s", err, line)
			}
			if l["msg"] == "request" {
				lines = append(lines, l)
			}
		}

		want := 1
		if on {
			want = 2
		}
		if len(lines) != want {
			t.Fatalf("with an access log (%v): %s", on, log.String())
		}
		refused := lines[len(lines)-1]
		if refused["status"] != 403.0 || refused["code"] != "forbidden" ||
			refused["route"] != "/v1/{namespace}/queues/{queue}/jobs" {
			t.Errorf("refused: %v", refused)
		}

		if on {
			for field, value := range map[string]any{"method": "POST", "route": "/v1/{namespace}/push",
				"status": 200.0, "token": f.id("produce")[:8], "namespace": "default"} {
				if lines[0][field] != value {
					t.Errorf("%s is %v, want %v", field, lines[0][field], value)
				}
			}
			for _, field := range []string{"request", "took", "bytes", "remote"} {
				if lines[0][field] == nil {
					t.Errorf("no %s in %v", field, lines[0])
				}
			}
		}

		if strings.Contains(log.String(), "CANARY") || strings.Contains(log.String(), f.tokens["produce"]) {
			t.Error("a body or a token is in the log")
		}
	}
}
