package chaos

import (
	"context"
	crand "crypto/rand"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dulymq/duly"
)

// shape describes a load. A field that is 0 turns that part of the load off.
type shape struct {
	queues           []string
	pushers, workers int
	batch            int           // the most jobs of a push, and deliveries of a Reserve
	rest             time.Duration // pause of a pusher after each push
	backlog          int64         // how many jobs the pushers may be ahead of the workers of their process
	body             int           // the most bytes; with big, one body in a hundred has 256 KiB
	big              bool
	delays           float64       // share of delayed jobs
	delay            time.Duration // the longest delay
	lease            time.Duration
	call             time.Duration // timeout of every call
	plain            bool          // jobs have default settings, except for the lease of their Reserve
}

// The shares of deliveries that are not acknowledged at once.
const (
	nacked   = 0.05
	released = 0.02
	extended = 0.02
	stalled  = 0.01 // acknowledged long after the lease has ended
	buried   = 0.005
)

// load is the load of one process.
type load struct {
	engine duly.Engine
	diary  *diary
	shape  shape
	ahead  atomic.Int64
	open   atomic.Int64   // calls without an answer
	why    atomic.Value   // the error of the last call without an answer, a string
	late   sync.WaitGroup // late settles of stalled deliveries
	calls  underWay
}

// underWay holds the calls in flight with their start times.
type underWay struct {
	mu    sync.Mutex
	last  int64
	begun map[int64]int64
}

// enter notes the start of a call. The returned function notes its end.
func (u *underWay) enter() (leave func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.begun == nil {
		u.begun = map[int64]int64{}
	}
	u.last++
	id := u.last
	u.begun[id] = at()
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		delete(u.begun, id)
	}
}

// olderThan reports whether a call in flight began before this time.
func (u *underWay) olderThan(moment int64) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, began := range u.begun {
		if began < moment {
			return true
		}
	}
	return false
}

// run works until ctx ends. Its pushers stop when pushing ends.
func (l *load) run(ctx, pushing context.Context, seed uint64) {
	var wg sync.WaitGroup
	for i := range l.shape.pushers {
		wg.Go(func() { l.push(pushing, rand.New(rand.NewPCG(seed, uint64(i)))) })
	}
	for i := range l.shape.workers {
		wg.Go(func() { l.work(ctx, rand.New(rand.NewPCG(seed, uint64(1000+i)))) })
	}
	wg.Wait()
	l.late.Wait()
}

// limit starts a call and returns its context and a function that ends it. The context does not
// end with the load, because every call has to end with an answer or a timeout.
func (l *load) limit() (context.Context, context.CancelFunc) {
	leave := l.calls.enter()
	if l.shape.call == 0 {
		return context.Background(), leave
	}
	ctx, cancel := context.WithTimeout(context.Background(), l.shape.call)
	return ctx, func() { cancel(); leave() }
}

// maybe reports whether it is unknown that a failed call was executed. The caller repeats the call
// to find out.
func maybe(err error) bool {
	return errors.Is(err, duly.ErrUnavailable) || errors.Is(err, duly.ErrNotDurable) || errors.Is(err, duly.ErrClosed) ||
		errors.Is(err, context.DeadlineExceeded)
}

// maybe counts calls whose result is unknown.
func (l *load) maybe(err error) bool {
	if !maybe(err) {
		return false
	}
	l.open.Add(1)
	l.why.Store(err.Error())
	return true
}

// breath is the pause of a client after a call without an answer.
const breath = 10 * time.Millisecond

func (l *load) push(ctx context.Context, r *rand.Rand) {
	for ctx.Err() == nil {
		if most := l.shape.backlog; most > 0 && l.ahead.Load() > most {
			time.Sleep(time.Millisecond) // real clients use the real clock
			continue
		}
		jobs := l.jobs(r)
		for ctx.Err() == nil && !l.pushOnce(jobs) {
			for i := range jobs {
				jobs[i].Made = false
			}
			time.Sleep(breath)
		}
		time.Sleep(l.shape.rest)
	}
}

func (l *load) jobs(r *rand.Rand) []duly.Job {
	jobs := make([]duly.Job, 1+r.IntN(l.shape.batch))
	for i := range jobs {
		j := &jobs[i]
		j.Queue = l.shape.queues[r.IntN(len(l.shape.queues))]
		size := r.IntN(l.shape.body)
		if l.shape.big && r.IntN(100) == 0 {
			size = 256 << 10
		}
		j.Body = make([]byte, size)
		crand.Read(j.Body)
		if r.Float64() < l.shape.delays {
			j.Delay = time.Duration(r.Int64N(int64(l.shape.delay)))
		}
		if !l.shape.plain {
			j.Priority, j.Lease = r.IntN(3), l.shape.lease
		}
		j.ID, j.Made = duly.MakeID(j), true
	}
	return jobs
}

