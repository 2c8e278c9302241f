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

// shape is what a load looks like. The zero value of a field is none of it.
type shape struct {
	queues           []string
	pushers, workers int
	batch            int           // jobs of a push, and deliveries of a Reserve, at most
	rest             time.Duration // of a pusher after each push
	backlog          int64         // jobs that the pushers get ahead of the workers of the same process
	body             int           // bytes, at most; one body in a hundred has 256 KiB if big
	big              bool
	delays           float64       // share of the jobs that are delayed, by
	delay            time.Duration // at most
	lease            time.Duration
	call             time.Duration // limit of every call
	plain            bool          // jobs have defaults for everything but the lease of their Reserve
}

// The shares of deliveries that do not end with an ack at once.
const (
	nacked   = 0.05
	released = 0.02
	extended = 0.02
	stalled  = 0.01 // acked when the lease is over by far
	buried   = 0.005
)

// load is one process's share of the work.
type load struct {
	engine duly.Engine
	diary  *diary
	shape  shape
	ahead  atomic.Int64
	open   atomic.Int64   // calls that were not answered
	why    atomic.Value   // of the last of them, a string
	late   sync.WaitGroup // settles of stalled deliveries
	calls  underWay
}

// underWay holds the calls that have not ended, by when each began.
type underWay struct {
	mu    sync.Mutex
	last  int64
	begun map[int64]int64
}

// enter notes that a call begins, until it leaves.
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

// olderThan reports whether a call is under way that began before a moment.
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

// run works until ctx ends; its pushers stop when pushing does.
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

// limit begins a call and returns its context, and what ends the call. The context
// does not end with the load, whose calls are all answered or given up.
func (l *load) limit() (context.Context, context.CancelFunc) {
	leave := l.calls.enter()
	if l.shape.call == 0 {
		return context.Background(), leave
	}
	ctx, cancel := context.WithTimeout(context.Background(), l.shape.call)
	return ctx, func() { cancel(); leave() }
}

// maybe tells whether a call that ended so may have happened, or may be undone:
// to know, it is made again.
func maybe(err error) bool {
	return errors.Is(err, duly.ErrUnavailable) || errors.Is(err, duly.ErrNotDurable) || errors.Is(err, duly.ErrClosed) || errors.Is(err, context.DeadlineExceeded)
}

// maybe counts such calls.
func (l *load) maybe(err error) bool {
	if !maybe(err) {
		return false
	}
	l.open.Add(1)
	l.why.Store(err.Error())
	return true
}

// breath is what a client rests after a call that was not answered.
const breath = 10 * time.Millisecond

func (l *load) push(ctx context.Context, r *rand.Rand) {
	for ctx.Err() == nil {
		if most := l.shape.backlog; most > 0 && l.ahead.Load() > most {
			time.Sleep(time.Millisecond) // the clients of a test live on the wall's time
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

// pushOnce tells whether the push was answered.
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
			if _, err := l.engine.Wait(wait, duly.WaitParams{Queues: queues, Timeout: time.Second}); err != nil && wait.Err() == nil {
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

// handle ends deliveries as the lot says.
func (l *load) handle(ctx context.Context, r *rand.Rand, got []duly.Delivery) {
	var outcomes, slow []duly.SettleRequest
	for i := range got {
		o := duly.SettleRequest{Receipt: got[i].Receipt, As: duly.Ack}
		switch lot := r.Float64(); {
		case lot < nacked:
			delay := time.Duration(r.IntN(200)) * time.Millisecond
			o.As, o.Error, o.Delay = duly.Nack, "by lot", &delay
		case lot < nacked+released:
			o.As = duly.Release
		case lot < nacked+released+extended:
			l.extend(o.Receipt)
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

func (l *load) extend(r duly.Receipt) {
	ctx, cancel := l.limit()
	defer cancel()
	l.diary.extending(r, l.shape.lease)
	errs, err := l.engine.Extend(ctx, "", []duly.Receipt{r}, l.shape.lease)
	switch {
	case err == nil && (errs[0] == nil || errors.Is(errs[0], duly.ErrLeaseLost)):
		l.diary.extended(r, errs[0])
	case err != nil && !l.maybe(err):
		l.diary.fault("extend", err)
	case err == nil && !l.maybe(errs[0]):
		l.diary.fault("extend", errs[0])
	}
}

// settle repeats until it is answered, or nobody could still be waiting for it.
func (l *load) settle(outcomes []duly.SettleRequest) {
	for end := time.Now().Add(10 * time.Second); len(outcomes) > 0 && time.Now().Before(end); {
		if outcomes = l.settleOnce(outcomes); len(outcomes) > 0 {
			time.Sleep(breath)
		}
	}
}

// settleOnce answers those outcomes that were not answered.
func (l *load) settleOnce(outcomes []duly.SettleRequest) (left []duly.SettleRequest) {
	for i := range outcomes {
		l.diary.settling(&outcomes[i])
	}
	ctx, cancel := l.limit()
	defer cancel()
	errs, err := l.engine.Settle(ctx, "", outcomes)
	if err != nil {
		if !l.maybe(err) {
			l.diary.fault("settle", err)
		}
		return outcomes
	}
	for i, err := range errs {
		switch {
		case err == nil || errors.Is(err, duly.ErrLeaseLost):
			l.diary.settled(outcomes[i].Receipt, err)
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
