package link

import (
	"context"
	"log/slog"
	"time"

	"github.com/redis/rueidis"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
)

// Hear passes on what is published on a shard channel (SPUBLISH), until ctx ends
// or the link is closed; then it returns the context's error or [duly.ErrClosed].
// It calls hearing when messages begin to arrive, and again after each gap: a
// connection that ended, a slot that moved, another primary. Messages of a gap are
// lost.
//
// It has a connection of its own, to the node that owns the channel's slot, and
// sends nothing over it after SSUBSCRIBE. Where the user lacks the right, that is
// logged once, and Hear tries again every 30 s.
func (l *pubsub) Hear(ctx context.Context, channel string, hearing func(), message func(string)) error {
	if err := l.enter(ctx); err != nil {
		return err
	}
	defer l.calls.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.life, cancel)()

	h := &hearer{subscriber: subscriber{link: l.core, channel: channel, refusedPause: refusedPause}, hearing: hearing, message: message}
	h.run(ctx, h.listen, h.ended)

	if l.closed.Load() {
		return duly.ErrClosed
	}
	return ctx.Err()
}

// hearer is one call of Hear.
type hearer struct {
	subscriber
	hearing func()
	message func(string)
	heard   bool // the last connection was subscribed
}

// ended reports whether the connection that has ended was subscribed.
func (h *hearer) ended() (heard bool) {
	heard, h.heard = h.heard, false
	return heard
}

// listen makes a connection and passes on what arrives over it, until it ends,
// the slot moves, or the server is not the primary any more.
func (h *hearer) listen(ctx context.Context) error {
	l := h.link
	client, err := l.waiting.connect(l)
	if err != nil {
		return err
	}
	place := l.primary(client)
	conn, _ := client.Dedicate()
	defer conn.Close()

	moved := make(chan struct{}, 1)
	lost := conn.SetPubSubHooks(rueidis.PubSubHooks{
		OnMessage: func(m rueidis.PubSubMessage) { h.message(m.Message) },
		OnSubscription: func(s rueidis.PubSubSubscription) {
			if s.Kind == "sunsubscribe" {
				moved <- struct{}{} // it has room: the connection has one subscription
			}
		},
	})
	if err := conn.Do(ctx, conn.B().Ssubscribe().Channel(h.channel).Build()).Error(); err != nil {
		return err
	}
	h.heard, h.said = true, ""
	h.hearing()

	// Sentinels report another primary to the client, which asks nobody for it here.
	look := l.clock.NewTimer(refreshEvery)
	defer look.Stop()
	for l.primary(client) == place {
		select {
		case <-look.C:
			look.Reset(refreshEvery)
		case <-moved:
			return nil
		case err := <-lost:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// subscriber keeps a connection up over which messages arrive.
type subscriber struct {
	link    *core
	channel string
	said    string // the last error that was logged
	// refusedPause is the pause after the server has refused the user; 0: as after
	// other failures.
	refusedPause time.Duration
}

// refusedPause is Hear's. A right is seldom granted while a program runs.
const refusedPause = 30 * time.Second

// run calls listen again and again. Pauses grow until a connection was of use,
// which ended reports.
func (s *subscriber) run(ctx context.Context, listen func(context.Context) error, ended func() (heard bool)) {
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		err := listen(ctx)
		if ended() {
			pause = firstPause
		}
		if ctx.Err() != nil {
			return
		}
		if err != nil && s.explain(err) && s.refusedPause > 0 {
			pause = s.refusedPause
		}
		if clock.Sleep(ctx, s.link.clock, pause) != nil {
			return
		}
	}
}

// explain logs what the server refuses, once, and finds out whether another one
// is the primary.
func (s *subscriber) explain(err error) (refusal bool) {
	l, v := s.link, verdictOf(err)
	if v.refresh {
		l.refresh()
	}
	if v.class != refused || s.said == err.Error() {
		return v.class == refused
	}
	s.said = err.Error()
	l.log.Warn("redis: what is published can't be heard", slog.String("channel", s.channel), slog.String("error", l.fault("subscribe", v, err).Error()))
	return true
}
