package link

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/redistest"
)

// hear calls Hear in a goroutine, and returns when messages arrive.
func hear(t *testing.T, l *Link, channel string) (hearing chan struct{}, messages chan string, done chan error) {
	t.Helper()
	hearing, messages, done = make(chan struct{}, 1000), make(chan string, 1000), make(chan error, 1)
	go func() {
		done <- l.Hear(t.Context(), channel, func() { hearing <- struct{}{} }, func(m string) { messages <- m })
	}()
	receive(t, "the subscription", hearing)
	return hearing, messages, done
}

func receive[T any](t *testing.T, what string, from <-chan T) (got T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), hearWithin)
	defer cancel()
	select {
	case got = <-from:
	case <-ctx.Done():
		t.Fatalf("timed out waiting for %s", what)
	}
	return got
}

func spublish(t *testing.T, l *Link, channel, message string) {
	t.Helper()
	if _, err := l.Do(within(t, 30*time.Second), l.B().Spublish().Channel(channel).Message(message).Build()); err != nil {
		t.Fatal(err)
	}
}

// TestHearFollowsItsSlot checks that a subscription follows its slot to another node: it reports
// the gap, and receives messages from the new owner.
func TestHearFollowsItsSlot(t *testing.T) {
	t.Parallel()
	c := redistest.NewCluster(t, 0)
	l := open(t, c.URL())
	const channel = "{moving}:c"
	hearing, messages, done := hear(t, l, channel)
	spublish(t, l, channel, "before")
	if m := receive(t, "a message", messages); m != "before" {
		t.Errorf("received %q", m)
	}

	from := c.For(channel)
	to := c.Nodes()[0]
	if to.Addr() == from.Addr() {
		to = c.Nodes()[1]
	}
	c.MoveSlot(c.Slot(channel), from, to, func(redistest.MoveStage) {})
	receive(t, "the end of the gap", hearing)
	redistest.Await(t, "a message at the new owner", func() bool {
		spublish(t, l, channel, "after")
		return len(messages) > 0
	})

	l.Close()
	if err := receive(t, "the end", done); !errors.Is(err, duly.ErrClosed) {
		t.Errorf("the subscription ended with %v", err)
	}
}
