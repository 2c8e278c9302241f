package link

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/redistest"
)

// announce publishes as Subscribe wants it.
var announce = NewScript("announce", `#!lua
redis.call('PUBLISH', KEYS[1], ARGV[1])
redis.call('SET', KEYS[1], ARGV[1])
return 1`, false)

// hearWithin is ten times what is promised.
const hearWithin = 10 * time.Second

// listener is a call of Subscribe, and what it was told.
type listener struct {
	t      *testing.T
	told   chan bool
	falls  atomic.Int32 // how often it was told that the number has fallen
	cancel context.CancelFunc
	done   chan error
}

func listen(t *testing.T, l *Link, channel string) *listener {
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	h := &listener{t: t, told: make(chan bool, 10_000), cancel: cancel, done: make(chan error, 1)}
	go func() {
		h.done <- l.Subscribe(ctx, channel, func(hearing bool) { h.told <- hearing }, func() { h.falls.Add(1) })
	}()
	return h
}

// is waits until it is told so.
func (h *listener) is(hearing bool, why string) {
	h.t.Helper()
	timeout := time.NewTimer(hearWithin)
	defer timeout.Stop()
	for {
		select {
		case told := <-h.told:
			if told == hearing {
				return
			}
		case err := <-h.done:
			h.t.Fatalf("%s: it has ended: %v", why, err)
		case <-timeout.C:
			h.t.Fatalf("%s: not told in %v: hearing = %v", why, hearWithin, hearing)
		}
	}
}

// forget drops what was told so far.
func (h *listener) forget() {
	for len(h.told) > 0 {
		<-h.told
	}
}

// ended waits for the call to return.
func (h *listener) ended() error {
	h.t.Helper()
	select {
	case err := <-h.done:
		return err
	case <-time.After(hearWithin):
		h.t.Fatal("it goes on")
	}
	return nil
}

func publish(t *testing.T, l *Link, channel string, n int) {
	t.Helper()
	if _, err := l.Run(within(t, 30*time.Second), Call{Script: announce, Keys: []string{channel}, Args: []string{fmt.Sprint(n)}}); err != nil {
		t.Fatal(err)
	}
}

// Everybody who listens is told, whoever publishes; and nobody of what is said
// elsewhere.
func TestSubscribeTellsWhatIsPublished(t *testing.T) {
	t.Parallel()
	s, p := redistest.Shared(t)
	l, other := open(t, s.URL()), open(t, s.URL())
	a, b := listen(t, l, p+"c"), listen(t, other, p+"c")
	a.is(true, "at first")
	b.is(true, "at first")
	for i := range 10 {
		a.forget()
		b.forget()
		publish(t, other, p+"c", i+1)
		a.is(true, "published")
		b.is(true, "published")
	}
	a.cancel()
	if err := a.ended(); !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
	b.forget()
	publish(t, l, p+"c", 100)
	b.is(true, "published after the other has left")
	other.Close()
	if err := b.ended(); !errors.Is(err, duly.ErrClosed) {
		t.Errorf("ended with %v", err)
	}
	if err := other.Subscribe(t.Context(), p+"c", nil, nil); !errors.Is(err, duly.ErrClosed) {
		t.Errorf("a closed link answers %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Subscribe(ctx, p+"c", nil, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller who has gone is answered %v", err)
	}
}

// A connection that is cut, a server that is killed and comes back.
func TestSubscribeTellsWhenItCannotHear(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t)
	l := open(t, s.URL())
	h := listen(t, l, "c")
	h.is(true, "at first")
	for range 3 {
		s.Must("CLIENT", "KILL", "TYPE", "pubsub")
		h.is(false, "the connection is cut")
		h.is(true, "there is another one")
	}
	s.Kill()
	h.is(false, "the server is gone")
	s.Restart()
	h.is(true, "it is back")
	h.forget()
	publish(t, l, "c", 1)
	h.is(true, "published")
}

// A number that is lower than it was says that what was written there is lost.
func TestSubscribeTellsOfALowerNumber(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t)
	l := open(t, s.URL())
	publish(t, l, "c", 1)
	h := listen(t, l, "c")
	h.is(true, "at first")
	publish(t, l, "c", 1)
	h.is(true, "published")
	s.Must("CLIENT", "KILL", "TYPE", "pubsub")
	h.is(false, "the connection is cut")
	h.is(true, "there is another one")
	if n := h.falls.Load(); n != 0 {
		t.Errorf("told %d times of a fall, and there was none", n)
	}
	s.Must("FLUSHALL")
	h.is(true, "the number is gone")
	if n := h.falls.Load(); n != 1 {
		t.Errorf("told %d times of the fall", n)
	}
	publish(t, l, "c", 1)
	h.is(true, "published")
	if n := h.falls.Load(); n != 1 {
		t.Errorf("told %d times of one fall", n)
	}
}

