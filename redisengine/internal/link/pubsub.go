package link

import (
	"context"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
)

// pubsub makes subscriptions.
type pubsub struct{ *core }

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

	h := &shardSubscription{subscriber: subscriber{link: l.core, channel: channel, refusedPause: refusedPause}, hearing: hearing, message: message}
	h.run(ctx, h.listen, h.ended)

	if l.closed.Load() {
		return duly.ErrClosed
	}
	return ctx.Err()
}

// shardSubscription is one call of Hear.
type shardSubscription struct {
	subscriber
	hearing    func()
	message    func(string)
	subscribed bool // the last connection was subscribed
}

// ended reports whether the connection that has ended was subscribed.
func (h *shardSubscription) ended() (heard bool) {
	heard, h.subscribed = h.subscribed, false
	return heard
}

// listen makes a connection and passes on what arrives over it, until it ends,
// the slot moves, or the server is not the primary any more.
func (h *shardSubscription) listen(ctx context.Context) error {
	l := h.link
	client, err := l.waitClient()
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
	h.subscribed, h.logged = true, ""
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
	logged  string // the last error that was logged
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
	if v.class != refused || s.logged == err.Error() {
		return v.class == refused
	}
	s.logged = err.Error()
	l.log.Warn("redis: the server refuses a subscription, so changes are noticed later; grant it: ACL SETUSER USER +subscribe +ssubscribe &"+l.o.Prefix+":*",
		slog.String("setting", "acl"), slog.String("server", l.where()), slog.String("channel", s.channel),
		slog.String("error", l.fault("subscribe", v, err).Error()))
	return true
}

// A subscription asks over its connection every beatEvery whether the server is
// there, and counts an answer that is beatWait late as none. So it knows within a
// second that it receives nothing.
const (
	beatEvery = 300 * time.Millisecond
	beatWait  = 400 * time.Millisecond
)

// Subscribe calls tell(true) once it hears what is published on a channel, and
// again whenever something was; several messages may be told by one call, and
// a call may tell of none. When it can't hear it calls tell(false), within a
// second; until the next tell(true), which stands for all that was missed
// meanwhile, nothing is known. Calls come one after the other. It returns when
// ctx ends or the link is closed, with the context's error or [duly.ErrClosed];
// whatever else goes wrong is tried again. It calls fell, in between, when the
// number in the key is lower than one before: what was written there is lost.
//
// # How
//
// A publisher also writes what it publishes, a number that rises, into
// the key of the channel's name, in the same script. The subscription has a
// connection of its own, in a cluster to the node that owns that key, and reads
// the key over it again and again. An answer says that the connection has
// brought every message before it. One that does not come says that the server
// can't be heard, and one with a number that was not heard of that a message is
// lost: with a failover, a FLUSHALL, or between the nodes of a cluster.
func (l *pubsub) Subscribe(ctx context.Context, channel string, tell func(hearing bool), fell func()) error {
	if err := l.enter(ctx); err != nil {
		return err
	}

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.life, cancel)()
	s := &subscription{subscriber: subscriber{link: l.core, channel: channel}, changed: make(chan struct{}, 1)}
	go func() {
		defer l.calls.Done()
		s.run(ctx, s.listen, s.disconnected)
	}()

	for {
		select {
		case <-s.changed:
			if s.takeFallen() {
				fell()
			}
			tell(s.isHearing())
		case <-ctx.Done():
			if l.closed.Load() {
				return duly.ErrClosed
			}
			return ctx.Err()
		}
	}
}

// subscription is one call of Subscribe.
type subscription struct {
	subscriber
	changed chan struct{} // holds one ring: there is something to tell

	mu      sync.Mutex
	hearing bool
	last    string // what was published last, as far as it is known
	beats   uint64 // questions so far
	fallen  bool   // the number is lower than it was, which is not told yet
}

func (s *subscription) takeFallen() (fallen bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fallen, s.fallen = s.fallen, false
	return fallen
}

func (s *subscription) isHearing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hearing
}

// listen makes a connection and hears what comes over it, until it is lost or
// leads to a server that is the primary no more.
func (s *subscription) listen(ctx context.Context) error {
	l := s.link
	client, err := l.waitClient()
	if err != nil {
		return err
	}

	place := l.primary(client)
	conn, _ := client.Dedicate()
	defer conn.Close()
	lost := conn.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(m rueidis.PubSubMessage) { s.message(m.Message) }})
	if err := conn.Do(ctx, conn.B().Subscribe().Channel(s.channel).Build().SetSlot(s.channel)).Error(); err != nil {
		return err
	}

	for l.primary(client) == place {
		if err := s.ask(ctx, conn); err != nil {
			return err
		}
		rest := l.clock.NewTimer(beatEvery)
		select {
		case <-rest.C:
		case err = <-lost:
		case <-ctx.Done():
			err = ctx.Err()
		}
		rest.Stop()
		if err != nil {
			return err
		}
	}

	return nil
}

// ask reads the key. While the server moves the key to another node it may be
// here no more: that is an answer as well.
func (s *subscription) ask(ctx context.Context, conn rueidis.DedicatedClient) error {
	beat := s.asking()
	late := s.link.clock.AfterFunc(beatWait, func() { s.late(beat) })
	value, err := conn.Do(ctx, conn.B().Get().Key(s.channel).Build()).ToString()
	late.Stop()
	if e, ok := rueidis.IsRedisErr(err); ok {
		if _, moving := e.IsAsk(); !moving {
			return err
		}
		value = s.known()
	} else if err != nil && !rueidis.IsRedisNil(err) {
		return err
	}
	s.answered(value)
	return nil
}

func (s *subscription) asking() (beat uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.beats++
	return s.beats
}

func (s *subscription) known() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// message takes what came over the channel. A connection that has not answered yet
// reports it when it does.
func (s *subscription) message(value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = value
	if s.hearing {
		s.ring()
	}
}

func (s *subscription) answered(value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.beats++ // it is late no more
	if value != s.last || !s.hearing {
		s.fallen = s.fallen || publishedNumber(value) < publishedNumber(s.last)
		s.last, s.hearing = value, true
		s.ring()
	}
}

// publishedNumber returns the number in the key, 0 for none.
func publishedNumber(value string) int64 {
	n, _ := strconv.ParseInt(value, 10, 64)
	return n
}

// late notes that an answer is overdue. The connection is kept, because a server
// that hangs may go on.
func (s *subscription) late(beat uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.beats == beat && s.hearing {
		s.hearing = false
		s.ring()
	}
}

// disconnected notes that there is no connection, and reports whether there was one
// that received messages.
func (s *subscription) disconnected() (heard bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.beats++
	if s.hearing {
		s.hearing, heard = false, true
		s.ring()
	}
	return heard
}

func (s *subscription) ring() {
	select {
	case s.changed <- struct{}{}:
	default: // it has not been told yet
	}
}
