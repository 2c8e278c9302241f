package pools_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/model"
	"github.com/dulymq/duly/server/pools"
)

// logBuffer is a log that a test can read while it is written.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (d *logBuffer) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.text.Write(p)
}

func (d *logBuffer) lines(with string) (lines []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for line := range strings.Lines(d.text.String()) {
		if strings.Contains(line, with) {
			lines = append(lines, line)
		}
	}
	return lines
}

// newLoggedPools returns Pools with a default engine and orders, and their log.
func newLoggedPools(
	t *testing.T, c *clock.Fake, engine contract.Engine, orders pools.Engine,
) (*pools.Pools, *logBuffer) {
	t.Helper()
	log := &logBuffer{}
	p, err := pools.New(pools.Config{
		Clock: c, Logger: slog.New(slog.NewTextHandler(log, nil)),
		Engines: map[string]pools.Engine{contract.DefaultPool: {Open: engine}, "orders": orders},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p, log
}

// The log has the phases and the end of a move.
func TestMoveIsLogged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := clock.NewFake()
		engine, orders := model.New(model.Config{Clock: c}), model.New(model.Config{Clock: c})
		p, log := newLoggedPools(t, c, engine, pools.Engine{Open: orders})
		ctx, stop := context.WithCancel(t.Context())
		go p.Run(ctx)
		synctest.Wait()

		if err := createToken(ctx, p, "shop"); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Move(ctx, "shop", "orders"); err != nil {
			t.Fatal(err)
		}
		for range 30 {
			synctest.Wait()
			c.Advance(2 * time.Second)
		}
		synctest.Wait()
		stop()
		synctest.Wait()

		next, ended := log.lines("a move has reached its next phase"), log.lines("a move has ended")
		if len(next) != 1 || !strings.Contains(next[0], "phase=drain") {
			t.Errorf("the next phase is logged as %q", next)
		}
		if len(ended) != 1 || !strings.Contains(ended[0], "namespace=shop from=default to=orders") {
			t.Errorf("the end is logged as %q", ended)
		}
	})
}

// A pool that cannot be opened is logged once for each reason, without its secrets.
func TestUnreachablePoolIsLoggedOncePerReason(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, tries := clock.NewFake(), 0
		open := func(context.Context) (contract.Engine, error) {
			tries++
			if tries <= 3 {
				return nil, fmt.Errorf("wrong scheme in redis://me:CANARY@host:%d?password=CANARY", 1000+tries)
			}
			return nil, contract.Errorf(duly.CodeUnavailable, "dial 127.0.0.1:%d refused", 2000+tries)
		}
		p, log := newLoggedPools(t, c, model.New(model.Config{Clock: c}), pools.Engine{Opener: open})
		ctx, stop := context.WithCancel(t.Context())
		go p.Run(ctx)
		for range 6 {
			synctest.Wait()
			c.Advance(2 * time.Second)
		}
		synctest.Wait()
		stop()
		synctest.Wait()

		lines := log.lines("cannot be opened")
		if tries != 7 || len(lines) != 2 || !strings.Contains(lines[0], "wrong scheme in redis://***@host") ||
			!strings.Contains(lines[1], "refused") {
			t.Errorf("after %d tries: %q", tries, lines)
		}
		if secrets := log.lines("CANARY"); secrets != nil {
			t.Errorf("a secret is in the log: %q", secrets)
		}
	})
}

// failingEngine is an engine whose placements cannot be stored or read for some time.
type failingEngine struct {
	*model.Engine
	put, read error
}

func (a *failingEngine) PutPlacement(ctx context.Context, p contract.Placement) error {
	if a.put != nil {
		return a.put
	}
	return a.Engine.PutPlacement(ctx, p)
}

func (a *failingEngine) Placements(ctx context.Context, p duly.PageParams) (contract.PlacementPage, error) {
	if a.read != nil {
		return contract.PlacementPage{}, a.read
	}
	return a.Engine.Placements(ctx, p)
}

// WatchTokens reports nothing, so every call reads the placements.
func (a *failingEngine) WatchTokens(ctx context.Context, _ func(bool)) error {
	<-ctx.Done()
	return ctx.Err()
}

// A move that does not advance is logged once for each reason, even after another server has made a
// step. A failure to read the moves is also logged once for each reason.
func TestFailingMoveIsLoggedOncePerReason(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := clock.NewFake()
		engine := &failingEngine{Engine: model.New(model.Config{Clock: c})}
		p, log := newLoggedPools(t, c, engine, pools.Engine{Open: model.New(model.Config{Clock: c})})
		if err := createToken(t.Context(), p, "shop"); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Move(t.Context(), "shop", "orders"); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		go p.Run(ctx)

		during := func(put, read error, want string, lines int) {
			t.Helper()
			before := len(log.lines("level=ERROR"))
			synctest.Wait()
			engine.put, engine.read = put, read
			for range 15 {
				c.Advance(time.Second)
				synctest.Wait()
			}
			logged := log.lines("level=ERROR")[before:]
			if len(logged) != lines || lines > 0 && !strings.Contains(logged[0], want) {
				t.Errorf("during %v, %v the log has %q", put, read, logged)
			}
		}
		during(duly.ErrConflict, nil, "", 0)
		during(errors.New("disk A is full"), nil, "disk A", 1)
		during(duly.ErrConflict, nil, "", 0)
		during(errors.New("disk B is full"), nil, "disk B", 1)
		during(errors.New("disk B is full"), errors.New("nothing is read"), "reading the moves failed", 1)
		if n := p.Moving(); n != 1 {
			t.Errorf("%d moves are in memory", n)
		}

		during(nil, nil, "", 0)
		during(nil, nil, "", 0)
		if where, err := p.Where(t.Context(), "shop"); err != nil || where.From != "" {
			t.Errorf("the placement is %+v, %v", where, err)
		}
		if n := p.Moving(); n != 0 {
			t.Errorf("%d ended moves are in memory", n)
		}
		stop()
		synctest.Wait()
	})
}
