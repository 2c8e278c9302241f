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

// Hear calls message for each message that is published on a shard channel (SPUBLISH). It returns
// when ctx ends or the link is closed, with the context's error or [duly.ErrClosed]. It calls
// hearing when messages begin to arrive, and again after each gap: after a closed connection, a
// moved slot or a new primary. Messages of a gap are lost.
//
// Hear has a dedicated connection to the node that owns the channel's slot, and sends nothing over
// it after SSUBSCRIBE. If the user lacks the right, Hear logs that once and retries every 30 s.
func (l *pubsub) Hear(ctx context.Context, channel string, hearing func(), message func(string)) error {
	if err := l.enter(ctx); err != nil {
		return err
	}
	defer l.calls.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.life, cancel)()

	h := &shardSubscription{
		subscriber: subscriber{link: l.core, channel: channel, refusedPause: refusedPause}, hearing: hearing,
		message: message,
	}
	h.run(ctx, h.listen, h.ended)

	if l.closed.Load() {
		return duly.ErrClosed
	}
	return ctx.Err()
}

// shardSubscription is one call to Hear.
type shardSubscription struct {
	subscriber
	hearing    func()
	message    func(string)
	subscribed bool // whether the last connection was subscribed
}

// ended returns whether the connection that has ended was subscribed, and resets that.
func (h *shardSubscription) ended() (heard bool) {
	heard, h.subscribed = h.subscribed, false
	return heard
}

// listen opens a connection and passes its messages on, until it ends, the slot moves, or the
// server is no longer the primary.
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
	// The hooks are set before the subscription, so that no message arrives without them.
	lost := conn.SetPubSubHooks(rueidis.PubSubHooks{
		OnMessage: func(m rueidis.PubSubMessage) { h.message(m.Message) },
		OnSubscription: func(s rueidis.PubSubSubscription) {
			if s.Kind == "sunsubscribe" {
				// The send does not block, because the connection has only one subscription.
				moved <- struct{}{}
			}
		},
	})
	if err := conn.Do(ctx, conn.B().Ssubscribe().Channel(h.channel).Build()).Error(); err != nil {
		return err
	}
	// A refusal after this success is a new one, so it is logged again.
	h.subscribed, h.logged = true, ""
	h.hearing()

	// Sentinels report a new primary to the client, so this loop sends nothing.
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

// subscriber keeps a subscribed connection open.
type subscriber struct {
	link    *core
	channel string
	logged  string // text of the last logged error
	// refusedPause is the pause after the server has refused the user. 0 means the usual pause.
	refusedPause time.Duration
}

// refusedPause is the pause of Hear. It is long, because rights are seldom granted while a program
// runs.
const refusedPause = 30 * time.Second

// run calls listen repeatedly. The pauses grow until a connection was subscribed, which ended
// reports.
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

// explain reports whether the server refused the subscription, and logs each refusal once. It
// reconnects if the server is no longer the primary.
func (s *subscriber) explain(err error) (refusal bool) {
	l, v := s.link, verdictOf(err)
	if v.refresh {
		l.refresh()
	}
	if v.class != refused || s.logged == err.Error() {
		return v.class == refused
	}
	s.logged = err.Error()
	l.log.Warn(
		"redis: the server refuses a subscription, so changes are noticed later; "+
			"grant it: ACL SETUSER USER +subscribe +ssubscribe &"+l.o.Prefix+":*",
		slog.String("setting", "acl"), slog.String("server", l.where()), slog.String("channel", s.channel),
		slog.String("error", l.fault("subscribe", v, err).Error()),
	)
	return true
}

// A subscription sends a query over its connection every beatEvery. An answer that takes longer
// than beatWait counts as missing. The subscription therefore detects within a second that it
// receives nothing.
const (
	beatEvery = 300 * time.Millisecond
	beatWait  = 400 * time.Millisecond
)

// Subscribe receives the messages of a channel. It calls report(true) when messages begin to
// arrive, and after each message. One call may cover several messages, or none. Subscribe calls
// report(false) within a second after it loses the connection. The next report(true) covers all
// messages missed until then. If the number in the key is lower than before, the store lost
// writes, and Subscribe calls fell before report. The calls never overlap.
//
// Subscribe returns when ctx ends or the link is closed, with the context's error or
// [duly.ErrClosed]. It retries after all other errors.
//
// # How
//
// A publisher publishes a rising number. The same script writes it to the key with the channel's
// name. The subscription reads that key repeatedly over a dedicated connection, in a cluster to
// the node that owns the key. An answer proves that all earlier messages have arrived. A missing
// answer means that messages don't arrive. An answer with an unknown number means that a message
// was lost: by a failover, a FLUSHALL, or between the nodes of a cluster.
func (l *pubsub) Subscribe(ctx context.Context, channel string, report func(hearing bool), fell func()) error {
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
			// A lower number must be reported before the message that follows it.
			if s.takeFallen() {
				fell()
			}
			report(s.isHearing())
		case <-ctx.Done():
			if l.closed.Load() {
				return duly.ErrClosed
			}
			return ctx.Err()
		}
	}
}

// subscription is one call to Subscribe.
type subscription struct {
	subscriber
	changed chan struct{} // has a value while a call to report is pending

	mu      sync.Mutex
	hearing bool
	last    string // the last known published number
	beats   uint64 // number of queries so far
	fallen  bool   // whether the number fell and fell was not called yet
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

// listen opens a connection and receives its messages, until it is lost or its server is no
// longer the primary.
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

	// After a failover the messages of the channel go to another server.
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

// ask reads the key. While the key moves to another node, a redirect counts as an answer with the
// known number.
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

// message handles a message of the channel. Before the connection's first answer it only records
// the number.
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
	// The answer has come, so a timer of late that is pending does nothing.
	s.beats++
	if value != s.last || !s.hearing {
		s.fallen = s.fallen || publishedNumber(value) < publishedNumber(s.last)
		s.last, s.hearing = value, true
		s.ring()
	}
}

// publishedNumber returns the number in the key, or 0 if there is none.
func publishedNumber(value string) int64 {
	n, _ := strconv.ParseInt(value, 10, 64)
	return n
}

// late handles an overdue answer. It keeps the connection, because a server that hangs may
// continue.
func (s *subscription) late(beat uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.beats == beat && s.hearing {
		s.hearing = false
		s.ring()
	}
}

// disconnected handles the end of the connection. It reports whether the connection received
// messages.
func (s *subscription) disconnected() (heard bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// A pending timer of late ignores the query after this.
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
	// A call to report is already pending.
	default:
	}
}
