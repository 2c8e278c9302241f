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

// announce publishes a message as Subscribe expects it.
var announce = NewScript("announce", `#!lua
redis.call('PUBLISH', KEYS[1], ARGV[1])
redis.call('SET', KEYS[1], ARGV[1])
return 1`, false)

// hearWithin is the limit for a report: ten times the promised second.
const hearWithin = 10 * time.Second

// listener is a call to Subscribe, and its reports.
type listener struct {
	t       *testing.T
	reports chan bool
	falls   atomic.Int32 // number of calls to fell
	cancel  context.CancelFunc
	done    chan error
}

func listen(t *testing.T, l *Link, channel string) *listener {
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	h := &listener{t: t, reports: make(chan bool, 10_000), cancel: cancel, done: make(chan error, 1)}
	go func() {
		h.done <- l.Subscribe(ctx, channel, func(hearing bool) { h.reports <- hearing }, func() { h.falls.Add(1) })
	}()
	return h
}

// is waits for a report with this value.
func (h *listener) is(hearing bool, why string) {
	h.t.Helper()
	timeout := time.NewTimer(hearWithin)
	defer timeout.Stop()
	for {
		select {
		case report := <-h.reports:
			if report == hearing {
				return
			}
		case err := <-h.done:
			h.t.Fatalf("%s: Subscribe has ended: %v", why, err)
		case <-timeout.C:
			h.t.Fatalf("%s: no report within %v: hearing = %v", why, hearWithin, hearing)
		}
	}
}

// forget drops all reports so far.
func (h *listener) forget() {
	for len(h.reports) > 0 {
		<-h.reports
	}
}

// ended waits until Subscribe returns.
func (h *listener) ended() error {
	h.t.Helper()
	select {
	case err := <-h.done:
		return err
	case <-time.After(hearWithin):
		h.t.Fatal("Subscribe has not returned")
	}
	return nil
}

func publish(t *testing.T, l *Link, channel string, n int) {
	t.Helper()
	if _, err := l.Run(within(t, 30*time.Second), Call{Script: announce, Keys: []string{channel},
		Args: []string{fmt.Sprint(n)}}); err != nil {
		t.Fatal(err)
	}
}

// TestSubscribeReportsMessages checks that every subscriber of a channel gets a report, whichever
// process publishes, and that it gets no reports for other channels.
func TestSubscribeReportsMessages(t *testing.T) {
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
		t.Errorf("the subscription ended with %v", err)
	}
	b.forget()
	publish(t, l, p+"c", 100)
	b.is(true, "published after the other has left")
	other.Close()
	if err := b.ended(); !errors.Is(err, duly.ErrClosed) {
		t.Errorf("the subscription ended with %v", err)
	}
	if err := other.Subscribe(t.Context(), p+"c", nil, nil); !errors.Is(err, duly.ErrClosed) {
		t.Errorf("Subscribe on a closed link returned %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Subscribe(ctx, p+"c", nil, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("Subscribe with an ended context returned %v", err)
	}
}

// TestSubscribeReportsALostConnection cuts the connection, and kills and restarts the server.
func TestSubscribeReportsALostConnection(t *testing.T) {
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

// TestSubscribeReportsALowerNumber checks that a lower number is reported as lost writes.
func TestSubscribeReportsALowerNumber(t *testing.T) {
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
		t.Errorf("fell was called %d times without a lower number", n)
	}
	s.Must("FLUSHALL")
	h.is(true, "the number is gone")
	if n := h.falls.Load(); n != 1 {
		t.Errorf("fell was called %d times for the lower number", n)
	}
	publish(t, l, "c", 1)
	h.is(true, "published")
	if n := h.falls.Load(); n != 1 {
		t.Errorf("fell was called %d times for one lower number", n)
	}
}

// TestSubscribeDetectsAHungServer checks that a missing answer reveals a hung server, and that
// its connection is kept.
func TestSubscribeDetectsAHungServer(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t)
	l := open(t, s.URL())
	h := listen(t, l, "c")
	h.is(true, "at first")
	before := s.Must("CLIENT", "LIST", "TYPE", "pubsub")
	s.Pause()
	h.is(false, "the server hangs")
	s.Continue()
	h.is(true, "Subscribe has not returned")
	id := func(list any) string { id, _, _ := strings.Cut(fmt.Sprint(list), " "); return id }
	if after := s.Must("CLIENT", "LIST", "TYPE", "pubsub"); id(before) != id(after) {
		t.Errorf("the connections changed to %v from %v", after, before)
	}
}

// TestSubscribeMissesNothing checks that the key reveals a lost message, and a server that has
// lost all data.
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

// TestSubscribeWaitsForTheServer checks that Subscribe waits for a server that is not running yet.
func TestSubscribeWaitsForTheServer(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t)
	l := open(t, s.URL())
	s.Kill()
	h := listen(t, l, "c")
	redistest.Await(t, "the connections have ended", func() bool { return len(l.dialer.open()) == 0 })
	if len(h.reports) > 0 {
		t.Error("got a report without a server")
	}
	s.Restart()
	h.is(true, "it is there")
}

// TestSubscribeNeedsTheRight checks that a missing right is logged once, and that messages arrive
// as soon as it is granted.
func TestSubscribeNeedsTheRight(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t, redistest.User("duly", "s3cret", "~*", "resetchannels", "+@all"))
	log, text := newLog()
	l := openWith(t, s.UserURL("duly"), log)
	h := listen(t, l, "c")
	redistest.Await(t, "the missing right is logged", func() bool {
		return strings.Contains(text.String(),
			"access to a channel")
	})
	s.Must("ACL", "SETUSER", "duly", "&c")
	h.is(true, "granted")
	if n := strings.Count(text.String(), "access to a channel"); n != 1 || strings.Contains(text.String(), "s3cret") {
		t.Errorf("the missing right was logged %d times:\n%s", n, text)
	}
}

// TestSubscribeFollowsItsSlot checks that the subscription follows the slot of its key to another
// node, and misses no message.
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
	redistest.Await(t, "the subscription has followed", func() bool {
		return contains(to.Must("CLIENT", "LIST", "TYPE",
			"pubsub"), "sub=1")
	})
	h.forget()
	publish(t, l, channel, n+1)
	h.is(true, "published at the new owner")
}

// TestSubscribeOutlivesItsNode kills the node that owns the key. Its replica takes over.
func TestSubscribeOutlivesItsNode(t *testing.T) {
	t.Parallel()
	c := redistest.NewCluster(t, 1)
	l := open(t, c.URL())
	const channel = "{failing}:c"
	h := listen(t, l, channel)
	h.is(true, "at first")
	c.For(channel).Kill()
	h.is(false, "its node is gone")
	// The connection may break under the first call, which the caller must repeat.
	redistest.Await(t, "the message is published", func() bool {
		_, err := l.Run(within(t, 30*time.Second), Call{Script: announce, Keys: []string{channel}, Args: []string{"1"}})
		return err == nil
	})
	h.is(true, "the replica has taken over")
}

// TestSubscribeFollowsThePrimary checks that messages from a new primary arrive.
func TestSubscribeFollowsThePrimary(t *testing.T) {
	t.Parallel()
	s := redistest.NewSentinel(t)
	l := open(t, s.URL())
	h := listen(t, l, "c")
	h.is(true, "at first")
	s.Demote()
	redistest.Await(t, "the subscription has followed", func() bool {
		return contains(s.Primary().Must("CLIENT", "LIST", "TYPE", "pubsub"), "sub=1")
	})
	h.is(true, "at the new primary")
	h.forget()
	publish(t, l, "c", 1)
	h.is(true, "published")
}
