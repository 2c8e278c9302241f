package link

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/internal/redistest/resp"
)

const redis70 = "7.0.15"

// C11.13: what certainly did not run is sent again, and nothing else.
func TestWhatDidNotRunIsRepeated(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"TRYAGAIN Multiple keys request during rehashing of slot", "CLUSTERDOWN The cluster is down", "LOADING Redis is loading the dataset in memory",
		"MASTERDOWN Link with MASTER is down", "BUSY Redis is busy running a script.", "MOVED 1 127.0.0.1:1", "ASK 1 127.0.0.1:1",
	} {
		word, _, _ := strings.Cut(text, " ")
		t.Run(word, func(t *testing.T) {
			t.Parallel()
			s := stub(t, redis70, inTurn(resp.Error(text), resp.Error(text), int64(7)))
			l := open(t, s.URL())
			msg, err := l.Run(t.Context(), increment("k", 1))
			if n, _ := msg.AsInt64(); err != nil || n != 7 {
				t.Errorf("answers %d, %v", n, err)
			}
			if n := countOwn(s, count); n != 3 {
				t.Errorf("sent %d times", n)
			}
		})
	}
}

// A script that the server doesn't know goes out whole at once, and only once.
func TestUnknownScriptGoesOutWhole(t *testing.T) {
	t.Parallel()
	s := stub(t, redis70, func(args []string) any {
		if args[0] == "EVALSHA" {
			return resp.Error("NOSCRIPT No matching script. Please use EVAL.")
		}
		return resp.Error("NOSCRIPT still not")
	})
	l := open(t, s.URL())
	_, err := l.Run(t.Context(), increment("k", 1))
	if !errors.Is(err, duly.ErrUnavailable) {
		t.Errorf("answers %v", err)
	}
	if a, b := s.Count("EVALSHA"), s.Count("EVAL"); a != 1 || b != 1 {
		t.Errorf("%d times by hash, %d times whole", a, b)
	}
}

// C11.13: the connection ends while a call is on its way: a write may have run and is
// not sent again, a read is.
func TestWhatMayHaveRunIsNotRepeated(t *testing.T) {
	t.Parallel()
	s := stub(t, redis70, inTurn(redistest.HangUp{}, int64(7)))
	l := open(t, s.URL())
	_, err := l.Run(t.Context(), increment("k", 1))
	if !errors.Is(err, duly.ErrUnavailable) || !strings.Contains(err.Error(), "it may have happened") {
		t.Errorf("a write answers %v", err)
	}
	if n := countOwn(s, count); n != 1 {
		t.Errorf("a write was sent %d times", n)
	}
	s = stub(t, redis70, inTurn(redistest.HangUp{}, redistest.HangUp{}, int64(7)))
	l = open(t, s.URL())
	msg, err := l.Run(t.Context(), Call{Script: echo, Keys: []string{"k"}})
	if n, _ := msg.AsInt64(); err != nil || n != 7 {
		t.Errorf("a read answers %d, %v", n, err)
	}
	if n := countOwn(s, echo); n != 3 {
		t.Errorf("a read was sent %d times", n)
	}
}

// In one pipeline each call has its own end.
func TestRunAllRepeatsOnlyWhatDidNotRun(t *testing.T) {
	t.Parallel()
	first := inTurn(resp.Error("TRYAGAIN wait"), int64(1))
	s := stub(t, redis70, func(args []string) any {
		switch args[3] {
		case "a":
			return first(args)
		case "b":
			return resp.Error("OOM command not allowed when used memory > 'maxmemory'.")
		}
		return int64(3)
	})
	l := open(t, s.URL())
	results := l.RunAll(t.Context(), []Call{increment("a", 1), increment("b", 1), increment("c", 1)})
	n, _ := results[0].Msg.AsInt64()
	m, _ := results[2].Msg.AsInt64()
	if n != 1 || m != 3 || results[0].Err != nil || results[2].Err != nil || !errors.Is(results[1].Err, duly.ErrFull) {
		t.Errorf("answers %d, %v, %d", n, results[1].Err, m)
	}
	if n := countOwn(s, count); n != 4 {
		t.Errorf("%d calls were sent", n)
	}
}

