package chaos

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/faultproxy"
	"github.com/dulymq/duly/internal/proctest"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/redisengine"
	"github.com/dulymq/duly/worker"
)

// The load of a process whose server is slow.
const (
	slowQueue    = "slow"
	slowDeadline = time.Second // the deadline of a push
	slowLease    = 4 * time.Second
	slowSlots    = 4
	longHandler  = 6 * time.Second // longer than the lease
)

// TestSlowRedisBlocksNoCall makes Redis answer 200 ms late, 2 s late, and not at all for a while.
// Calls end at their deadlines, and goroutines do not accumulate. No job has two handlers at the
// same time, and calls are fast again soon after (fault D7).
//
// C4.2, C1.9
func TestSlowRedisBlocksNoCall(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	proxy := faultproxy.New(t, server.Addr())
	p := proctest.Start(t, proctest.Options{}, "slowguest", "redis://"+proxy.Addr())
	if !p.Await("goroutines", 20, patience) || !p.Await("call", 20, patience) {
		t.Fatal("the process did not start", p.Lines())
	}
	baseline := slices.Max(goroutinesOf(p))

	slow := func(by, length time.Duration) func() {
		return func() { proxy.Delay(by); time.Sleep(length); proxy.Delay(0) }
	}
	pause, long := time.Second, 2*time.Second
	if proctest.Long() {
		pause, long = 5*time.Second, 15*time.Second
	}
	faults := []func(){
		slow(200*time.Millisecond, long/2),
		slow(2*time.Second, long),
		func() { server.Must("CLIENT", "PAUSE", pause.Milliseconds()); time.Sleep(pause) },
	}
	var longest time.Duration
	for range counts(1, 10) {
		for _, fault := range faults {
			fault()
			longest = max(longest, awaitQuickCall(t, p))
		}
	}

	most := slices.Max(goroutinesOf(p))
	p.Kill()
	s := readSlow(t, p.Lines())
	t.Logf("%d calls, %d of them given up, the longest took %v with a deadline of %v; %d handlers ran, %d were "+
		"cancelled, %d overlaps; "+
		"goroutines %d before, %d at most; a call was quick again %v after a fault, at most",
		s.calls, s.failed, s.longest, slowDeadline, s.handlers, s.cancelled, s.overlaps, baseline, most,
		longest.Round(time.Millisecond))
	if s.longest > slowDeadline+2*time.Second { // generous, because other tests use the machine
		t.Errorf("a call with a deadline of %v took %v", slowDeadline, s.longest)
	}
	if most > 2*baseline {
		t.Errorf("%d goroutines, and %d before the faults", most, baseline)
	}
	if s.overlaps > 0 || s.handlers == 0 || s.failed == 0 {
		t.Errorf("%d overlaps, %d handlers, %d calls given up", s.overlaps, s.handlers, s.failed)
	}
	if longest > 20*time.Second { // ten times the promised 2 s
		t.Errorf("no call was fast for %v after a fault", longest)
	}
}

// awaitQuickCall waits for a call that begins later than now and takes less than 150 ms. It
// returns how long that took.
func awaitQuickCall(t *testing.T, p *proctest.Process) time.Duration {
	t.Helper()
	over := time.Now()
	redistest.Await(t, "a call is quick", func() bool {
		for _, line := range slices.Backward(p.Lines()) {
			var began, took int64
			if n, _ := fmt.Sscanf(line, "call %d %d", &began, &took); n == 2 && began < over.UnixMicro() {
				return false
			} else if n == 2 && us(took) < 150*time.Millisecond {
				return true
			}
		}
		return false
	})
	return time.Since(over)
}

// slowRun is the output of a process with a slow server.
type slowRun struct {
	calls, failed       int
	longest             time.Duration
	handlers, cancelled int
	overlaps            int
}

// readSlow reads the output and compares the handlers of each job. A handler that has lost its
// lease must be canceled before the next one begins.
func readSlow(t *testing.T, lines []string) (s slowRun) {
	t.Helper()
	type span struct{ from, to int64 }
	byJob := map[string][]span{}
	for _, line := range lines {
		var id, why string
		var from, took, to int64
		switch {
		case strings.HasPrefix(line, "call"):
			fmt.Sscanf(line, "call %d %d %s", &from, &took, &why)
			s.calls++
			s.longest = max(s.longest, us(took))
			if why != "ok" {
				s.failed++
			}
		case strings.HasPrefix(line, "handler"):
			fmt.Sscanf(line, "handler %s %d %d %s", &id, &from, &to, &why)
			s.handlers++
			if why != "done" {
				s.cancelled++
			}
			byJob[id] = append(byJob[id], span{from, to})
		}
	}
	for id, spans := range byJob {
		slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
		for i := 1; i < len(spans); i++ {
			if spans[i].from < spans[i-1].to {
				s.overlaps++
				t.Errorf("%s: a handler ran %d…%d, and another one %d…%d", id, spans[i-1].from, spans[i-1].to, spans[i].from,
					spans[i].to)
			}
		}
	}
	return s
}

// runSlowGuest pushes and handles jobs until it is killed. Its argument is the server's URL.
func runSlowGuest(args []string) error {
	quiet := slog.New(slog.DiscardHandler)
	e, err := redisengine.Open(context.Background(), redisengine.Config{URL: args[0], Logger: quiet})
	if err != nil {
		return err
	}
	out := &diary{out: os.Stdout}
	for range 4 {
		go func() {
			for {
				pushSlow(e, out)
				time.Sleep(30 * time.Millisecond)
			}
		}()
	}
	go func() {
		for {
			time.Sleep(50 * time.Millisecond)
			out.say("goroutines %d", runtime.NumGoroutine())
		}
	}()

	w := worker.New(e, worker.Config{Concurrency: slowSlots, Lease: slowLease, Logger: quiet})
	w.Handle(slowQueue, func(ctx context.Context, d *worker.Delivery) error {
		length, why := 20*time.Millisecond, "done"
		if d.ID[len(d.ID)-1]%8 == 0 {
			length = longHandler
		}
		from := at()
		select {
		case <-ctx.Done():
			why = "cancelled"
		case <-time.After(length):
		}
		out.say("handler %s %d %d %s", d.ID, from, at(), why)
		return ctx.Err()
	})
	return w.Run(context.Background())
}

// pushSlow pushes one job and prints how long that took.
func pushSlow(e duly.Engine, out *diary) {
	ctx, cancel := context.WithTimeout(context.Background(), slowDeadline)
	defer cancel()
	begun := time.Now()
	why := "ok"
	if _, err := e.Push(ctx, []duly.Job{{Queue: slowQueue, ID: duly.NewNumber().String()}}); err != nil {
		why = string(duly.CodeOf(err))
	}
	out.say("call %d %d %s", begun.UnixMicro(), time.Since(begun).Microseconds(), why)
}
