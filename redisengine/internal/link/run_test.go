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

// TestCallThatDidNotRunIsRetried checks that only calls that certainly did not run are sent again
// (C11.13).
func TestCallThatDidNotRunIsRetried(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"TRYAGAIN Multiple keys request during rehashing of slot", "CLUSTERDOWN The cluster is down",
		"LOADING Redis is loading the dataset in memory",
		"MASTERDOWN Link with MASTER is down", "BUSY Redis is busy running a script.", "MOVED 1 127.0.0.1:1",
		"ASK 1 127.0.0.1:1",
	} {
		word, _, _ := strings.Cut(text, " ")
		t.Run(word, func(t *testing.T) {
			t.Parallel()
			s := stub(t, redis70, inTurn(resp.Error(text), resp.Error(text), int64(7)))
			l := open(t, s.URL())
			msg, err := l.Run(t.Context(), increment("k", 1))
			if n, _ := msg.AsInt64(); err != nil || n != 7 {
				t.Errorf("got %d, %v", n, err)
			}
			if n := countOwn(s, count); n != 3 {
				t.Errorf("the call was sent %d times", n)
			}
		})
	}
}

// TestUnknownScriptIsSentAsText checks that a script which the server does not know is sent as
// text at once, and only once.
func TestUnknownScriptIsSentAsText(t *testing.T) {
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
		t.Errorf("got %v", err)
	}
	if a, b := s.Count("EVALSHA"), s.Count("EVAL"); a != 1 || b != 1 {
		t.Errorf("the script was sent %d times by hash and %d times as text", a, b)
	}
}

// TestWriteThatMayHaveRunIsNotRetried breaks the connection while a write is in flight (C11.13).
// It may have run, so it is not sent again.
func TestWriteThatMayHaveRunIsNotRetried(t *testing.T) {
	t.Parallel()
	s := stub(t, redis70, inTurn(redistest.HangUp{}, int64(7)))
	l := open(t, s.URL())
	_, err := l.Run(t.Context(), increment("k", 1))
	if !errors.Is(err, duly.ErrUnavailable) || !strings.Contains(err.Error(), "the call may have happened") {
		t.Errorf("a write returned %v", err)
	}
	if n := countOwn(s, count); n != 1 {
		t.Errorf("a write was sent %d times", n)
	}
}

// TestReadThatMayHaveRunIsRetried breaks the connection twice while a read is in flight (C11.13).
func TestReadThatMayHaveRunIsRetried(t *testing.T) {
	t.Parallel()
	s := stub(t, redis70, inTurn(redistest.HangUp{}, redistest.HangUp{}, int64(7)))
	l := open(t, s.URL())
	msg, err := l.Run(t.Context(), Call{Script: echo, Keys: []string{"k"}})
	if n, _ := msg.AsInt64(); err != nil || n != 7 {
		t.Errorf("a read returned %d, %v", n, err)
	}
	if n := countOwn(s, echo); n != 3 {
		t.Errorf("a read was sent %d times", n)
	}
}

// TestRunAllRetriesOnlyCallsThatDidNotRun checks that each call of a pipeline is retried
// separately.
func TestRunAllRetriesOnlyCallsThatDidNotRun(t *testing.T) {
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
		t.Errorf("got %d, %v, %d", n, results[1].Err, m)
	}
	if n := countOwn(s, count); n != 4 {
		t.Errorf("the server received %d calls", n)
	}
}

