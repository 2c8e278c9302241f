package sqliteengine

import (
	"math"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/adaptive"
	"github.com/dulymq/duly/sqliteengine/internal/sqliteconn"
)

// never is later than any time.
const never = math.MaxInt64

// queue is the state of one queue in memory. It equals the tables, except for the
// earliest times, which are lower bounds.
//
// Only the writer uses it. A transaction changes a draft, which replaces the queue's
// state after the commit.
type queue struct {
	id       int64
	ref      duly.QueueRef
	kind     kind
	cfg      duly.QueueConfig
	sizes    duly.Sizes
	counters duly.Counters
	bucket   contract.Bucket
	closing  contract.Closing
	limiter  *adaptive.State // set while the limits adapt
	// earliest holds the earliest time of each kind of event.
	earliest eventTimes
	// aliased reports whether the ID of some job may differ from its number.
	aliased bool
	// schedules is the number of schedules.
	schedules int
	log       *topicLog   // set for a topic
	group     *groupState // set for a group

	draft     *queue // draft that the running transaction changes
	base      *queue // for a draft: the queue that was copied
	cfgDirty  bool   // for a draft: whether the configuration has changed
	tickMoved bool   // for a draft: whether a schedule got a next tick other than by Fire
	destroyed bool   // for a draft: whether the queue was destroyed
	reserves  int    // for a draft: number of Reserves that visited the queue
	readyBuf  int    // for a draft: 1 + the index of its buffer in tx.ready, or 0 without a buffer
}

// eventTimes are lower bounds of the first time in each index. Before the engine acts on a
// time that has passed, it reads the index again.
type eventTimes struct {
	due, leaseEnd, dead, expiry, tick int64
}

// lower lowers an earliest time.
func lower(moment *int64, at int64) { *moment = min(*moment, at) }

// loadQueues reads all queues.
func loadQueues(c *conn) (map[duly.QueueRef]*queue, error) {
	queues := map[duly.QueueRef]*queue{}
	s := c.stmt("queues_load")
	for {
		row, err := s.Step()
		if err != nil {
			return nil, err
		}
		if !row {
			break
		}
		q := scanQueue(s)
		queues[q.ref] = q
	}

	if err := loadTopics(c, queues); err != nil {
		return nil, err
	}

	// The earliest times of topics depend on their rows, so topics are read first.
	for _, q := range queues {
		if err := q.readEarliest(c); err != nil {
			return nil, err
		}
		if err := q.readLimiter(c); err != nil {
			return nil, err
		}
	}
	return queues, nil
}

func scanQueue(s *sqliteconn.Stmt) *queue {
	i := -1
	next := func() int64 { i++; return s.ColInt(i) }
	nextInt := func() int { return int(next()) }
	nextFloat := func() float64 { i++; return s.ColFloat(i) }
	q := &queue{id: next()}
	q.ref = duly.QueueRef{Namespace: s.ColText(1), Name: s.ColText(2)}
	i = 2
	c := &q.cfg
	c.Shards, c.Paused = 1, next() != 0
	c.Defaults.Tries, c.Defaults.MaxStalls = nextInt(), nextInt()
	i++
	c.Defaults.Backoff = duly.Backoff(s.ColText(i))
	for _, d := range []*time.Duration{&c.Defaults.Lease, &c.Defaults.TTL, &c.Defaults.Retain, &c.DeadAge} {
		*d = time.Duration(next())
	}

	c.DeadCount, c.MaxJobs, c.MaxLeased = nextInt(), nextInt(), nextInt()
	c.Rate.PerSecond, c.Rate.Burst = nextFloat(), nextInt()
	for _, n := range q.counts() {
		*n = next()
	}

	q.bucket.Taken, q.bucket.At = nextFloat(), next()
	q.kind = kind(next())
	// A group has no delivery mode of its own.
	if delivery := next(); q.kind != kindGroup {
		c.Delivery = deliveries[delivery]
	}

	c.Push = duly.PushConfig{URL: s.ColText(i + 1), OnDone: s.ColText(i + 2), OnDead: s.ColText(i + 3)}
	q.closing = contract.Closing{Until: s.ColInt(i + 4), Reason: s.ColText(i + 5)}
	q.counters.Slowed = s.ColInt(i + 6)
	c.Adapt.Floor = s.ColFloat(i + 7)
	return q
}

