package link

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/redistest"
)

// three accesses three keys of one slot. Like the scripts of the engine, it also reads a key that
// does not exist.
var three = NewScript("three", `#!lua
redis.call('EXISTS', KEYS[2])
redis.call('SADD', KEYS[3], ARGV[1])
return redis.call('INCR', KEYS[1])`, false)

func touch(tag string, i int) Call {
	return Call{Script: three, Keys: []string{tag + ":n", tag + ":none", tag + ":set"}, Args: []string{fmt.Sprint(i)}}
}

func TestKeysOfOneSlotAreOneGroup(t *testing.T) {
	t.Parallel()
	c, p := redistest.SharedCluster(t)
	l := open(t, c.URL())
	for i := range 50 {
		key := fmt.Sprintf("%s:{%d}:x", p, i)
		if got := l.Group(key); got != fmt.Sprint(c.Slot(key)) {
			t.Errorf("Group(%q) = %s", key, got)
		}
	}
	for _, key := range []string{"", "a", "{}a", "{}{a}", "a{b}c{d}", "{{a}}", "a}b{c", "{a", "\xff\x00"} {
		if got := l.Group(key); got != fmt.Sprint(c.Slot(key)) {
			t.Errorf("Group(%q) = %s, want %d", key, got, c.Slot(key))
		}
	}
}

// TestClusterCallsFindTheirNodes checks that calls find their nodes from any node, in one round
// trip for all calls.
func TestClusterCallsFindTheirNodes(t *testing.T) {
	t.Parallel()
	c, p := redistest.SharedCluster(t)
	l := open(t, "redis+cluster://"+c.Addrs()[1])
	var calls []Call
	for i := range 30 {
		calls = append(calls, touch(fmt.Sprintf("{%s%d}", p, i), 0))
	}
	for round := range 2 {
		for i, r := range l.RunAll(t.Context(), calls) {
			if n, _ := r.Msg.AsInt64(); r.Err != nil || n != int64(round+1) {
				t.Fatalf("call %d returned %d, %v", i, n, r.Err)
			}
		}
	}
}

// TestSlotMovesUnderCalls moves a slot while it is used (fault F8). Callers never see MOVED, ASK or
// TRYAGAIN, and no call runs twice.
func TestSlotMovesUnderCalls(t *testing.T) {
	t.Parallel()
	c := redistest.NewCluster(t, 0)
	l := open(t, c.URL())
	const tag = "{moving}"
	from := c.For(tag)
	to := c.Nodes()[0]
	if to.Addr() == from.Addr() {
		to = c.Nodes()[1]
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	ran := make([]int, 3)
	for k := range ran {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
				var err error
				if k == 0 {
					_, err = l.Run(ctx, touch(tag, 0))
				} else {
					err = l.RunAll(ctx, []Call{touch(tag, 0), {Script: echo, Keys: []string{"other"}, Args: []string{"x"}}})[0].Err
				}
				cancel()
				if err != nil {
					t.Error(err)
					return
				}
				ran[k]++
			}
		})
	}
	redistest.Await(t, "calls go through", func() bool { return from.Must("GET", tag+":n") != nil })
	met := map[redistest.MoveStage]string{redistest.MoveMigrating: "TRYAGAIN", redistest.MoveEmptied: "ASK",
		redistest.MoveClaimed: "MOVED"}
	from.Must("CONFIG", "RESETSTAT")
	c.MoveSlot(c.Slot(tag), from, to, func(stage redistest.MoveStage) {
		if word := met[stage]; word != "" {
			// A call has reached this stage of the move.
			awaitError(t, from, word)
		}
	})
	if _, err := l.Run(t.Context(), touch(tag, 0)); err != nil {
		t.Error(err)
	}
	close(stop)
	wg.Wait()
	want := int64(ran[0] + ran[1] + ran[2] + 1)
	msg, err := l.Do(t.Context(), l.B().Get().Key(tag+":n").Build())
	if n, _ := msg.AsInt64(); err != nil || n != want {
		t.Errorf("the script ran %d times and was answered %d times (%v)", n, want, err)
	}
}

