package link

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/hashslot"
	"github.com/dulymq/duly/internal/redistest"
)

// answer is a result of Block.
type answer struct {
	key, member string
	score       float64
	ok          bool
	err         error
}

func block(ctx context.Context, l *Link, timeout time.Duration, keys ...string) answer {
	var a answer
	a.key, a.member, a.score, a.ok, a.err = l.Block(ctx, l.Group(keys[0]), keys, timeout)
	return a
}

// goBlock calls Block in a goroutine. The channel receives its result.
func goBlock(ctx context.Context, l *Link, keys ...string) <-chan answer {
	done := make(chan answer, 1)
	go func() { done <- block(ctx, l, MaxBlock, keys...) }()
	return done
}

// awaitBlocked waits until n clients block.
func awaitBlocked(t *testing.T, s *redistest.Server, n int) {
	t.Helper()
	redistest.Await(t, fmt.Sprintf("%d blocked clients", n), func() bool {
		return contains(s.Must("INFO", "clients"), fmt.Sprintf("blocked_clients:%d\r\n", n))
	})
}

func TestBlockTakesTheLowest(t *testing.T) {
	t.Parallel()
	s, p := redistest.Shared(t)
	l := open(t, s.URL())
	a, b := p+":a", p+":b"
	if l.Group(a) != l.Group(b) {
		t.Error("one server has several groups")
	}
	if got := block(t.Context(), l, time.Millisecond, a, b); got != (answer{}) {
		t.Errorf("Block on empty sets returned %+v", got)
	}
	s.Must("ZADD", b, "1.5", "now", "-2", "first")
	if got := block(t.Context(), l, MaxBlock, a, b); got != (answer{key: b, member: "first", score: -2, ok: true}) {
		t.Errorf("Block on two members returned %+v", got)
	}
	if got := block(t.Context(), l, MaxBlock, a, b); got != (answer{key: b, member: "now", score: 1.5, ok: true}) {
		t.Errorf("Block on one member returned %+v", got)
	}
	s.Must("SET", a, "x")
	if got := block(t.Context(), l, MaxBlock, a, b); !errors.Is(got.err, duly.ErrCorrupt) {
		t.Errorf("Block on a key of another type returned %+v", got)
	}
}

func TestBlockReturnsAnAddedMember(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t)
	l := open(t, s.URL())
	for i := range 3 {
		done := goBlock(t.Context(), l, "a", "b")
		awaitBlocked(t, s, 1)
		s.Must("ZADD", "b", i, "now")
		if got := <-done; got != (answer{key: "b", member: "now", score: float64(i), ok: true}) {
			t.Errorf("Block returned %+v for an added member", got)
		}
	}
	// The main client and the blocking client have one connection each, and the blocking call has
	// another one.
	if n := len(l.dialer.open()); n != 3 {
		t.Errorf("got %d connections", n)
	}
}

func TestUnblockEndsTheCall(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t)
	l := open(t, s.URL())
	l.Unblock("")
	l.Unblock("none")
	for range 20 {
		began := time.Now()
		done := goBlock(t.Context(), l, "a")
		redistest.Await(t, "the call has begun", func() bool { return l.blockers.current("") != nil })
		// Unblock may reach the server before the call or after it.
		l.Unblock("")
		if got := <-done; got != (answer{}) || time.Since(began) >= MaxBlock {
			t.Fatalf("unblocked after %v: %+v", time.Since(began), got)
		}
	}
	awaitBlocked(t, s, 0)
}

// blocked returns a server on which a blocking call returns at the third CLIENT UNBLOCK. The first two
// reach the server before the call, so they end nothing.
func blocked(t *testing.T, answer any) *redistest.Stub {
	unblocked := make(chan struct{})
	unblock := inTurn(int64(0), int64(0), int64(1))
	return redistest.NewStub(t, redis70, func(args []string) any {
		switch {
		case args[0] == "BZPOPMIN":
			return redistest.Late{When: unblocked, Answer: answer}
		case strings.HasPrefix(args[0], "EVAL"):
			return []any{}
		case args[0] == "CLIENT" && args[1] == "UNBLOCK":
			n := unblock(args)
			if n == int64(1) {
				close(unblocked)
			}
			return n
		}
		return redistest.Usual{}
	})
}