// TestRefusedCallIsNotRetried checks that a refused call is not retried, and that its error has a code and says
// what to do, in one line.
func TestRefusedCallIsNotRetried(t *testing.T) {
	t.Parallel()
	tests := []struct {
		says string
		code duly.Code
		text string
	}{
		{"OOM allow-oom flag is not set on the script, can not run it when used memory > 'maxmemory'", duly.CodeFull,
			"maxmemory"},
		{"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.", duly.CodeFull,
			"disk"},
		{"NOREPLICAS Not enough good replicas to write.", duly.CodeUnavailable, "nothing was done"},
		{"WRONGTYPE Operation against a key holding the wrong kind of value script: ab, on @user_script:2.",
			duly.CodeCorrupt, "prefix duly"},
		{"NOAUTH Authentication required.", duly.CodeUnauthorized, "PASSWORD@"},
		{"WRONGPASS invalid username-password pair or user is disabled.", duly.CodeUnauthorized, "password"},
		{"NOPERM this user has no permissions to run the 'evalsha' command", duly.CodeForbidden, "command evalsha"},
		{"NOPERM User duly has no permissions to run the 'client|id' command", duly.CodeForbidden, "command client|id"},
		{"NOPERM this user has no permissions to access one of the keys used as arguments", duly.CodeForbidden,
			"access to keys under the prefix"},
		{"ERR The user executing the script can't run this command or subcommand script: ab, on @user_script:1.",
			duly.CodeForbidden, "see ACL LOG"},
		{"ERR The user executing the script can't publish to the channel mentioned in the command script: ab, on " +
			"@user_script:1.", duly.CodeForbidden, "access to a channel"},
		{"ERR ACL failure in script: User u has no permissions to access the 'duly:c' channel script: ab",
			duly.CodeForbidden, "access to a channel"},
		{"ERR The user executing the script can't access at least one of the keys mentioned in the command script: ab",
			duly.CodeForbidden, "access to keys"},
		{"ERR ACL failure in script: User u has no permissions to run the 'set' command script: ab", duly.CodeForbidden,
			"command set"},
		{"ERR unknown command 'EVALSHA', with args beginning with: ", duly.CodeUnsupported, "command EVALSHA"},
		{"ERR unknown command `HELLO`, with args beginning with: ", duly.CodeUnsupported,
			"(command HELLO); duly needs Redis 7.0"},
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
				t.Errorf("got %v", err)
			}
			if strings.Contains(err.Error(), "s3cret") {
				t.Errorf("the error has a secret detail: %v", err)
			}
			if tt.code == duly.CodeInternal && !strings.Contains(text.String(), "s3cret detail") {
				t.Errorf("the log is %q", text)
			}
			if n := countOwn(s, count); n != 1 {
				t.Errorf("the call was sent %d times", n)
			}
		})
	}
}

// TestRefusalIsLoggedOnceAMinute checks that the log shows the operator the store's address once a
// minute, because a duly server hides the address from its callers.
func TestRefusalIsLoggedOnceAMinute(t *testing.T) {
	t.Parallel()
	s := stub(t, redis70, inTurn(resp.Error("OOM command not allowed when used memory > 'maxmemory'.")))
	log, text := newLog()
	l := openWith(t, s.URL(), log)
	for range 3 {
		if _, err := l.Run(t.Context(), increment("k", 1)); !errors.Is(err, duly.ErrFull) {
			t.Errorf("got %v", err)
		}
	}
	if n := strings.Count(text.String(), "redis at "+s.Addr()); n != 1 {
		t.Errorf("three refusals wrote %d lines: %s", n, text)
	}
}