// A refusal is told once, with its code and what to do, in one line.
func TestRefusals(t *testing.T) {
	t.Parallel()
	tests := []struct {
		says string
		code duly.Code
		text string
	}{
		{"OOM allow-oom flag is not set on the script, can not run it when used memory > 'maxmemory'", duly.CodeFull, "maxmemory"},
		{"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.", duly.CodeFull, "disk"},
		{"NOREPLICAS Not enough good replicas to write.", duly.CodeUnavailable, "nothing was done"},
		{"WRONGTYPE Operation against a key holding the wrong kind of value script: ab, on @user_script:2.", duly.CodeCorrupt, "prefix duly"},
		{"NOAUTH Authentication required.", duly.CodeUnauthorized, "PASSWORD@"},
		{"WRONGPASS invalid username-password pair or user is disabled.", duly.CodeUnauthorized, "password"},
		{"NOPERM this user has no permissions to run the 'evalsha' command", duly.CodeForbidden, "command evalsha"},
		{"NOPERM User duly has no permissions to run the 'client|id' command", duly.CodeForbidden, "command client|id"},
		{"NOPERM this user has no permissions to access one of the keys used as arguments", duly.CodeForbidden, "access to keys under the prefix"},
		{"ERR The user executing the script can't run this command or subcommand script: ab, on @user_script:1.", duly.CodeForbidden, "see ACL LOG"},
		{"ERR The user executing the script can't publish to the channel mentioned in the command script: ab, on @user_script:1.", duly.CodeForbidden, "access to a channel"},
		{"ERR ACL failure in script: User u has no permissions to access the 'duly:c' channel script: ab", duly.CodeForbidden, "access to a channel"},
		{"ERR The user executing the script can't access at least one of the keys mentioned in the command script: ab", duly.CodeForbidden, "access to keys"},
		{"ERR ACL failure in script: User u has no permissions to run the 'set' command script: ab", duly.CodeForbidden, "command set"},
		{"ERR unknown command 'EVALSHA', with args beginning with: ", duly.CodeUnsupported, "command EVALSHA"},
		{"ERR unknown command `HELLO`, with args beginning with: ", duly.CodeUnsupported, "(command HELLO); duly needs Redis 7.0"},
		{"ERR user_script:2: s3cret detail script: ab, on @user_script:2.", duly.CodeInternal, "the log has the details"},
	}
	for _, tt := range tests {
		word, _, _ := strings.Cut(tt.says, ":")
		t.Run(word, func(t *testing.T) {
			t.Parallel()
			s := stub(t, redis70, inTurn(resp.Error(tt.says)))
			log, text := newLog()
			l := openWith(t, s.URL(), log)
			_, err := l.Run(t.Context(), increment("k", 1))
			if duly.CodeOf(err) != tt.code || !strings.Contains(err.Error(), tt.text) || strings.Contains(err.Error(), "\n") {
				t.Errorf("answers %v", err)
			}
			if strings.Contains(err.Error(), "s3cret") {
				t.Errorf("tells a detail: %v", err)
			}
			if tt.code == duly.CodeInternal && !strings.Contains(text.String(), "s3cret detail") {
				t.Errorf("logged %q", text)
			}
			if n := countOwn(s, count); n != 1 {
				t.Errorf("sent %d times", n)
			}
		})
	}
}

// A server hides from its callers where the store is. The log shows it to the operator,
// once a minute.
func TestRefusalIsLoggedOnceAMinute(t *testing.T) {
	t.Parallel()
	s := stub(t, redis70, inTurn(resp.Error("OOM command not allowed when used memory > 'maxmemory'.")))
	log, text := newLog()
	l := openWith(t, s.URL(), log)
	for range 3 {
		if _, err := l.Run(t.Context(), increment("k", 1)); !errors.Is(err, duly.ErrFull) {
			t.Errorf("answers %v", err)
		}
	}
	if n := strings.Count(text.String(), "redis at "+s.Addr()); n != 1 {
		t.Errorf("three refusals write %d lines: %s", n, text)
	}
}

