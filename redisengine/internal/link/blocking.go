package link

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/dulymq/duly"
)

// blockLane is a connection for the blocking calls of one group, one at a time.
type blockLane struct {
	client rueidis.DedicatedClient
	id     int64  // the server's number for it
	place  string // the primary that it leads to; of a cluster "", as the slot says that
}

// blocking is one blocking call.
type blocking struct {
	link    *core
	blocker *blocker
	keys    []string
	timeout time.Duration
	over    chan struct{} // closed when it has ended

	mu     sync.Mutex
	id     int64 // of the connection that blocks; 0 before it does
	early  bool  // it is to end
	asking bool  // the server is being asked to end it
}

func (c *blocking) run() popped {
	ctx, cancel := context.WithTimeout(context.Background(), c.timeout+blockGrace)
	defer cancel()
	p := Patience{ctx: ctx, clock: c.link.clock, pause: firstPause, end: c.link.clock.Mono() + c.timeout}
	for {
		reused := c.blocker.lane != nil
		msg, err := c.try(ctx)
		if err == nil || rueidis.IsRedisNil(err) {
			c.blocker.said = ""
		}
		if err == nil {
			return c.read(msg)
		}
		if rueidis.IsRedisNil(err) {
			return popped{}
		}
		if !migrating(err) {
			c.blocker.drop()
		}
		v := verdictOf(err)
		again := v.class == idle || v.class == unknown && reused
		if v.refresh {
			c.link.refresh()
		}
		if !again || c.ended() || c.link.closed.Load() || !p.Wait() {
			return popped{err: c.refused(ctx, v, err)}
		}
	}
}

// refused is the error of a call that is not repeated. Who waits calls again and
// again, so what the server refuses is logged once, until it says something else.
func (c *blocking) refused(ctx context.Context, v verdict, err error) error {
	l, b := c.link, c.blocker
	told := l.judged(v, err)
	if v.class != refused || b.said == err.Error() {
		return told
	}
	b.said = err.Error()
	l.log.Error("redis: wake-ups can't be waited for; jobs are noticed by the look of every two seconds",
		slog.String("error", l.explained(ctx, told, c.keys).Error()), slog.String("server says", b.said))
	return told
}

// migrating tells whether the slot is on its way to another node, and this one
// owns it still. A move may take long, so the connection is kept.
func migrating(err error) bool {
	e, ok := rueidis.IsRedisErr(err)
	if !ok {
		return false
	}
	_, asks := e.IsAsk()
	return asks || e.IsTryAgain()
}

// try blocks once, on a connection that it makes if there is none.
func (c *blocking) try(ctx context.Context) (rueidis.RedisMessage, error) {
	b := c.blocker
	client, err := c.link.waiting.connect(c.link)
	if err != nil {
		return rueidis.RedisMessage{}, err
	}
	place := c.link.primary(client)
	if b.lane != nil && b.lane.place != place {
		b.drop()
	}
	if b.lane == nil {
		dedicated, _ := client.Dedicate()
		b.lane = &blockLane{client: dedicated, place: place}
		id, err := dedicated.Do(ctx, dedicated.B().ClientId().Build().SetSlot(c.keys[0])).AsInt64()
		if err != nil {
			return rueidis.RedisMessage{}, err
		}
		b.lane.id = id
	}
	if !c.starting(b.lane.id) {
		return rueidis.RedisMessage{}, rueidis.Nil
	}
	seconds := c.timeout.Seconds()
	return b.lane.client.Do(ctx, b.lane.client.B().Bzpopmin().Key(c.keys...).Timeout(seconds).Build()).ToMessage()
}

func (c *blocking) read(msg rueidis.RedisMessage) popped {
	items, err := msg.ToArray()
	if err == nil && len(items) != 3 {
		err = duly.Errorf(duly.CodeInternal, "BZPOPMIN answered %d items", len(items))
	}
	if err != nil {
		return popped{err: c.link.fault("block", verdict{code: duly.CodeInternal, advice: "the server answered what was not asked"}, err)}
	}
	p := popped{ok: true}
	p.key, _ = items[0].ToString()
	p.member, _ = items[1].ToString()
	p.score, p.err = items[2].AsFloat64()
	return p
}

// starting notes the connection that is to block; false says not to.
func (c *blocking) starting(id int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.id = id
	return !c.early
}

func (c *blocking) ended() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.early
}

// ending notes that the call is to end, and answers which connection blocks; 0
// if none does yet, or if the server is being asked already: it is asked until
// the call has ended, also if it stands still, so once is enough.
func (c *blocking) ending() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.early = true
	if c.asking || c.id == 0 {
		return 0
	}
	c.asking = true
	return c.id
}

// asked notes that nobody asks any more, although the call has not ended.
func (c *blocking) asked() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asking = false
}

// unblock asks the server to end the call. It may be asked before the call has
// reached it, and then is asked again.
//
// A server whose writes are paused (CLIENT PAUSE, and of itself for CLUSTER
// FAILOVER, FAILOVER and SHUTDOWN) holds the call back, and releases before the
// summer of 2025 end with a panic when such a call is to be unblocked. So a write
// that changes nothing goes ahead: it is held back too, and the question behind
// it.
func (c *blocking) unblock(id int64) {
	ctx, cancel := context.WithTimeout(context.Background(), MaxBlock+blockGrace)
	defer cancel()
	client, err := c.link.waiting.connect(c.link)
	if err != nil {
		c.asked()
		return
	}
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		replies := client.DoMulti(ctx, client.B().Unlink().Key(c.link.fenceKey(c.keys[0])).Build(),
			client.B().ClientUnblock().ClientId(id).Build().SetSlot(c.keys[0]))
		if n, err := replies[1].AsInt64(); err == nil && n == 1 {
			return
		}
		timer := c.link.clock.NewTimer(pause)
		select {
		case <-c.over:
			timer.Stop()
			return
		case <-ctx.Done():
			timer.Stop()
			c.asked()
			return
		case <-timer.C:
		}
	}
}