func TestUnblockIsRepeatedUntilItHits(t *testing.T) {
	t.Parallel()
	s := blocked(t, nil)
	l := open(t, s.URL())
	done := goBlock(t.Context(), l, "a")
	redistest.Await(t, "the call has come", func() bool { return s.Count("BZPOPMIN") == 1 })
	l.Unblock("")
	if got := <-done; got != (answer{}) {
		t.Errorf("Block returned %+v after Unblock", got)
	}
}

// TestUnblockWaitsForTheEndOfAPause checks a server whose writes are paused, as for CLUSTER
// FAILOVER or SHUTDOWN. Such a server delays the blocking call, and many releases of Redis crash if
// such a call is unblocked. Unblock therefore waits for the end of the pause.
func TestUnblockWaitsForTheEndOfAPause(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t)
	l := open(t, s.URL())
	s.Must("CLIENT", "PAUSE", time.Minute.Milliseconds(), "WRITE")
	done := make(chan answer)
	go func() { done <- block(t.Context(), l, MaxBlock, "a") }()
	awaitBlocked(t, s, 1)
	l.Unblock(l.Group("a"))
	// The write before CLIENT UNBLOCK waits too.
	awaitBlocked(t, s, 2)
	s.Must("CLIENT", "UNPAUSE")
	if got := <-done; got != (answer{}) {
		t.Errorf("Block returned %+v", got)
	}
	s.Must("PING")
}

func TestCanceledBlockReturnsARemovedMember(t *testing.T) {
	t.Parallel()
	s := blocked(t, []any{"a", "now", 1.5})
	l := open(t, s.URL())
	ctx, cancel := context.WithCancel(t.Context())
	done := goBlock(ctx, l, "a")
	redistest.Await(t, "the call has come", func() bool { return s.Count("BZPOPMIN") == 1 })
	cancel()
	if got := <-done; got != (answer{key: "a", member: "now", score: 1.5, ok: true}) {
		t.Errorf("a canceled Block returned %+v", got)
	}
}

// TestBlockKeepsARemovedMember checks that Block returns a member that the server removed while the
// caller left.
func TestBlockKeepsARemovedMember(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t)
	l := open(t, s.URL())
	ctx, cancel := context.WithCancel(t.Context())
	done := goBlock(ctx, l, "a")
	awaitBlocked(t, s, 1)
	cancel()
	if got := <-done; !errors.Is(got.err, context.Canceled) || got.ok {
		t.Errorf("a canceled Block returned %+v", got)
	}
	ctx, cancel = context.WithCancel(t.Context())
	done = goBlock(ctx, l, "a")
	awaitBlocked(t, s, 1)
	conn, err := s.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	// The server is paused, so it receives the new member and the end of the blocking call together.
	s.Pause()
	if err := conn.Send("ZADD", "a", 7, "now"); err != nil {
		t.Fatal(err)
	}
	cancel()
	s.Continue()
	got := <-done
	left, err := s.Do(t.Context(), "ZSCORE", "a", "now")
	if err != nil {
		t.Fatal(err)
	}
	if took := got.ok && got.member == "now"; took == (left != nil) {
		t.Errorf("the caller got %+v, and the server has %v", got, left)
	}
}

// TestBlockSurvivesALostConnection loses the connection during a blocking call, and between two.
func TestBlockSurvivesALostConnection(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t)
	l := open(t, s.URL())
	done := goBlock(t.Context(), l, "a")
	awaitBlocked(t, s, 1)
	s.Restart()
	if got := <-done; !errors.Is(got.err, duly.ErrUnavailable) {
		t.Errorf("a loss during the call returned %+v", got)
	}
	if got := block(t.Context(), l, time.Millisecond, "a"); got != (answer{}) {
		t.Errorf("the call after it returned %+v", got)
	}
	s.Restart()
	if got := block(t.Context(), l, time.Second, "a"); got != (answer{}) {
		t.Errorf("a loss between two calls returned %+v", got)
	}
	s.Kill()
	if got := block(t.Context(), l, 20*time.Millisecond, "a"); !errors.Is(got.err, duly.ErrUnavailable) {
		t.Errorf("Block without a server returned %+v", got)
	}
}