// TestRetriesEndAtTheDeadline checks that retries end at the context's deadline, or after the option's time if
// there is none. The error says that the call did not run.
func TestRetriesEndAtTheDeadline(t *testing.T) {
	t.Parallel()
	s := stub(t, redis70, inTurn(resp.Error("LOADING Redis is loading the dataset in memory")))
	l := open(t, s.URL()+"?retry=300ms")
	_, err := l.Run(context.Background(), increment("k", 1))
	if !errors.Is(err, duly.ErrUnavailable) || !strings.Contains(err.Error(), "nothing was done") {
		t.Errorf("a call without a deadline returned %v", err)
	}
	if n := countOwn(s, count); n < 2 {
		t.Errorf("the call was sent %d times", n)
	}
	l = open(t, s.URL()+"?retry=1h&durability=replicas:1")
	// Whenever the deadline comes, a call that was sent must return unavailable.
	for i := range 60 {
		for name, run := range map[string]func(context.Context) error{
			"Run":        func(ctx context.Context) error { _, err := l.Run(ctx, increment("k", 1)); return err },
			"RunDurable": func(ctx context.Context) error { _, _, err := l.RunDurable(ctx, increment("k", 1)); return err },
		} {
			before := countOwn(s, count)
			err := run(within(t, time.Duration(i)*time.Millisecond/5))
			if sent := countOwn(s, count) > before; sent && !errors.Is(err, duly.ErrUnavailable) || !sent && err == nil {
				t.Errorf("%s with a deadline after %d steps returned %v", name, i, err)
			}
		}
	}
	if _, err := l.Run(within(t, 200*time.Millisecond), increment("k", 1)); !errors.Is(err, duly.ErrUnavailable) {
		t.Errorf("a call with a deadline returned %v", err)
	}
}

// TestDeadlineEndsOnlyTheWaiting checks that a deadline ends the caller's waiting, but neither a
// call in flight nor the shared connection (C4.2).
func TestDeadlineEndsOnlyTheWaiting(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	s := stub(t, redis70, inTurn(redistest.Late{When: release, Answer: int64(1)}, int64(2)))
	l := open(t, s.URL())
	_, err := l.Run(within(t, 100*time.Millisecond), increment("k", 1))
	if !errors.Is(err, duly.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the call with the deadline returned %v", err)
	}
	close(release)
	msg, err := l.Run(t.Context(), increment("k", 1))
	if n, _ := msg.AsInt64(); err != nil || n != 2 {
		t.Errorf("the next call returned %d, %v", n, err)
	}
	if n := s.Count("HELLO"); n != 2 { // one greeting for the connection, one for the check
		t.Errorf("got %d greetings: the connection was not kept", n)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Run(gone, increment("k", 1)); !errors.Is(err, duly.ErrUnavailable) ||
		!errors.Is(err, context.Canceled) {
		t.Errorf("a call with an ended context returned %v", err)
	}
}

// TestCallsWaitForAServerThatComesBack checks that calls wait while the server is down, and run
// as soon as it is back.
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
		t.Errorf("a call without a server returned %v", err)
	}
	done := make(chan error)
	go func() {
		_, err := l.Run(within(t, 20*time.Second), increment("k", 1))
		done <- err
	}()
	s.Restart()
	if err := <-done; err != nil {
		t.Errorf("the call after the restart returned %v", err)
	}
}

// TestRemovedScriptsCauseNoError removes the scripts from the server all the time (fault S1). Callers see no
// error.
func TestRemovedScriptsCauseNoError(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t)
	l := open(t, s.URL())
	for i := range 20 {
		s.Must("SCRIPT", "FLUSH")
		for k, r := range l.RunAll(t.Context(), []Call{increment("a", 1), increment("b", 1),
			{Script: echo, Keys: []string{"a"}, Args: []string{"x"}}}) {
			if n, _ := r.Msg.AsInt64(); r.Err != nil || k < 2 && n != int64(i+1) {
				t.Fatalf("round %d: call %d returned %d, %v", i, k, n, r.Err)
			}
		}
	}
}

// TestCallsWaitForABusyServer checks that calls wait while the script of another client blocks the server (fault S4).
func TestCallsWaitForABusyServer(t *testing.T) {
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
		t.Errorf("a call to the busy server returned %v", err)
	}
	done := make(chan error)
	go func() {
		_, err := l.Run(t.Context(), increment("k", 1))
		done <- err
	}()
	s.Must("SCRIPT", "KILL")
	if err := <-done; err != nil {
		t.Errorf("a call after the script returned %v", err)
	}
	if got := s.Must("GET", "k"); got != "1" {
		t.Errorf("the call ran %v times", got)
	}
}

