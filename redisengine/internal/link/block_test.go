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

// answer is what Block answers.
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

// blockBeside is a call of Block that is on its way; its answer will stand in
// the channel.
func blockBeside(ctx context.Context, l *Link, keys ...string) <-chan answer {
	done := make(chan answer, 1)
	go func() { done <- block(ctx, l, MaxBlock, keys...) }()
	return done
}

// awaitBlocked waits until that many clients block.
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
		t.Errorf("of nothing: %+v", got)
	}
	s.Must("ZADD", b, "1.5", "now", "-2", "first")
	if got := block(t.Context(), l, MaxBlock, a, b); got != (answer{key: b, member: "first", score: -2, ok: true}) {
		t.Errorf("of two: %+v", got)
	}
	if got := block(t.Context(), l, MaxBlock, a, b); got != (answer{key: b, member: "now", score: 1.5, ok: true}) {
		t.Errorf("of one: %+v", got)
	}
	s.Must("SET", a, "x")
	if got := block(t.Context(), l, MaxBlock, a, b); !errors.Is(got.err, duly.ErrCorrupt) {
		t.Errorf("of a key of another kind: %+v", got)
	}
}

func TestBlockWakes(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t)
	l := open(t, s.URL())
	for i := range 3 {
		done := blockBeside(t.Context(), l, "a", "b")
		awaitBlocked(t, s, 1)
		s.Must("ZADD", "b", i, "now")
		if got := <-done; got != (answer{key: "b", member: "now", score: float64(i), ok: true}) {
			t.Errorf("a member came: %+v", got)
		}
	}
	// Main and blocking client have one connection each, and the call has one.
	if n := len(l.dialer.open()); n != 3 {
		t.Errorf("%d connections", n)
	}
}

func TestUnblock(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t)
	l := open(t, s.URL())
	l.Unblock("")
	l.Unblock("none")
	for range 20 {
		began := time.Now()
		done := blockBeside(t.Context(), l, "a")
		redistest.Await(t, "the call has begun", func() bool { return l.blockers.current("") != nil })
		l.Unblock("") // before the call has reached the server, or after
		if got := <-done; got != (answer{}) || time.Since(began) >= MaxBlock {
			t.Fatalf("unblocked after %v: %+v", time.Since(began), got)
		}
	}
	awaitBlocked(t, s, 0)
}

// blocked is a server on which a blocking call ends with an answer when it was
// asked for the third time to unblock it: before, the call has not reached it.
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
	done := blockBeside(t.Context(), l, "a")
	redistest.Await(t, "the call has come", func() bool { return s.Count("BZPOPMIN") == 1 })
	l.Unblock("")
	if got := <-done; got != (answer{}) {
		t.Errorf("unblocked: %+v", got)
	}
}

// A server whose writes are paused, as for CLUSTER FAILOVER or SHUTDOWN, holds
// the blocking call back, and many releases end with a panic when such a call is
// to be unblocked. It is asked only when the pause is over.
func TestUnblockWaitsForTheEndOfAPause(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t)
	l := open(t, s.URL())
	s.Must("CLIENT", "PAUSE", time.Minute.Milliseconds(), "WRITE")
	done := make(chan answer)
	go func() { done <- block(t.Context(), l, MaxBlock, "a") }()
	awaitBlocked(t, s, 1)
	l.Unblock(l.Group("a"))
	awaitBlocked(t, s, 2) // the write ahead of the question
	s.Must("CLIENT", "UNPAUSE")
	if got := <-done; got != (answer{}) {
		t.Errorf("ended by hand: %+v", got)
	}
	s.Must("PING")
}

func TestBlockHandsOverWhatItTookWhileLeaving(t *testing.T) {
	t.Parallel()
	s := blocked(t, []any{"a", "now", 1.5})
	l := open(t, s.URL())
	ctx, cancel := context.WithCancel(t.Context())
	done := blockBeside(ctx, l, "a")
	redistest.Await(t, "the call has come", func() bool { return s.Count("BZPOPMIN") == 1 })
	cancel()
	if got := <-done; got != (answer{key: "a", member: "now", score: 1.5, ok: true}) {
		t.Errorf("one that leaves: %+v", got)
	}
}

// What was taken is handed to the caller, though it has left.
func TestBlockKeepsWhatItTook(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t)
	l := open(t, s.URL())
	ctx, cancel := context.WithCancel(t.Context())
	done := blockBeside(ctx, l, "a")
	awaitBlocked(t, s, 1)
	cancel()
	if got := <-done; !errors.Is(got.err, context.Canceled) || got.ok {
		t.Errorf("one that leaves: %+v", got)
	}
	ctx, cancel = context.WithCancel(t.Context())
	done = blockBeside(ctx, l, "a")
	awaitBlocked(t, s, 1)
	conn, err := s.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	s.Pause() // so that the member comes while the caller leaves
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
		t.Errorf("the caller has %+v, the server %v", got, left)
	}
}

// The connection is lost in a blocking call, and between two.
func TestBlockAfterALoss(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t)
	l := open(t, s.URL())
	done := blockBeside(t.Context(), l, "a")
	awaitBlocked(t, s, 1)
	s.Restart()
	if got := <-done; !errors.Is(got.err, duly.ErrUnavailable) {
		t.Errorf("in a call: %+v", got)
	}
	if got := block(t.Context(), l, time.Millisecond, "a"); got != (answer{}) {
		t.Errorf("after it: %+v", got)
	}
	s.Restart()
	if got := block(t.Context(), l, time.Second, "a"); got != (answer{}) {
		t.Errorf("between two calls: %+v", got)
	}
	s.Kill()
	if got := block(t.Context(), l, 20*time.Millisecond, "a"); !errors.Is(got.err, duly.ErrUnavailable) {
		t.Errorf("nobody there: %+v", got)
	}
}