// Patience ends with the context's deadline, or with the option where there is
// none; what did not run then is told so.
func TestRepeatingEnds(t *testing.T) {
	t.Parallel()
	s := stub(t, redis70, inTurn(resp.Error("LOADING Redis is loading the dataset in memory")))
	l := open(t, s.URL()+"?retry=300ms")
	_, err := l.Run(context.Background(), increment("k", 1))
	if !errors.Is(err, duly.ErrUnavailable) || !strings.Contains(err.Error(), "nothing was done") {
		t.Errorf("without a deadline: %v", err)
	}
	if n := countOwn(s, count); n < 2 {
		t.Errorf("sent %d times", n)
	}
	l = open(t, s.URL()+"?retry=1h&durability=replicas:1")
	// Whenever the deadline comes, a call that was sent is unavailable.
	for i := range 60 {
		for name, run := range map[string]func(context.Context) error{
			"Run":        func(ctx context.Context) error { _, err := l.Run(ctx, increment("k", 1)); return err },
			"RunDurable": func(ctx context.Context) error { _, _, err := l.RunDurable(ctx, increment("k", 1)); return err },
		} {
			before := countOwn(s, count)
			err := run(within(t, time.Duration(i)*time.Millisecond/5))
			if sent := countOwn(s, count) > before; sent && !errors.Is(err, duly.ErrUnavailable) || !sent && err == nil {
				t.Errorf("%s after %d: %v", name, i, err)
			}
		}
	}
	if _, err := l.Run(within(t, 200*time.Millisecond), increment("k", 1)); !errors.Is(err, duly.ErrUnavailable) {
		t.Errorf("with a deadline: %v", err)
	}
}

// C4.2: a deadline ends the caller's waiting, not a call in flight, nor the
// connection that others share.
func TestDeadlineEndsTheWaitingAlone(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	s := stub(t, redis70, inTurn(redistest.Late{When: release, Answer: int64(1)}, int64(2)))
	l := open(t, s.URL())
	_, err := l.Run(within(t, 100*time.Millisecond), increment("k", 1))
	if !errors.Is(err, duly.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the one that left: %v", err)
	}
	close(release)
	msg, err := l.Run(t.Context(), increment("k", 1))
	if n, _ := msg.AsInt64(); err != nil || n != 2 {
		t.Errorf("the next one: %d, %v", n, err)
	}
	if n := s.Count("HELLO"); n != 2 { // one to connect, one of the check
		t.Errorf("%d greetings: the connection was not kept", n)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Run(gone, increment("k", 1)); !errors.Is(err, duly.ErrUnavailable) || !errors.Is(err, context.Canceled) {
		t.Errorf("one that had left before: %v", err)
	}
}

// While nobody listens calls wait; they go through as soon as somebody does.
func TestCallsWaitForAServerThatComesBack(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t)
	l := open(t, s.URL())
	if _, err := l.Run(t.Context(), increment("k", 1)); err != nil {
		t.Fatal(err)
	}
	s.Kill()
	awaitCut(t, l, s)
	_, err := l.Run(within(t, 200*time.Millisecond), increment("k", 1))
	if !errors.Is(err, duly.ErrUnavailable) {
		t.Errorf("while nobody listens: %v", err)
	}
	done := make(chan error)
	go func() {
		_, err := l.Run(within(t, 20*time.Second), increment("k", 1))
		done <- err
	}()
	s.Restart()
	if err := <-done; err != nil {
		t.Errorf("after the restart: %v", err)
	}
}

// S1: scripts are forgotten all the time, and nobody notices.
func TestForgottenScripts(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t)
	l := open(t, s.URL())
	for i := range 20 {
		s.Must("SCRIPT", "FLUSH")
		for k, r := range l.RunAll(t.Context(), []Call{increment("a", 1), increment("b", 1), {Script: echo, Keys: []string{"a"}, Args: []string{"x"}}}) {
			if n, _ := r.Msg.AsInt64(); r.Err != nil || k < 2 && n != int64(i+1) {
				t.Fatalf("round %d: call %d answers %d, %v", i, k, n, r.Err)
			}
		}
	}
}

// S4: another's script blocks the server; calls wait for its end.
func TestBusyServer(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t, redistest.Config("busy-reply-threshold 20"))
	l := open(t, s.URL())
	conn, err := s.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.Send("EVAL", "while true do end", 0); err != nil {
		t.Fatal(err)
	}
	redistest.Await(t, "the server is busy", func() bool {
		_, err := s.Do(t.Context(), "PING")
		return err != nil && strings.HasPrefix(err.Error(), "BUSY")
	})
	_, err = l.Run(within(t, 100*time.Millisecond), increment("k", 1))
	if !errors.Is(err, duly.ErrUnavailable) {
		t.Errorf("while it is busy: %v", err)
	}
	done := make(chan error)
	go func() {
		_, err := l.Run(t.Context(), increment("k", 1))
		done <- err
	}()
	s.Must("SCRIPT", "KILL")
	if err := <-done; err != nil {
		t.Errorf("after it: %v", err)
	}
	if got := s.Must("GET", "k"); got != "1" {
		t.Errorf("ran %v times", got)
	}
}