// TestOnlyStoringScriptsFailAtMaxmemory checks that at maxmemory a script that stores fails as full, and a script with
// allow-oom runs (fault D4).
func TestOnlyStoringScriptsFailAtMaxmemory(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t, redistest.MaxMemory("1", "noeviction"))
	l := open(t, s.URL())
	if _, err := l.Run(t.Context(), increment("k", 1)); !errors.Is(err, duly.ErrFull) {
		t.Errorf("a script that stores returned %v", err)
	}
	free := NewScript("free", "#!lua flags=allow-oom\nreturn redis.call('INCR', KEYS[1])", false)
	if _, err := l.Run(t.Context(), Call{Script: free, Keys: []string{"k"}}); err != nil {
		t.Errorf("a script with allow-oom returned %v", err)
	}
	if _, err := l.Run(t.Context(), Call{Script: echo, Keys: []string{"k"}, Args: []string{""}}); err != nil {
		t.Errorf("a script that reads returned %v", err)
	}
}

func TestDoSendsOneCommand(t *testing.T) {
	t.Parallel()
	s, p := redistest.Shared(t)
	l := open(t, s.URL())
	key := p + ":h"
	if msg, err := l.Do(t.Context(), l.B().Hget().Key(key).Field("f").Build()); err != nil || !msg.IsNil() {
		t.Errorf("a missing key returned %v, %v", msg, err)
	}
	if _, err := l.Do(t.Context(), l.B().Hset().Key(key).FieldValue().FieldValue("f", "v").Build()); err != nil {
		t.Error(err)
	}
	msg, err := l.Do(t.Context(), l.B().Hget().Key(key).Field("f").Build())
	if got, _ := msg.ToString(); err != nil || got != "v" {
		t.Errorf("answers %q, %v", got, err)
	}
	if _, err := l.Do(t.Context(), l.B().Get().Key(key).Build()); !errors.Is(err, duly.ErrCorrupt) {
		t.Errorf("a key of another type returned %v", err)
	}
}

// TestCallIsSentOnceAfterFailedHandshakes makes three handshakes of new connections fail. The call
// waits for a good connection, and is sent exactly once.
func TestCallIsSentOnceAfterFailedHandshakes(t *testing.T) {
	t.Parallel()
	greetings := inTurn(redistest.Usual{}, redistest.Usual{}, redistest.HangUp{},
		resp.Error("ERR max number of clients reached"), redistest.HangUp{}, redistest.Usual{})
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
		t.Errorf("got %d, %v", n, err)
	}
	if greeted, ran := s.Count("HELLO"), countOwn(s, count); greeted != 6 || ran != 1 {
		t.Errorf("got %d greetings and %d runs", greeted, ran)
	}
}

// TestLinkReconnectsAfterADemotion turns the server into a replica (fault F9). The link then opens a new connection,
// because the server's name may have a new address. When the server is the primary again, calls
// succeed.
func TestLinkReconnectsAfterADemotion(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t)
	l := open(t, s.URL())
	if _, err := l.Run(t.Context(), increment("k", 1)); err != nil {
		t.Fatal(err)
	}
	before := l.dialer.open()
	s.Must("REPLICAOF", "127.0.0.1", "1")
	_, err := l.Run(within(t, 100*time.Millisecond), increment("k", 1))
	if !errors.Is(err, duly.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) &&
		!strings.Contains(err.Error(), "replica") {
		t.Errorf("a call to the replica returned %v", err)
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
		t.Errorf("a call to the primary returned %v", err)
	}
}

func TestCloseEndsCalls(t *testing.T) {
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
		t.Errorf("a call in flight returned %v", err)
	}
	if _, err := l.Run(t.Context(), increment("k", 1)); !errors.Is(err, duly.ErrClosed) {
		t.Errorf("a later call returned %v", err)
	}
	if _, _, _, _, err := l.Block(t.Context(), "", []string{"k"}, time.Second); !errors.Is(err, duly.ErrClosed) {
		t.Errorf("a later blocking call returned %v", err)
	}
	l.Unblock("")
	l.Close()
}