// A blocking call may be ended while nobody answers.
func TestBlockOnASilentServer(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t)
	l := open(t, s.URL())
	done := blockBeside(t.Context(), l, "a")
	awaitBlocked(t, s, 1)
	s.Pause()
	defer s.Continue()
	ctx, cancel := context.WithCancel(t.Context())
	second := blockBeside(ctx, l, "a")
	cancel()
	if got := <-second; !errors.Is(got.err, context.Canceled) {
		t.Errorf("one that waits for its turn: %+v", got)
	}
	l.Close()
	if got := <-done; !errors.Is(got.err, duly.ErrClosed) {
		t.Errorf("after Close: %+v", got)
	}
}

// The connection that blocks is closed when it was not used for a while.
func TestIdleLaneIsClosed(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t)
	l := open(t, s.URL())
	block(t.Context(), l, time.Millisecond, "a")
	if n := len(l.dialer.open()); n != 3 {
		t.Errorf("%d connections", n)
	}
	l.blockers.blocker(l.core, "").retire()
	redistest.Await(t, "the connection is closed", func() bool { return len(l.dialer.open()) == 2 })
	if got := block(t.Context(), l, time.Millisecond, "a"); got != (answer{}) {
		t.Errorf("after it: %+v", got)
	}
}

// Every group may have a call on its way, also where one node has them all.
func TestManyGroupsBlock(t *testing.T) {
	t.Parallel()
	c, p := redistest.SharedCluster(t)
	l := open(t, c.URL())
	const groups = 80
	first := c.Shard(0)
	keys := map[string]string{} // by group
	var calls []<-chan answer
	for i := 0; len(keys) < groups; i++ {
		key := fmt.Sprintf("%s:{%d}", p, i)
		if hashslot.Of(key) > hashslot.Slots/redistest.Shards-1 || keys[l.Group(key)] != "" {
			continue
		}
		keys[l.Group(key)] = key
		calls = append(calls, blockBeside(t.Context(), l, key))
	}
	awaitBlocked(t, first, groups)
	for group := range keys {
		l.Unblock(group)
	}
	for _, done := range calls {
		if got := <-done; got != (answer{}) {
			t.Errorf("unblocked: %+v", got)
		}
	}
}

func TestBlockOnACluster(t *testing.T) {
	t.Parallel()
	c := redistest.NewCluster(t, 0)
	l := open(t, c.URL())
	const key = "{moving}:wake"
	from := c.For(key)
	to := c.Nodes()[0]
	if to.Addr() == from.Addr() {
		to = c.Nodes()[1]
	}
	done := blockBeside(t.Context(), l, key)
	awaitBlocked(t, from, 1)
	from.Must("ZADD", key, 1, "now")
	if got := <-done; !got.ok || got.key != key {
		t.Errorf("a member came: %+v", got)
	}
	done = blockBeside(t.Context(), l, key)
	awaitBlocked(t, from, 1)
	l.Unblock(l.Group(key))
	if got := <-done; got != (answer{}) {
		t.Errorf("unblocked: %+v", got)
	}
	done = blockBeside(t.Context(), l, key)
	awaitBlocked(t, from, 1)
	c.MoveSlot(c.Slot(key), from, to, nil)
	awaitBlocked(t, to, 1) // it has followed the slot
	to.Must("ZADD", key, 2, "now")
	if got := <-done; !got.ok || got.score != 2 {
		t.Errorf("after the move: %+v", got)
	}
	done = blockBeside(t.Context(), l, key)
	awaitBlocked(t, to, 1)
	l.Unblock(l.Group(key))
	if got := <-done; got != (answer{}) {
		t.Errorf("unblocked after the move: %+v", got)
	}
}

// However often a blocking call is to end, the server is asked by one.
func TestUnblockAsksOnce(t *testing.T) {
	t.Parallel()
	s := redistest.NewStub(t, redis70, func(args []string) any {
		switch {
		case args[0] == "BZPOPMIN", args[0] == "CLIENT" && args[1] == "UNBLOCK":
			return redistest.Silence{} // it stands still
		case strings.HasPrefix(args[0], "EVAL"):
			return []any{}
		}
		return redistest.Usual{}
	})
	l := open(t, s.URL())
	done := blockBeside(t.Context(), l, "a")
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
		t.Errorf("it was asked %d times", n)
	}
}

// While a slot moves, its blocking call is refused again and again; the
// connection is kept.
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
			t.Errorf("while the slot moves: %+v", got)
		}
		if l.blockers.blocker(l.core, l.Group(key)).conn != lane {
			t.Error("another connection was made")
		}
	})
	redistest.Await(t, "a blocking call stands on the new node", func() bool { return block(t.Context(), l, time.Millisecond, key) == answer{} })
}

// Who waits calls again and again: what the server refuses stands in the log
// once, and again when it comes back.
func TestARefusalOfWakeUpsIsLoggedOnce(t *testing.T) {
	t.Parallel()
	s, p := redistest.Shared(t)
	log, written := newLog()
	l := openWith(t, s.URL(), log)
	refuse := func() {
		s.Must("SET", p, "no sorted set")
		for range 3 {
			if got := block(t.Context(), l, time.Millisecond, p); !errors.Is(got.err, duly.ErrCorrupt) {
				t.Errorf("a call on a text is answered %+v", got)
			}
		}
	}
	refuse()
	if n := written.Count("wake-ups"); n != 1 {
		t.Errorf("three refusals are logged %d times: %s", n, written)
	}
	s.Must("DEL", p)
	block(t.Context(), l, time.Millisecond, p)
	refuse()
	if n := written.Count("wake-ups"); n != 2 {
		t.Errorf("a refusal that has come back is logged %d times: %s", n, written)
	}
}
