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

// diary is a log that a test reads while it is written.
type diary struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (d *diary) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.text.Write(p)
}

func (d *diary) lines(with string) (lines []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for line := range strings.Lines(d.text.String()) {
		if strings.Contains(line, with) {
			lines = append(lines, line)
		}
	}
	return lines
}

// The log tells when a move is over, in words.
func TestTheEndOfAMoveIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, log := clock.NewFake(), &diary{}
		p, err := pools.New(pools.Config{Clock: c, Logger: slog.New(slog.NewTextHandler(log, nil)), Engines: map[string]pools.Engine{
			contract.DefaultPool: {Open: model.New(model.Config{Clock: c})}, "orders": {Open: model.New(model.Config{Clock: c})},
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		ctx, stop := context.WithCancel(t.Context())
		go p.Run(ctx)
		synctest.Wait()
		if err := meet(ctx, p, "shop"); err != nil {
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
		if on := log.lines("a namespace moves on"); len(on) != 1 || !strings.Contains(on[0], "phase=drain") {
			t.Errorf("%s", log.text.String())
		}
		if over := log.lines("a namespace has moved"); len(over) != 1 || !strings.Contains(over[0], "namespace=shop from=default to=orders") || len(log.lines(`phase=""`)) != 0 {
			t.Errorf("%s", log.text.String())
		}
	})
}

// A pool that can't be opened is told once for each reason, with its text and
// without its secrets.
func TestAPoolThatIsNotReachedIsToldOncePerChange(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, log, tries := clock.NewFake(), &diary{}, 0
		p, err := pools.New(pools.Config{Clock: c, Logger: slog.New(slog.NewTextHandler(log, nil)), Engines: map[string]pools.Engine{
			contract.DefaultPool: {Open: model.New(model.Config{Clock: c})},
			"orders": {Opener: func(context.Context) (contract.Engine, error) {
				tries++
				if tries <= 3 {
					return nil, fmt.Errorf("wrong scheme in redis://me:CANARY@host:%d?password=CANARY", 1000+tries)
				}
				return nil, contract.Errorf(duly.CodeUnavailable, "dial 127.0.0.1:%d refused", 2000+tries)
			}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		ctx, stop := context.WithCancel(t.Context())
		go p.Run(ctx)
		for range 6 {
			synctest.Wait()
			c.Advance(2 * time.Second)
		}
		synctest.Wait()
		stop()
		synctest.Wait()
		lines := log.lines("not reached")
		if tries != 7 || len(lines) != 2 || !strings.Contains(lines[0], "wrong scheme in redis://***@host") || !strings.Contains(lines[1], "refused") {
			t.Errorf("after %d tries: %q", tries, lines)
		}
		if told := log.lines("CANARY"); told != nil {
			t.Errorf("a secret is in the log: %q", told)
		}
	})
}

// ailing is an engine whose placements can't be stored or read for a while.
type ailing struct {
	*model.Engine
	put, read error
}

func (a *ailing) PutPlacement(ctx context.Context, p contract.Placement) error {
	if a.put != nil {
		return a.put
	}
	return a.Engine.PutPlacement(ctx, p)
}

func (a *ailing) Placements(ctx context.Context, p duly.PageParams) (contract.PlacementPage, error) {
	if a.read != nil {
		return contract.PlacementPage{}, a.read
	}
	return a.Engine.Placements(ctx, p)
}

// WatchTokens tells nothing, so that placements are read again and again.
func (a *ailing) WatchTokens(ctx context.Context, _ func(bool)) error {
	<-ctx.Done()
	return ctx.Err()
}

// A move that does not go on is told once for each reason, also after another
// server was quicker at a phase; and so are moves that can't be read.
func TestAMoveThatDoesNotGoOnIsToldOncePerChange(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, log := clock.NewFake(), &diary{}
		engine := &ailing{Engine: model.New(model.Config{Clock: c})}
		p, err := pools.New(pools.Config{Clock: c, Logger: slog.New(slog.NewTextHandler(log, nil)), Engines: map[string]pools.Engine{
			contract.DefaultPool: {Open: engine}, "orders": {Open: model.New(model.Config{Clock: c})},
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		if err := meet(t.Context(), p, "shop"); err != nil {
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
			told := log.lines("level=ERROR")[before:]
			if len(told) != lines || lines > 0 && !strings.Contains(told[0], want) {
				t.Errorf("during %v, %v is told %q", put, read, told)
			}
		}
		during(duly.ErrConflict, nil, "", 0)
		during(errors.New("disk A is full"), nil, "disk A", 1)
		during(duly.ErrConflict, nil, "", 0)
		during(errors.New("disk B is full"), nil, "disk B", 1)
		during(errors.New("disk B is full"), errors.New("nothing is read"), "moves can't be read", 1)
		if n := p.Remembered(); n != 1 {
			t.Errorf("%d moves are remembered", n)
		}
		during(nil, nil, "", 0)
		during(nil, nil, "", 0)
		if where, err := p.Where(t.Context(), "shop"); err != nil || where.From != "" {
			t.Errorf("it is in %+v, %v", where, err)
		}
		if n := p.Remembered(); n != 0 {
			t.Errorf("%d moves that are over are remembered", n)
		}
		stop()
		synctest.Wait()
	})
}