// D4: at maxmemory what stores is full, and what says allow-oom runs.
func TestFullMemory(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t, redistest.MaxMemory("1", "noeviction"))
	l := open(t, s.URL())
	if _, err := l.Run(t.Context(), increment("k", 1)); !errors.Is(err, duly.ErrFull) {
		t.Errorf("a script that stores: %v", err)
	}
	free := NewScript("free", "#!lua flags=allow-oom\nreturn redis.call('INCR', KEYS[1])", false)
	if _, err := l.Run(t.Context(), Call{Script: free, Keys: []string{"k"}}); err != nil {
		t.Errorf("one that may: %v", err)
	}
	if _, err := l.Run(t.Context(), Call{Script: echo, Keys: []string{"k"}, Args: []string{""}}); err != nil {
		t.Errorf("one that reads: %v", err)
	}
}

func TestDo(t *testing.T) {
	t.Parallel()
	s, p := redistest.Shared(t)
	l := open(t, s.URL())
	key := p + ":h"
	if msg, err := l.Do(t.Context(), l.B().Hget().Key(key).Field("f").Build()); err != nil || !msg.IsNil() {
		t.Errorf("of nothing: %v, %v", msg, err)
	}
	if _, err := l.Do(t.Context(), l.B().Hset().Key(key).FieldValue().FieldValue("f", "v").Build()); err != nil {
		t.Error(err)
	}
	msg, err := l.Do(t.Context(), l.B().Hget().Key(key).Field("f").Build())
	if got, _ := msg.ToString(); err != nil || got != "v" {
		t.Errorf("answers %q, %v", got, err)
	}
	if _, err := l.Do(t.Context(), l.B().Get().Key(key).Build()); !errors.Is(err, duly.ErrCorrupt) {
		t.Errorf("a key of another kind: %v", err)
	}
}

// A connection that is lost before its first call has carried none, however
// it is lost: the call goes out over the next one, and once.
func TestLostGreetingsAreRepeated(t *testing.T) {
	t.Parallel()
	greetings := inTurn(redistest.Usual{}, redistest.Usual{}, redistest.HangUp{}, resp.Error("ERR max number of clients reached"), redistest.HangUp{}, redistest.Usual{})
	s := redistest.NewStub(t, redis70, func(args []string) any {
		switch {
		case args[0] == "HELLO":
			return greetings(args)
		case args[0] == "EVALSHA" && args[1] == count.SHA:
			return int64(7)
		case strings.HasPrefix(args[0], "EVAL"):
			return []any{}
		}
		return redistest.Usual{}
	})
	l := open(t, s.URL())
	s.Drop()
	redistest.Await(t, "the link notices", func() bool { return len(l.dialer.open()) == 0 })
	var msg rueidis.RedisMessage
	var err error
	redistest.Await(t, "the client library notices, which closes first and then lets go", func() bool {
		msg, err = l.Run(t.Context(), increment("k", 1))
		return err == nil || s.Count("HELLO") > 2
	})
	if n, _ := msg.AsInt64(); err != nil || n != 7 {
		t.Errorf("answers %d, %v", n, err)
	}
	if greeted, ran := s.Count("HELLO"), countOwn(s, count); greeted != 6 || ran != 1 {
		t.Errorf("%d greetings, %d runs", greeted, ran)
	}
}

// F9: the server has become a replica. Its name may stand for another address
// by now, so a new connection is made; and when it is primary again it serves.
func TestDemotedServer(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t)
	l := open(t, s.URL())
	if _, err := l.Run(t.Context(), increment("k", 1)); err != nil {
		t.Fatal(err)
	}
	before := l.dialer.open()
	s.Must("REPLICAOF", "127.0.0.1", "1")
	_, err := l.Run(within(t, 100*time.Millisecond), increment("k", 1))
	if !errors.Is(err, duly.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) && !strings.Contains(err.Error(), "replica") {
		t.Errorf("while it is a replica: %v", err)
	}
	if after := l.dialer.open(); len(after) > 0 && after[0] == before[0] {
		t.Error("the connection was kept")
	}
	done := make(chan error)
	go func() {
		_, err := l.Run(t.Context(), increment("k", 1))
		done <- err
	}()
	s.Must("REPLICAOF", "NO", "ONE")
	if err := <-done; err != nil {
		t.Errorf("when it is primary again: %v", err)
	}
}