// deliveries lists the delivery modes by their numbers in the tables.
var deliveries = [...]duly.DeliveryMode{duly.DeliverPull, duly.DeliverPush}

// waitKey returns the callers that the queue serves.
func (q *queue) waitKey() waitKey { return waitKey{q.ref, q.cfg.Delivery == duly.DeliverPush} }

// serves reports whether the queue serves that kind of callers.
func (q *queue) serves(dispatcher bool) bool { return q.waitKey().dispatcher == dispatcher }

// newDraft returns a draft of the queue.
func (q *queue) newDraft() *queue {
	work := *q
	if q.log != nil {
		log := *q.log
		work.log = &log
	}
	if q.group != nil {
		group := *q.group
		work.group = &group
	}
	if q.limiter != nil {
		limiter := *q.limiter
		work.limiter = &limiter
	}
	work.base = q
	return &work
}

// counts lists the sizes and counters of a tally in the order of their columns.
func (q *queue) counts() [18]*int64 {
	z, c := &q.sizes, &q.counters
	return [...]*int64{
		&z.Delayed, &z.Ready, &z.Blocked, &z.Leased, &z.Dead, &z.Done,
		&c.Pushed, &c.Merged, &c.Delivered, &c.Acked, &c.Failed, &c.Stalled, &c.Released, &c.Dead,
		&c.Requeued, &c.Expired, &c.Deleted, &c.Dropped,
	}
}

// readEarliest reads the earliest times from the indexes.
func (q *queue) readEarliest(c *conn) error {
	if q.kind == kindTopic {
		q.earliest = noEvents
		return q.asTopic().readDelayed(c)
	}

	s := c.stmt("queue_moments").Int(1, q.id)
	if _, err := s.Step(); err != nil {
		return err
	}
	for i, m := range []*int64{&q.earliest.due, &q.earliest.leaseEnd, &q.earliest.dead, &q.earliest.expiry} {
		if *m = never; !s.ColNull(i) {
			*m = s.ColInt(i)
		}
	}

	q.aliased = s.ColInt(4) != 0
	if q.earliest.tick = never; !s.ColNull(5) {
		q.earliest.tick = s.ColInt(5)
	}
	q.schedules = int(s.ColInt(6))
	s.Reset()
	return nil
}

// bindConfig binds the configuration from argument i on.
func (q *queue) bindConfig(s *sqliteconn.Stmt, i int) {
	c, paused := &q.cfg, int64(0)
	if c.Paused {
		paused = 1
	}
	s.Int(i, paused).Int(i+1, int64(c.Defaults.Tries)).Int(i+2, int64(c.Defaults.MaxStalls)).Text(i+3,
		string(c.Defaults.Backoff))
	s.Int(i+4, int64(c.Defaults.Lease)).Int(i+5, int64(c.Defaults.TTL)).Int(i+6, int64(c.Defaults.Retain))
	s.Int(i+7, int64(c.DeadAge)).Int(i+8, int64(c.DeadCount)).Int(i+9, int64(c.MaxJobs)).Int(i+10, int64(c.MaxLeased))
	s.Float(i+11, c.Rate.PerSecond).Int(i+12, int64(c.Rate.Burst))
	delivery := int64(0)
	if q.waitKey().dispatcher {
		delivery = 1
	}
	s.Int(i+13, delivery).Text(i+14, c.Push.URL).Text(i+15, c.Push.OnDone).Text(i+16, c.Push.OnDead)
	s.Float(i+17, c.Adapt.Floor)
}

// noEvents has the times of a queue without pending events.
var noEvents = eventTimes{never, never, never, never, never}

