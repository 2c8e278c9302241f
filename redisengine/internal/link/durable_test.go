package link

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/internal/redistest/resp"
)

// runDurable makes a durable call and checks its result.
func runDurable(t *testing.T, l *Link, want int64, durable bool) {
	t.Helper()
	msg, notDurable, err := l.RunDurable(t.Context(), increment("k", 1))
	if n, _ := msg.AsInt64(); err != nil || n != want {
		t.Errorf("RunDurable returned %d, %v; want %d", n, err, want)
	}
	if durable && notDurable != nil || !durable && !errors.Is(notDurable, duly.ErrNotDurable) {
		t.Errorf("the durability error is %v; want durable = %v", notDurable, durable)
	}
	if notDurable != nil && (!strings.Contains(notDurable.Error(), "same IDs") ||
		strings.Contains(notDurable.Error(), "by 1 replicas")) {
		t.Errorf("the error does not say what to do: %v", notDurable)
	}
}

func TestDurableWithoutTheOptionIsRun(t *testing.T) {
	t.Parallel()
	s := stub(t, redis70, inTurn(int64(1)))
	runDurable(t, open(t, s.URL()), 1, true)
	if n := s.Count("WAIT") + s.Count("WAITAOF") + s.Count("EVAL"); n != 0 {
		t.Errorf("the server was asked %d times", n)
	}
}

// TestReplicasConfirm checks that a replica which hangs confirms nothing. After it continues, it
// also confirms earlier writes, even over a connection that has written nothing since.
func TestReplicasConfirm(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t)
	host, port, _ := strings.Cut(s.Addr(), ":")
	replica := redistest.Single(t, redistest.Config("replicaof %s %s", host, port))
	redistest.Await(t, "the replica has caught up", func() bool {
		return contains(s.Must("INFO", "replication"),
			"state=online")
	})
	patient := open(t, s.URL()+"?durability=replicas:1&durability_timeout=30s")
	hasty := open(t, s.URL()+"?durability=replicas:1&durability_timeout=50ms")
	runDurable(t, patient, 1, true)
	replica.Pause()
	runDurable(t, hasty, 2, false)
	// The repeated script finds the value stored, and writes nothing.
	repeat := Call{Script: echo, Keys: []string{"k"}, Args: []string{""}}
	if _, notDurable, err := hasty.RunDurable(t.Context(), repeat); err != nil ||
		!errors.Is(notDurable, duly.ErrNotDurable) {
		t.Errorf("an unconfirmed repeat returned %v, %v", notDurable, err)
	}
	replica.Continue()
	if _, notDurable, err := patient.RunDurable(t.Context(), repeat); err != nil || notDurable != nil {
		t.Errorf("a confirmed repeat returned %v, %v", notDurable, err)
	}
}

// TestReplicasAreCounted checks that the option sets how many replicas must confirm (C9.7). With
// replicas:2 and one replica, no call is durable.
func TestReplicasAreCounted(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		wanted, confirmed int64
		durable           bool
	}{
		{1, 0, false}, {1, 1, true}, {1, 2, true}, {2, 0, false}, {2, 1, false}, {2, 2, true}, {2, 3, true}, {5, 4, false},
		{5, 5, true},
	} {
		s := stub(t, redis70, func(args []string) any {
			if args[0] == "WAIT" {
				return tt.confirmed
			}
			return int64(1)
		})
		l := open(t, fmt.Sprintf("%s?durability=replicas:%d&durability_timeout=70ms", s.URL(), tt.wanted))
		for range 2 {
			runDurable(t, l, 1, tt.durable)
		}
		for _, args := range s.Seen() {
			if args[0] == "WAIT" && strings.Join(args, " ") != fmt.Sprintf("WAIT %d 70", tt.wanted) {
				t.Errorf("replicas:%d sends %q", tt.wanted, args)
			}
		}
		if n := s.Count("WAIT"); n != 2 {
			t.Errorf("replicas:%d sends %d commands for two calls", tt.wanted, n)
		}
	}
}