// TestBlockOnASilentServerCanBeEnded checks that a blocking call can be ended while the server hangs.
func TestBlockOnASilentServerCanBeEnded(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t)
	l := open(t, s.URL())
	done := goBlock(t.Context(), l, "a")
	awaitBlocked(t, s, 1)
	s.Pause()
	defer s.Continue()
	ctx, cancel := context.WithCancel(t.Context())
	second := goBlock(ctx, l, "a")
	cancel()
	if got := <-second; !errors.Is(got.err, context.Canceled) {
		t.Errorf("a call that waits for its turn returned %+v", got)
	}
	l.Close()
	if got := <-done; !errors.Is(got.err, duly.ErrClosed) {
		t.Errorf("Block after Close returned %+v", got)
	}
}

// TestIdleBlockingConnectionIsClosed checks that the blocking connection is closed after some
// time without calls.
func TestIdleBlockingConnectionIsClosed(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t)
	l := open(t, s.URL())
	block(t.Context(), l, time.Millisecond, "a")
	if n := len(l.dialer.open()); n != 3 {
		t.Errorf("got %d connections", n)
	}
	l.blockers.blocker(l.core, "").retire()
	redistest.Await(t, "the connection is closed", func() bool { return len(l.dialer.open()) == 2 })
	if got := block(t.Context(), l, time.Millisecond, "a"); got != (answer{}) {
		t.Errorf("the call after it returned %+v", got)
	}
}

// TestManyGroupsBlock checks that every group can have a call in flight, even if one node owns the
// keys of all groups.
func TestManyGroupsBlock(t *testing.T) {
	t.Parallel()
	c, p := redistest.SharedCluster(t)
	l := open(t, c.URL())
	const groups = 80
	first := c.Shard(0)
	keys := map[string]string{} // keys by their group
	var calls []<-chan answer
	for i := 0; len(keys) < groups; i++ {
		key := fmt.Sprintf("%s:{%d}", p, i)
		if hashslot.Of(key) > hashslot.Slots/redistest.Shards-1 || keys[l.Group(key)] != "" {
			continue
		}
		keys[l.Group(key)] = key
		calls = append(calls, goBlock(t.Context(), l, key))
	}
	awaitBlocked(t, first, groups)
	for group := range keys {
		l.Unblock(group)
	}
	for _, done := range calls {
		if got := <-done; got != (answer{}) {
			t.Errorf("Block returned %+v after Unblock", got)
		}
	}
}

func TestBlockFollowsAMovedSlot(t *testing.T) {
	t.Parallel()
	c := redistest.NewCluster(t, 0)
	l := open(t, c.URL())
	const key = "{moving}:wake"
	from := c.For(key)
	to := c.Nodes()[0]
	if to.Addr() == from.Addr() {
		to = c.Nodes()[1]
	}
	done := goBlock(t.Context(), l, key)
	awaitBlocked(t, from, 1)
	from.Must("ZADD", key, 1, "now")
	if got := <-done; !got.ok || got.key != key {
		t.Errorf("Block returned %+v for an added member", got)
	}
	done = goBlock(t.Context(), l, key)
	awaitBlocked(t, from, 1)
	l.Unblock(l.Group(key))
	if got := <-done; got != (answer{}) {
		t.Errorf("Block returned %+v after Unblock", got)
	}
	done = goBlock(t.Context(), l, key)
	awaitBlocked(t, from, 1)
	c.MoveSlot(c.Slot(key), from, to, nil)
	// The call has followed the slot.
	awaitBlocked(t, to, 1)
	to.Must("ZADD", key, 2, "now")
	if got := <-done; !got.ok || got.score != 2 {
		t.Errorf("Block after the move returned %+v", got)
	}
	done = goBlock(t.Context(), l, key)
	awaitBlocked(t, to, 1)
	l.Unblock(l.Group(key))
	if got := <-done; got != (answer{}) {
		t.Errorf("Block after the move returned %+v after Unblock", got)
	}
}