// TestOneConnectionPerNode checks that hundreds of callers share one connection (C11.13).
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
		t.Errorf("got %d connections", n)
	}
}

// TestOnceIsNotRetried checks that a call with Once is not retried although it did not run, and
// that its error says so.
func TestOnceIsNotRetried(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		answer    any
		runs      int
		untouched bool
	}{
		{resp.Error("LOADING Redis is loading the dataset in memory"), 1, true},
		{resp.Error("TRYAGAIN Multiple keys request during rehashing of slot"), 1, true},
		// The script is sent as text at once, even with Once.
		{resp.Error("NOSCRIPT No matching script."), 2, false},
		{resp.Error("OOM command not allowed"), 1, false},
		{redistest.HangUp{}, 1, false}, // the call may have run, so it is not retried
	} {
		s := stub(t, redis70, inTurn(c.answer))
		l := open(t, s.URL())
		call := increment("k", 1)
		call.Once = true
		_, err := l.Run(t.Context(), call)
		if runs := countOwn(s, count); err == nil || runs != c.runs || Untouched(err) != c.untouched {
			t.Errorf("%v: got %v after %d runs, untouched: %v", c.answer, err, runs, Untouched(err))
		}
	}
	s := redistest.Single(t)
	l := open(t, s.URL())
	s.Kill()
	// A call over the broken connection, before the client has noticed, may have run.
	redistest.Await(t, "a call finds no server", func() bool {
		call := increment("k", 1)
		call.Once = true
		_, err := l.Run(t.Context(), call)
		return Untouched(err)
	})
}

// TestHastyCallsDoNotRetry checks that a call with a Hasty context returns soon: if it did not run, it
// is not retried, and if the server hangs, it does not wait. One of several calls does not wait for
// another.
func TestHastyCallsDoNotRetry(t *testing.T) {
	t.Parallel()
	s := stub(t, redis70, func([]string) any { return resp.Error("CLUSTERDOWN The cluster is down") })
	ctx, cancel := Hasty(t.Context())
	defer cancel()
	if _, err := open(t, s.URL()).Run(ctx, increment("k", 1)); !Untouched(err) {
		t.Errorf("a call that did not run returned %v", err)
	}
	if n := countOwn(s, count); n != 1 {
		t.Errorf("the call was sent %d times", n)
	}
	server := redistest.Single(t)
	l := open(t, server.URL())
	server.Pause()
	defer server.Continue()
	results := l.RunAll(ctx, []Call{increment("a", 1), increment("b", 1)})
	for _, r := range results {
		if duly.CodeOf(r.Err) != duly.CodeUnavailable {
			t.Errorf("a call to a hung server returned %v", r.Err)
		}
	}
}

// TestPartialErrorDoesNotClaimThatNothingWasDone checks that the error of a call with one refused part does not
// claim that nothing was done.
func TestPartialErrorDoesNotClaimThatNothingWasDone(t *testing.T) {
	t.Parallel()
	s := stub(t, redis70, func([]string) any { return resp.Error("LOADING Redis is loading the dataset in memory") })
	l := open(t, s.URL()+"?retry=1ms")
	_, err := l.Run(t.Context(), increment("k", 1))
	if !Untouched(err) || !strings.Contains(err.Error(), "nothing was done") {
		t.Fatalf("the part returned %v", err)
	}
	whole := Partly(err)
	if text := whole.Error(); !errors.Is(whole, duly.ErrUnavailable) || strings.Contains(text, "nothing was done") ||
		!strings.Contains(text, "may have happened") {
		t.Errorf("Partly returned %v", whole)
	}
	if err := errors.New("another"); Partly(err) != err {
		t.Errorf("Partly changed another error to %v", Partly(err))
	}
}
