package redisengine_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/internal/redistest/resp"
	"github.com/dulymq/duly/redisengine"
)

// newer simulates a Redis 7.2. Scripts run on a server of this machine, whatever its version, and
// the test answers WAITAOF.
type newer struct {
	*redistest.Stub
	mu     sync.Mutex
	server *redistest.Server
	answer any
	asked  chan struct{} // receives a value for each call to WAITAOF
}

func newNewer(t *testing.T) *newer {
	server := redistest.Single(t)
	n := &newer{server: server, asked: make(chan struct{}, 1000)}
	n.say([]any{int64(1), int64(0)})
	var turn sync.Mutex
	conn, err := server.Dial(t.Context())
	must(t, err)
	t.Cleanup(func() { conn.Close() })
	n.Stub = redistest.NewStub(t, "7.2.4", func(args []string) any {
		// The real server may not know WAITAOF, so this stub answers whether the user may call it.
		if slices.Contains(args, "waitaof") {
			return []any{}
		}
		switch strings.ToUpper(args[0]) {
		case "HELLO", "CLIENT", "INFO", "PING", "CLUSTER":
			return redistest.Usual{}
		case "WAITAOF":
			n.mu.Lock()
			defer n.mu.Unlock()
			n.asked <- struct{}{}
			return n.answer
		}
		turn.Lock()
		defer turn.Unlock()
		all := make([]any, len(args))
		for i, a := range args {
			all[i] = a
		}
		v, err := conn.Do(context.Background(), all...)
		var refused resp.Error
		switch {
		case errors.As(err, &refused):
			return refused
		case err != nil:
			return resp.Error("ERR " + err.Error())
		}
		return v
	})
	return n
}

// say sets the answer to WAITAOF from now on: the fsyncs of the server and of replicas.
func (n *newer) say(answer any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.answer = answer
}

func (n *newer) open(t *testing.T) *redisengine.Engine {
	t.Helper()
	e, err := redisengine.Open(t.Context(), redisengine.Config{
		URL: n.URL() + "?durability=aof&durability_timeout=200ms", Logger: slog.New(slog.DiscardHandler), Manual: true,
	})
	must(t, err)
	t.Cleanup(func() { e.Close() })
	return e
}

// TestAOFIsConfirmedOrNotDurable checks that under durability=aof a push and a settle succeed only
// after the server has confirmed that they are on its disk (C9.6, C9.7, C13.10). Without that, the
// push is stored but fails as not_durable. A repeat of the same push succeeds once it is confirmed.
func TestAOFIsConfirmedOrNotDurable(t *testing.T) {
	t.Parallel()
	n := newNewer(t)
	e := n.open(t)
	push := func(j duly.Job) duly.PushResult {
		t.Helper()
		j.Queue = "q"
		rs, err := e.Push(t.Context(), []duly.Job{j})
		must(t, err)
		return rs[0]
	}
	settle := func(r duly.Receipt, as duly.Settlement) error {
		t.Helper()
		errs, err := e.Settle(t.Context(), "", []duly.SettleRequest{{Receipt: r, As: as}})
		must(t, err)
		return errs[0]
	}
	confirmed := []any{int64(1), int64(0)}
	for what, answer := range map[string]any{
		"no fsync in time":     []any{int64(0), int64(0)},
		"a replica's alone":    []any{int64(0), int64(2)},
		"a refusal":            resp.Error("ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled."),
		"nothing of any sense": "OK",
		"the connection's end": redistest.HangUp{},
	} {
		for _, priority := range []int{0, 1} { // priority 0 is a plain job, priority 1 is not
			j := duly.Job{ID: duly.NewNumber().String(), Priority: priority}
			n.say(answer)
			r := push(j)
			if !errors.Is(r.Err, duly.ErrNotDurable) || r.Status != duly.Created {
				t.Errorf("%s: Push returned %+v, want created and not_durable", what, r)
			} else if text := r.Err.Error(); !strings.Contains(text, "append-only file") || !strings.Contains(text, "again") ||
				strings.Contains(text, "\n") {
				t.Errorf("%s: the error %q does not say what to do", what, text)
			}
			if r := push(j); !errors.Is(r.Err, duly.ErrNotDurable) || r.Status != duly.Exists {
				t.Errorf("%s: the repeat returned %+v, want exists and not_durable", what, r)
			}
			n.say(confirmed)
			if r := push(j); r.Err != nil || r.Status != duly.Exists {
				t.Errorf("%s: a confirmed repeat returned %+v", what, r)
			}
			d := takeOne(t, e, duly.Q("q"))
			n.say(answer)
			if err := settle(d.Receipt, duly.Release); !errors.Is(err, duly.ErrNotDurable) {
				t.Errorf("%s: a release returned %v, want not_durable", what, err)
			}
			if err := settle(d.Receipt, duly.Release); !errors.Is(err, duly.ErrLeaseLost) {
				t.Errorf("%s: a used receipt returned %v", what, err)
			}
			n.say(confirmed)
			if err := settle(takeOne(t, e, duly.Q("q")).Receipt, duly.Ack); err != nil {
				t.Errorf("%s: a confirmed ack returned %v", what, err)
			}
		}
	}
}

