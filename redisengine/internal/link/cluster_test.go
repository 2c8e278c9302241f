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

// three touches several keys of a slot, some of which are never there, as the
// engine's scripts do.
var three = NewScript("three", `#!lua
redis.call('EXISTS', KEYS[2])
redis.call('SADD', KEYS[3], ARGV[1])
return redis.call('INCR', KEYS[1])`, false)

func touch(tag string, i int) Call {
	return Call{Script: three, Keys: []string{tag + ":n", tag + ":none", tag + ":set"}, Args: []string{fmt.Sprint(i)}}
}

func TestGroups(t *testing.T) {
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

// Calls find their nodes from any node, one round trip for all.
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
				t.Fatalf("call %d answers %d, %v", i, n, r.Err)
			}
		}
	}
}

// F8: a slot moves while it is used. Nobody sees MOVED, ASK or TRYAGAIN, and
// no call runs twice.
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
	met := map[redistest.MoveStage]string{redistest.MoveMigrating: "TRYAGAIN", redistest.MoveEmptied: "ASK", redistest.MoveClaimed: "MOVED"}
	from.Must("CONFIG", "RESETSTAT")
	c.MoveSlot(c.Slot(tag), from, to, func(stage redistest.MoveStage) {
		if word := met[stage]; word != "" {
			awaitError(t, from, word) // a call has met the stage
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
		t.Errorf("ran %d times, answered %d times (%v)", n, want, err)
	}
}

// awaitError waits until the server has answered an error of that word.
func awaitError(t *testing.T, s *redistest.Server, word string) {
	t.Helper()
	redistest.Await(t, "an answer "+word, func() bool { return contains(s.Must("INFO", "errorstats"), "errorstat_"+word+":") })
}

// A primary is killed: calls wait for its replica to take over.
func TestClusterFailover(t *testing.T) {
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
		t.Errorf("while nobody serves it: %v", err)
	}
	if _, err := l.Run(within(t, 30*time.Second), touch(tag, 0)); err != nil {
		t.Errorf("after the failover: %v", err)
	}
	_, _, err := open(t, c.URL()).RunDurable(within(t, 30*time.Second), touch(tag, 0))
	if err != nil {
		t.Errorf("a new link: %v", err)
	}
}

// F8, F9: a primary stands still, with its connections whole, until its replica
// has taken its place. What was on its way to it may have happened; what follows
// goes to the new one, and nobody hears what the old one says when it goes on.
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
		t.Errorf("a call on its way: %v", err)
	}
	if _, err := l.Run(within(t, time.Minute), touch(tag, 0)); err != nil {
		t.Error(err)
	}
	if took := time.Since(begun); took > 15*time.Second { // a question without an answer ends after twenty
		t.Errorf("a call was answered %v after the change", took)
	}
	old.Continue()
	c.AwaitHealthy()
	msg, err := l.Do(within(t, time.Minute), l.B().Get().Key(tag+":n").Build())
	if n, _ := msg.AsInt64(); err != nil || n != 2 {
		t.Errorf("ran %d times, answered twice (%v)", n, err)
	}
}

// A server that stands still and was not replaced keeps its connections.
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
		t.Error("it was replaced, others say")
	}
	node.Continue()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