// awaitError waits until the server has returned an error with that word.
func awaitError(t *testing.T, s *redistest.Server, word string) {
	t.Helper()
	redistest.Await(t, "an answer "+word, func() bool {
		return contains(s.Must("INFO", "errorstats"),
			"errorstat_"+word+":")
	})
}

// TestCallsWaitForAClusterFailover kills a primary. Calls wait until its replica takes over.
func TestCallsWaitForAClusterFailover(t *testing.T) {
	t.Parallel()
	c := redistest.NewCluster(t, 1)
	l := open(t, c.URL())
	tag := "{failing}"
	if _, err := l.Run(t.Context(), touch(tag, 0)); err != nil {
		t.Fatal(err)
	}
	old := c.For(tag)
	old.Kill()
	if _, err := l.Run(within(t, 200*time.Millisecond), touch(tag, 0)); !errors.Is(err, duly.ErrUnavailable) {
		t.Errorf("a call without a primary returned %v", err)
	}
	if _, err := l.Run(within(t, 30*time.Second), touch(tag, 0)); err != nil {
		t.Errorf("a call after the failover returned %v", err)
	}
	_, _, err := open(t, c.URL()).RunDurable(within(t, 30*time.Second), touch(tag, 0))
	if err != nil {
		t.Errorf("a call of a new link returned %v", err)
	}
}

// TestFrozenPrimaryIsLeft stops a primary, with its connections open, until its replica has
// replaced it (faults F8, F9). Calls that are in flight to the old primary may have run. Later calls go to
// the new primary, and answers of the old one are ignored after it continues.
func TestFrozenPrimaryIsLeft(t *testing.T) {
	t.Parallel()
	c := redistest.NewCluster(t, 1)
	l := open(t, c.URL())
	const tag = "{frozen}"
	if _, err := l.Run(t.Context(), touch(tag, 0)); err != nil {
		t.Fatal(err)
	}
	c.For(tag).Must("WAIT", 1, 0)
	old := c.For(tag)
	old.Pause()
	hung := make(chan error, 1)
	go func() {
		_, err := l.Run(context.Background(), touch(tag, 0))
		hung <- err
	}()
	c.AwaitHealthy()
	begun := time.Now()
	if err := <-hung; !errors.Is(err, duly.ErrUnavailable) {
		t.Errorf("a call in flight returned %v", err)
	}
	if _, err := l.Run(within(t, time.Minute), touch(tag, 0)); err != nil {
		t.Error(err)
	}
	// 20 s: a ping without an answer would close the connection only after that time
	if took := time.Since(begun); took > 15*time.Second {
		t.Errorf("a call returned %v after the change", took)
	}
	old.Continue()
	c.AwaitHealthy()
	msg, err := l.Do(within(t, time.Minute), l.B().Get().Key(tag+":n").Build())
	if n, _ := msg.AsInt64(); err != nil || n != 2 {
		t.Errorf("the script ran %d times and was answered twice (%v)", n, err)
	}
}

// TestFrozenServerKeepsItsConnections checks that a server which hangs and was not replaced keeps
// its connections.
func TestFrozenServerKeepsItsConnections(t *testing.T) {
	t.Parallel()
	c := redistest.NewCluster(t, 0, redistest.Config("cluster-node-timeout 60000"))
	l := open(t, c.URL())
	const tag = "{frozen}"
	node := c.For(tag)
	if _, err := l.Run(t.Context(), touch(tag, 0)); err != nil {
		t.Fatal(err)
	}
	node.Pause()
	done := make(chan error, 1)
	go func() {
		_, err := l.Run(context.Background(), touch(tag, 0))
		done <- err
	}()
	redistest.Await(t, "its silence is noticed", func() bool { return len(l.dialer.silent()) > 0 })
	if (&watchdog{l.core}).isReplaced(node.Addr()) {
		t.Error("isReplaced returned true")
	}
	node.Continue()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