// TestAOFIsWaitedFor checks that a call is answered only after the server's confirmation (C9.6). A
// caller whose deadline comes earlier gets an error that says that the call may have succeeded. The
// script, a write and the WAITAOF are sent one after the other.
func TestAOFIsWaitedFor(t *testing.T) {
	t.Parallel()
	n := newNewer(t)
	e := n.open(t)
	job := duly.Job{Queue: "q", ID: duly.NewNumber().String()}
	// The first push creates the queue.
	_, err := e.Push(t.Context(), []duly.Job{{Queue: "q"}})
	must(t, err)
	for len(n.asked) > 0 {
		<-n.asked
	}
	disk := make(chan struct{})
	n.say(redistest.Late{When: disk, Answer: []any{int64(1), int64(0)}})
	answered := make(chan duly.PushResult, 1)
	go func() {
		rs, err := e.Push(context.Background(), []duly.Job{job})
		if err != nil {
			rs = []duly.PushResult{{Err: err}}
		}
		answered <- rs[0]
	}()
	<-n.asked
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := e.Push(short, []duly.Job{{Queue: "q"}}); !errors.Is(err, context.DeadlineExceeded) &&
		!errors.Is(err, duly.ErrUnavailable) {
		t.Errorf("a caller with 50 ms got %v", err)
	}
	select {
	case r := <-answered:
		t.Fatalf("got %+v before the server has confirmed", r)
	default:
	}
	n.say([]any{int64(1), int64(0)})
	close(disk)
	if r := <-answered; r.Err != nil || r.Status != duly.Created {
		t.Errorf("got %+v after a late confirmation", r)
	}
	seen := n.Seen()
	at := slices.IndexFunc(seen, func(args []string) bool { return args[0] == "WAITAOF" })
	if at < 2 || seen[at-2][0] != "FCALL" || !strings.HasPrefix(seen[at-1][0], "EVAL") ||
		strings.Join(seen[at], " ") != "WAITAOF 1 0 200" {
		t.Errorf("the commands are %q", seen[max(0, at-2):at+1])
	}
}

// TestRepeatedPushWaitsOnce checks that a repeated push waits only once for its confirmation.
//
// C9.6
func TestRepeatedPushWaitsOnce(t *testing.T) {
	t.Parallel()
	n := newNewer(t)
	push := n.pushing(t, n.open(t), duly.Job{Queue: "q", ID: duly.NewNumber().String()})
	n.say([]any{int64(0), int64(0)})
	if got := push(duly.Created, duly.ErrNotDurable); got != "1 0 200, " {
		t.Errorf("a push sends %q", got)
	}
	if got := push(duly.Exists, duly.ErrNotDurable); got != "1 0 200, " {
		t.Errorf("a repeat sends %q", got)
	}
	n.say([]any{int64(1), int64(0)})
	if got := push(duly.Exists, nil); got != "1 0 200, " {
		t.Errorf("a confirmed repeat sends %q", got)
	}
}

// TestRenumberedPushWaitsOnce checks a push whose number belongs to another job, and which is
// therefore sent twice. If the first call is not confirmed, the second one may wait only a tenth of
// the time. If the first call is confirmed, the second one may wait the whole time.
//
// C9.6
func TestRenumberedPushWaitsOnce(t *testing.T) {
	t.Parallel()
	n := newNewer(t)
	e := n.open(t)
	for _, c := range []struct {
		confirmed int64
		durable   error
		asks      string
	}{{0, duly.ErrNotDurable, "1 0 200, 1 0 20, "}, {1, nil, "1 0 200, 1 0 200, "}} {
		n.say([]any{int64(1), int64(0)})
		own := fmt.Sprint("own-", c.confirmed)
		_, err := e.Push(t.Context(), []duly.Job{{Queue: "q", ID: own}})
		must(t, err)
		number := n.server.Must("HGET", "duly:{default/q/0}:alias", "i"+own).(string)
		n.say([]any{c.confirmed, int64(0)})
		push := n.pushing(t, e, duly.Job{Queue: "q", ID: duly.Number([]byte(number)).String(), Made: true})
		if got := push(duly.Created, c.durable); got != c.asks {
			t.Errorf("a push under another number sends %q, want %q", got, c.asks)
		}
	}
}

// pushing returns a function that pushes the job and returns the commands for durability.
func (n *newer) pushing(t *testing.T, e *redisengine.Engine, job duly.Job) func(duly.PushStatus, error) string {
	return func(outcome duly.PushStatus, durable error) (asked string) {
		t.Helper()
		before := len(n.Seen())
		rs, err := e.Push(t.Context(), []duly.Job{job})
		must(t, err)
		if rs[0].Status != outcome || !errors.Is(rs[0].Err, durable) {
			t.Errorf("got %+v, want %v and %v", rs[0], outcome, durable)
		}
		for _, args := range n.Seen()[before:] {
			if args[0] == "WAITAOF" {
				asked += strings.Join(args[1:], " ") + ", "
			}
		}
		return asked
	}
}