// save writes the changes of a draft.
func (q *queue) save(c *conn) error {
	if q.destroyed {
		return nil
	}
	if q.log != nil {
		return q.asTopic().saveTopic(c)
	}

	if q.group != nil {
		if err := q.asGroup().saveGroup(c); err != nil {
			return err
		}
	}

	if q.cfgDirty {
		s := c.stmt("queue_configure").Int(1, q.id)
		q.bindConfig(s, 2)
		if _, err := s.Run(); err != nil {
			return err
		}
	}
	// The columns of closings have a statement of their own, because few queues ever close.
	if q.closing != q.base.closing || q.counters.Slowed != q.base.counters.Slowed {
		s := c.stmt("queue_close").Int(1, q.id).Int(2, q.closing.Until).Text(3, q.closing.Reason)
		if _, err := s.Int(4, q.counters.Slowed).Run(); err != nil {
			return err
		}
	}
	if err := q.saveLimiter(c); err != nil {
		return err
	}
	// Most transactions change few queues, and a write per queue would cost as much as the jobs.
	if q.sizes == q.base.sizes && q.counters == q.base.counters && q.bucket == q.base.bucket {
		return nil
	}

	s := c.stmt("tallies_save").Int(1, q.id)
	for i, n := range q.counts() {
		s.Int(i+2, *n)
	}

	_, err := s.Float(20, q.bucket.Taken).Int(21, q.bucket.At).Run()
	return err
}

// held returns the number of jobs that count towards MaxJobs.
func (q *queue) held() int64 {
	return q.sizes.Delayed + q.sizes.Ready + q.sizes.Blocked + q.sizes.Leased
}

// isEmpty reports whether the queue holds no job in any state.
func (q *queue) isEmpty() bool { return q.sizes == duly.Sizes{} }

// shut reports whether the queue is paused or closed.
func (q *queue) shut(now int64) bool { return q.cfg.Paused || q.closing.Clip(now).Until != 0 }

// allowance returns how many more deliveries pause, closing and limits allow.
func (q *queue) allowance(now int64) int {
	if q.shut(now) {
		return 0
	}
	n, limits := math.MaxInt, q.limits()
	if limits.MaxLeased != duly.None {
		n = max(0, limits.MaxLeased-int(q.sizes.Leased))
	}
	if limits.Rate.Limited() {
		n = min(n, q.bucket.Fill(limits.Rate, now).Free(limits.Rate))
	}
	if q.limiter != nil && q.limiter.Most() >= 0 {
		n = min(n, q.limiter.Most())
	}
	return n
}

// countMove updates the sizes for a job that changes its state.
func (q *queue) countMove(from, to duly.State) {
	if from == to {
		return
	}
	if from != duly.StateNone {
		*q.sizes.Of(from)--
	}
	if to != duly.StateNone {
		*q.sizes.Of(to)++
	}
}

// allowanceLater returns a function that evaluates allowance at later times, and when closing and
// rate limit next allow a delivery. The function does not retain the queue.
func (q *queue) allowanceLater(now int64) (open func(int64) int, opensAt int64) {
	closing := q.closing.Clip(now)
	if !q.cfg.Paused && closing.Until == 0 && q.cfg.MaxLeased == duly.None && !q.cfg.Rate.Limited() {
		return unlimited, 0
	}
	opensAt = closing.Until
	if r := q.limits().Rate; r.Limited() {
		opensAt = max(opensAt, q.bucket.Fill(r, now).OpensAt(r))
	}
	// The state of the limiter is copied for each change, so the function may share it.
	limits := queue{cfg: q.cfg, bucket: q.bucket, closing: closing, sizes: q.sizes, limiter: q.limiter}
	return limits.allowance, opensAt
}

func unlimited(int64) int { return never }

// accounted returns the sum that counter Pushed must have.
func (q *queue) accounted() int64 {
	c := &q.counters
	return c.Acked + c.Merged + c.Expired + c.Deleted + c.Dropped + q.held() + q.sizes.Dead
}

func (q *queue) asTopic() topicQueue { return topicQueue{q} }

func (q *queue) asGroup() groupQueue { return groupQueue{q} }