// TestUnblockAsksOnce checks that one goroutine asks the server, however often Unblock is called.
func TestUnblockAsksOnce(t *testing.T) {
	t.Parallel()
	s := redistest.NewStub(t, redis70, func(args []string) any {
		switch {
		case args[0] == "BZPOPMIN", args[0] == "CLIENT" && args[1] == "UNBLOCK":
			// The server hangs.
			return redistest.Silence{}
		case strings.HasPrefix(args[0], "EVAL"):
			return []any{}
		}
		return redistest.Usual{}
	})
	l := open(t, s.URL())
	done := goBlock(t.Context(), l, "a")
	redistest.Await(t, "the call has come", func() bool { return s.Count("BZPOPMIN") == 1 })
	asked := func() (n int) {
		for _, args := range s.Seen() {
			if len(args) > 1 && args[1] == "UNBLOCK" {
				n++
			}
		}
		return n
	}
	for range 100 {
		l.Unblock("")
	}
	redistest.Await(t, "the server is asked", func() bool { return asked() > 0 })
	for range 100 {
		l.Unblock("")
	}
	s.Drop()
	<-done
	if n := asked(); n != 1 {
		t.Errorf("the server was asked %d times", n)
	}
}

// TestBlockKeepsItsConnectionWhileTheSlotMoves checks that the blocking call fails repeatedly
// while its slot moves, and that the connection is kept.
func TestBlockKeepsItsConnectionWhileTheSlotMoves(t *testing.T) {
	t.Parallel()
	c := redistest.NewCluster(t, 0)
	l := open(t, c.URL())
	const key = "{moving}:wake"
	from, to := c.For(key), c.Shard(0)
	if to == from {
		to = c.Shard(1)
	}
	if got := block(t.Context(), l, time.Millisecond, key); got != (answer{}) {
		t.Fatal(got)
	}
	lane := l.blockers.blocker(l.core, l.Group(key)).conn
	c.MoveSlot(c.Slot(key), from, to, func(stage redistest.MoveStage) {
		if stage != redistest.MoveMigrating {
			return
		}
		if got := block(t.Context(), l, 100*time.Millisecond, key); !errors.Is(got.err, duly.ErrUnavailable) || got.ok {
			t.Errorf("Block while the slot moves returned %+v", got)
		}
		if l.blockers.blocker(l.core, l.Group(key)).conn != lane {
			t.Error("another connection was opened")
		}
	})
	redistest.Await(t, "a blocking call reaches the new node", func() bool {
		return block(t.Context(), l,
			time.Millisecond, key) == answer{}
	})
}

// TestRefusalOfWakeUpsIsLoggedOnce checks that a repeated refusal is logged once, and again after
// a success.
func TestRefusalOfWakeUpsIsLoggedOnce(t *testing.T) {
	t.Parallel()
	s, p := redistest.Shared(t)
	log, written := newLog()
	l := openWith(t, s.URL(), log)
	refuse := func() {
		s.Must("SET", p, "no sorted set")
		for range 3 {
			if got := block(t.Context(), l, time.Millisecond, p); !errors.Is(got.err, duly.ErrCorrupt) {
				t.Errorf("Block on a text returned %+v", got)
			}
		}
	}
	refuse()
	if n := written.Count("wake-ups"); n != 1 {
		t.Errorf("three refusals were logged %d times: %s", n, written)
	}
	s.Must("DEL", p)
	block(t.Context(), l, time.Millisecond, p)
	refuse()
	if n := written.Count("wake-ups"); n != 2 {
		t.Errorf("a second refusal was logged %d times: %s", n, written)
	}
}