// A server that stands still is found out by its silence, and keeps its
// connection.
func TestSubscribeFindsSilenceOut(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t)
	l := open(t, s.URL())
	h := listen(t, l, "c")
	h.is(true, "at first")
	before := s.Must("CLIENT", "LIST", "TYPE", "pubsub")
	s.Pause()
	h.is(false, "the server stands still")
	s.Continue()
	h.is(true, "it goes on")
	id := func(list any) string { id, _, _ := strings.Cut(fmt.Sprint(list), " "); return id }
	if after := s.Must("CLIENT", "LIST", "TYPE", "pubsub"); id(before) != id(after) {
		t.Errorf("another connection: %v, before %v", after, before)
	}
}

// A message that is lost, and a server that has lost everything, are found out
// by the key.
func TestSubscribeMissesNothing(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t)
	h := listen(t, open(t, s.URL()), "c")
	h.is(true, "at first")
	h.forget()
	s.Must("SET", "c", "1")
	h.is(true, "a message is lost")
	h.forget()
	s.Must("FLUSHALL")
	h.is(true, "everything is lost")
}

// A server that is not there yet is waited for.
func TestSubscribeWaitsForTheServer(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t)
	l := open(t, s.URL())
	s.Kill()
	h := listen(t, l, "c")
	redistest.Await(t, "the connections have ended", func() bool { return len(l.dialer.open()) == 0 })
	if len(h.told) > 0 {
		t.Error("told without a server")
	}
	s.Restart()
	h.is(true, "it is there")
}

// A user who lacks the right is told so once, in the log, and heard as soon as
// it is granted.
func TestSubscribeNeedsTheRight(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t, redistest.User("duly", "s3cret", "~*", "resetchannels", "+@all"))
	log, text := newLog()
	l := openWith(t, s.UserURL("duly"), log)
	h := listen(t, l, "c")
	redistest.Await(t, "it is logged", func() bool { return strings.Contains(text.String(), "access to a channel") })
	s.Must("ACL", "SETUSER", "duly", "&c")
	h.is(true, "granted")
	if n := strings.Count(text.String(), "access to a channel"); n != 1 || strings.Contains(text.String(), "s3cret") {
		t.Errorf("logged %d times:\n%s", n, text)
	}
}

// The key's slot moves: the subscription follows it, and misses nothing.
func TestSubscribeFollowsItsSlot(t *testing.T) {
	t.Parallel()
	c := redistest.NewCluster(t, 0)
	l := open(t, c.URL())
	const channel = "{moving}:c"
	h := listen(t, l, channel)
	h.is(true, "at first")
	publish(t, l, channel, 1)
	h.is(true, "published")
	from := c.For(channel)
	to := c.Nodes()[0]
	if to.Addr() == from.Addr() {
		to = c.Nodes()[1]
	}
	n := 1
	c.MoveSlot(c.Slot(channel), from, to, func(redistest.MoveStage) {
		n++
		h.forget()
		publish(t, l, channel, n)
		h.is(true, "published while the slot moves")
	})
	redistest.Await(t, "it has followed", func() bool { return contains(to.Must("CLIENT", "LIST", "TYPE", "pubsub"), "sub=1") })
	h.forget()
	publish(t, l, channel, n+1)
	h.is(true, "published at the new owner")
}

// The node that owns the key is killed, and its replica takes over.
func TestSubscribeOutlivesItsNode(t *testing.T) {
	t.Parallel()
	c := redistest.NewCluster(t, 1)
	l := open(t, c.URL())
	const channel = "{failing}:c"
	h := listen(t, l, channel)
	h.is(true, "at first")
	c.For(channel).Kill()
	h.is(false, "its node is gone")
	// The connection may break under the first call: that one is the caller's to repeat.
	redistest.Await(t, "it is published", func() bool {
		_, err := l.Run(within(t, 30*time.Second), Call{Script: announce, Keys: []string{channel}, Args: []string{"1"}})
		return err == nil
	})
	h.is(true, "the replica has taken over")
}

// Another server becomes the primary: what is published there is heard.
func TestSubscribeFollowsThePrimary(t *testing.T) {
	t.Parallel()
	s := redistest.NewSentinel(t)
	l := open(t, s.URL())
	h := listen(t, l, "c")
	h.is(true, "at first")
	old := s.Primary()
	redistest.Await(t, "the sentinels take the order", func() bool {
		_, err := s.Sentinels()[0].Do(t.Context(), "SENTINEL", "FAILOVER", redistest.PrimaryName)
		return err == nil
	})
	redistest.Await(t, "another primary", func() bool { return s.Primary().Addr() != old.Addr() })
	redistest.Await(t, "it has followed", func() bool {
		return contains(s.Primary().Must("CLIENT", "LIST", "TYPE", "pubsub"), "sub=1")
	})
	h.is(true, "at the new primary")
	h.forget()
	publish(t, l, "c", 1)
	h.is(true, "published")
}