func TestClosedLink(t *testing.T) {
	t.Parallel()
	s := stub(t, redis70, inTurn(redistest.Silence{}))
	l := open(t, s.URL())
	done := make(chan error)
	go func() {
		_, err := l.Run(context.Background(), increment("k", 1))
		done <- err
	}()
	redistest.Await(t, "the call is on its way", func() bool { return countOwn(s, count) == 1 })
	l.Close()
	if err := <-done; !errors.Is(err, duly.ErrClosed) {
		t.Errorf("a call on its way: %v", err)
	}
	if _, err := l.Run(t.Context(), increment("k", 1)); !errors.Is(err, duly.ErrClosed) {
		t.Errorf("a later call: %v", err)
	}
	if _, _, _, _, err := l.Block(t.Context(), "", []string{"k"}, time.Second); !errors.Is(err, duly.ErrClosed) {
		t.Errorf("a later blocking call: %v", err)
	}
	l.Unblock("")
	l.Close()
}

// C11.13: hundreds of callers share one connection.
func TestOneConnectionPerNode(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t)
	l := open(t, s.URL())
	errs := make(chan error)
	for i := range 300 {
		go func() {
			_, err := l.Run(within(t, 20*time.Second), increment(fmt.Sprint("k", i%7), 1))
			errs <- err
		}()
	}
	for range 300 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if n := len(l.dialer.open()); n != 1 {
		t.Errorf("%d connections", n)
	}
}

// What has others to ask is not repeated, although it did not run, and is told
// that it did not.
func TestOnceIsNotRepeated(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		answer    any
		runs      int
		untouched bool
	}{
		{resp.Error("LOADING Redis is loading the dataset in memory"), 1, true},
		{resp.Error("TRYAGAIN Multiple keys request during rehashing of slot"), 1, true},
		{resp.Error("NOSCRIPT No matching script."), 2, false}, // it is sent whole at once
		{resp.Error("OOM command not allowed"), 1, false},
		{redistest.HangUp{}, 1, false}, // it may have run
	} {
		s := stub(t, redis70, inTurn(c.answer))
		l := open(t, s.URL())
		call := increment("k", 1)
		call.Once = true
		_, err := l.Run(t.Context(), call)
		if runs := countOwn(s, count); err == nil || runs != c.runs || Untouched(err) != c.untouched {
			t.Errorf("%v: %v after %d runs, untouched: %v", c.answer, err, runs, Untouched(err))
		}
	}
	s := redistest.Single(t)
	l := open(t, s.URL())
	s.Kill()
	// A call that finds the broken connection, before the client has noticed, may
	// have run for all that it knows.
	redistest.Await(t, "a call that finds nobody there is told so", func() bool {
		call := increment("k", 1)
		call.Once = true
		_, err := l.Run(t.Context(), call)
		return Untouched(err)
	})
}

// A caller in a hurry is answered once, and soon: what did not run is not sent
// again, a server that stands still is not waited for, and one of several calls
// does not wait for another.
func TestHastyCallsEndSoon(t *testing.T) {
	t.Parallel()
	s := stub(t, redis70, func([]string) any { return resp.Error("CLUSTERDOWN The cluster is down") })
	ctx, cancel := Hasty(t.Context())
	defer cancel()
	if _, err := open(t, s.URL()).Run(ctx, increment("k", 1)); !Untouched(err) {
		t.Errorf("what did not run is answered %v", err)
	}
	if n := countOwn(s, count); n != 1 {
		t.Errorf("sent %d times", n)
	}
	server := redistest.Single(t)
	l := open(t, server.URL())
	server.Pause()
	defer server.Continue()
	results := l.RunAll(ctx, []Call{increment("a", 1), increment("b", 1)})
	for _, r := range results {
		if duly.CodeOf(r.Err) != duly.CodeUnavailable {
			t.Errorf("a server that stands still: %v", r.Err)
		}
	}
}

// A call of several parts, of which one was refused, does not say that nothing
// was done.
func TestAPartSpeaksForItselfAlone(t *testing.T) {
	t.Parallel()
	s := stub(t, redis70, func([]string) any { return resp.Error("LOADING Redis is loading the dataset in memory") })
	l := open(t, s.URL()+"?retry=1ms")
	_, err := l.Run(t.Context(), increment("k", 1))
	if !Untouched(err) || !strings.Contains(err.Error(), "nothing was done") {
		t.Fatalf("the part: %v", err)
	}
	whole := Partly(err)
	if text := whole.Error(); !errors.Is(whole, duly.ErrUnavailable) || strings.Contains(text, "nothing was done") || !strings.Contains(text, "may have happened") {
		t.Errorf("the call: %v", whole)
	}
	if err := errors.New("another"); Partly(err) != err {
		t.Errorf("another error: %v", Partly(err))
	}
}