// pushOnce reports whether the push was answered.
func (l *load) pushOnce(jobs []duly.Job) bool {
	for i := range jobs {
		l.diary.pushing(&jobs[i])
	}
	ctx, cancel := l.limit()
	defer cancel()
	results, err := l.engine.Push(ctx, jobs)
	if err != nil {
		if !l.maybe(err) {
			l.diary.fault("push", err)
		}
		return false
	}
	all := true
	for _, r := range results {
		switch {
		case r.Err == nil:
			l.diary.pushed(r)
			l.ahead.Add(1)
		case l.maybe(r.Err):
			all = false
		default:
			l.diary.fault("push", r.Err)
		}
	}
	return all
}

func (l *load) work(ctx context.Context, r *rand.Rand) {
	queues := slices.Clone(l.shape.queues)
	for ctx.Err() == nil {
		r.Shuffle(len(queues), func(i, k int) { queues[i], queues[k] = queues[k], queues[i] })
		got, ok := l.reserve(queues, 1+r.IntN(l.shape.batch))
		switch {
		case !ok:
			time.Sleep(breath)
		case len(got) == 0:
			wait, cancel := context.WithTimeout(ctx, 2*time.Second)
			leave := l.calls.enter()
			if _, err := l.engine.Wait(wait, duly.WaitParams{Queues: queues, Timeout: time.Second}); err != nil &&
				wait.Err() == nil {
				if !l.maybe(err) {
					l.diary.fault("wait", err)
				}
				time.Sleep(breath)
			}
			leave()
			cancel()
		default:
			l.handle(ctx, r, got)
		}
	}
}

func (l *load) reserve(queues []string, most int) ([]duly.Delivery, bool) {
	p := duly.ReserveParams{Queues: queues, Max: most}
	if l.shape.plain {
		p.Lease = l.shape.lease
	}
	ctx, cancel := l.limit()
	defer cancel()
	sent := at()
	got, err := l.engine.Reserve(ctx, p)
	if err != nil {
		l.diary.unanswered(sent)
		if !l.maybe(err) {
			l.diary.fault("reserve", err)
		}
		return nil, false
	}
	for i := range got {
		l.diary.delivered(sent, &got[i])
	}
	return got, true
}

// handle ends deliveries in random ways.
func (l *load) handle(ctx context.Context, r *rand.Rand, got []duly.Delivery) {
	var outcomes, slow []outcome
	for i := range got {
		o := outcomeOf(&got[i], duly.Ack)
		switch lot := r.Float64(); {
		case lot < nacked:
			delay := time.Duration(r.IntN(200)) * time.Millisecond
			o.As, o.Error, o.Delay = duly.Nack, "by lot", &delay
		case lot < nacked+released:
			o.As = duly.Release
		case lot < nacked+released+extended:
			l.extend(&o)
		case lot < nacked+released+extended+buried:
			o.As, o.Error = duly.Bury, "by lot"
		case lot < nacked+released+extended+buried+stalled:
			slow = append(slow, o)
			continue
		}
		outcomes = append(outcomes, o)
	}
	if len(slow) > 0 {
		l.late.Go(func() {
			over, cancel := context.WithTimeout(ctx, l.shape.lease*3/2)
			defer cancel()
			<-over.Done()
			l.settle(slow)
		})
	}
	if len(outcomes) > 0 {
		l.settle(outcomes)
	}
}

func (l *load) extend(o *outcome) {
	ctx, cancel := l.limit()
	defer cancel()
	l.diary.extending(o, l.shape.lease)
	errs, err := l.engine.Extend(ctx, "", []duly.Receipt{o.Receipt}, l.shape.lease)
	switch {
	case err == nil && (errs[0] == nil || errors.Is(errs[0], duly.ErrLeaseLost)):
		l.diary.extended(o, errs[0])
	case err != nil && !l.maybe(err):
		l.diary.fault("extend", err)
	case err == nil && !l.maybe(errs[0]):
		l.diary.fault("extend", errs[0])
	}
}

// settle repeats the call until it is answered, or until no caller would still wait for it.
func (l *load) settle(outcomes []outcome) {
	for end := time.Now().Add(10 * time.Second); len(outcomes) > 0 && time.Now().Before(end); {
		if outcomes = l.settleOnce(outcomes); len(outcomes) > 0 {
			time.Sleep(breath)
		}
	}
}

// settleOnce settles the outcomes and returns those without an answer.
func (l *load) settleOnce(outcomes []outcome) (left []outcome) {
	requests := make([]duly.SettleRequest, len(outcomes))
	for i := range outcomes {
		requests[i] = outcomes[i].SettleRequest
		l.diary.settling(&outcomes[i])
	}
	ctx, cancel := l.limit()
	defer cancel()
	errs, err := l.engine.Settle(ctx, "", requests)
	if err != nil {
		if !l.maybe(err) {
			l.diary.fault("settle", err)
		}
		return outcomes
	}
	for i, err := range errs {
		switch {
		case err == nil || errors.Is(err, duly.ErrLeaseLost):
			l.diary.settled(&outcomes[i], err)
			if err == nil && outcomes[i].As == duly.Ack {
				l.ahead.Add(-1)
			}
		case l.maybe(err):
			left = append(left, outcomes[i])
		default:
			l.diary.fault("settle", err)
		}
	}
	return left
}