// TestAOFConfirms checks that script, write and WAITAOF are sent on one connection, with the
// timeout (C9.6).
func TestAOFConfirms(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		answer  any
		durable bool
	}{
		{[]any{int64(1), int64(0)}, true},
		{[]any{int64(0), int64(3)}, false},
		{resp.Error("ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled."), false},
		{redistest.HangUp{}, false},
	} {
		t.Run(fmt.Sprintf("%T", tt.answer), func(t *testing.T) {
			t.Parallel()
			s := stub(t, "7.2.4", func(args []string) any {
				if args[0] == "WAITAOF" {
					return tt.answer
				}
				return int64(1)
			})
			runDurable(t, open(t, s.URL()+"?durability=aof&durability_timeout=70ms"), 1, tt.durable)
			seen := s.Seen()
			own := slices.IndexFunc(seen, func(args []string) bool { return args[0] == "EVAL" && args[1] == count.Source })
			sent := seen[own:min(own+3, len(seen))]
			if len(sent) != 3 || sent[1][1] != fenceScript.Source || strings.Join(sent[2], " ") != "WAITAOF 1 0 70" {
				t.Errorf("the server received %q", sent)
			}
		})
	}
}

// TestDurableRetriesTheWholePipeline checks that a call that did not run is sent again completely.
// A call that may have run is not sent again.
func TestDurableRetriesTheWholePipeline(t *testing.T) {
	t.Parallel()
	serve := func(answers ...any) *redistest.Stub {
		own := inTurn(answers...)
		return stub(t, redis70, func(args []string) any {
			switch {
			case args[0] == "WAIT":
				return int64(1)
			case args[1] == fenceScript.Source:
				return "OK"
			}
			return own(args)
		})
	}
	const query = "?durability=replicas:1"
	s := serve(resp.Error("TRYAGAIN wait"), resp.Error("LOADING wait"), int64(1))
	runDurable(t, open(t, s.URL()+query), 1, true)
	if a, b := countOwn(s, count), s.Count("WAIT"); a != 3 || b != 3 {
		t.Errorf("got %d scripts and %d confirmations", a, b)
	}
	s = serve(redistest.HangUp{}, int64(1))
	_, _, err := open(t, s.URL()+query).RunDurable(t.Context(), increment("k", 1))
	if n := countOwn(s, count); !errors.Is(err, duly.ErrUnavailable) || n != 1 {
		t.Errorf("the call was sent %d times and returned %v", n, err)
	}
	s = serve(resp.Error("OOM full"))
	if _, _, err := open(t, s.URL()+query).RunDurable(t.Context(), increment("k", 1)); !errors.Is(err, duly.ErrFull) {
		t.Errorf("got %v", err)
	}
}

// TestDurableConnectionIsReused checks that a connection is reused, unless it was closed since its
// last call.
func TestDurableConnectionIsReused(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t)
	l := open(t, s.URL()+"?durability=replicas:1&durability_timeout=1ms")
	for i := range 5 {
		runDurable(t, l, int64(i+1), false)
	}
	if n := len(l.dialer.open()); n != 2 {
		t.Errorf("got %d connections", n)
	}
	s.Restart()
	awaitCut(t, l, s)
	runDurable(t, l, 1, false)
}

// TestDurableCallsFindTheirNodeInACluster checks that durable calls find their node, even during and after a move of
// the slot.
func TestDurableCallsFindTheirNodeInACluster(t *testing.T) {
	t.Parallel()
	c := redistest.NewCluster(t, 0)
	l := open(t, c.URL()+"&durability=replicas:1&durability_timeout=1ms")
	const tag = "{moving}"
	want := int64(0)
	run := func(what string) {
		t.Helper()
		want++
		msg, notDurable, err := l.RunDurable(t.Context(), Call{Script: three,
			Keys: []string{tag + ":n", tag + ":n", tag + ":n2"}, Args: []string{"x"}})
		if n, _ := msg.AsInt64(); err != nil || n != want || !errors.Is(notDurable, duly.ErrNotDurable) {
			t.Errorf("%s: got %d, %v, %v", what, n, notDurable, err)
		}
	}
	for range 3 {
		run("before")
	}
	from := c.For(tag)
	to := c.Nodes()[0]
	if to.Addr() == from.Addr() {
		to = c.Nodes()[1]
	}
	c.MoveSlot(c.Slot(tag), from, to, func(stage redistest.MoveStage) {
		if stage == redistest.MoveImporting || stage == redistest.MoveEmptied || stage == redistest.MoveClaimed {
			run(string(stage))
		}
	})
	for range 3 {
		run("after")
	}
}
