package worker

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/batch"
)

const (
	// waitTime is the longest time of one Wait. A connection that died unnoticed keeps the worker
	// from its jobs for this long at most.
	waitTime = time.Minute
	// groupWaitTime bounds one Wait of a worker that creates its groups. A Wait that began before a
	// store was reset may not notice that its groups are gone. The next Wait does.
	groupWaitTime = 1500 * time.Millisecond
	// After maxConflicts answers in a row that a name belongs to a topic, or to a group with a
	// bridge, the worker gives up. A single conflict may be temporary, while a namespace moves.
	maxConflicts = 3
	// After maxEmptyReserves Reserves in a row that find nothing although Wait reported a job, the
	// worker pauses. Other workers were faster then.
	maxEmptyReserves = 4
	// manySlots is the number of slots from which a backlog is taken by two Reserves at a
	// time. With fewer slots, a call would cost more than its jobs.
	manySlots = 32
	// jobBlock is how many activeJobs are allocated together. A job that runs for long keeps
	// the memory of that many.
	jobBlock = 16
)

// fetcher is the fetch loop: it reserves as many jobs as slots are free, and waits while the
// queues are empty. With a backlog it has two Reserves in flight, each for half of the
// slots: the store works on one while the handlers work on the jobs of the other.
type fetcher struct {
	*run
	groups   *groupCreator // nil if no handler has the option From
	consumer string        // empty if the worker handles no group

	replies  chan reserveReply
	inFlight int // number of Reserves whose replies are awaited
	// ready means that there may be jobs, so a Reserve needs no Wait before it.
	ready bool
	// backlog means that the last Reserve returned as many jobs as it asked for.
	backlog bool

	failed   error // error of a Reserve that failed while another one was in flight
	failures int   // number of failed calls in a row
	empties  int   // number of Reserves in a row that found nothing
}

func newFetcher(r *run) *fetcher {
	f := &fetcher{run: r, replies: make(chan reserveReply), ready: true, groups: newGroupCreator(r)}
	for queue := range r.routes {
		if (duly.QueueRef{Name: queue}).IsGroup() {
			f.consumer = r.cfg.Consumer
		}
	}
	return f
}

// loop fetches until stop ends, or until an error that a retry cannot fix.
func (f *fetcher) loop(stop context.Context) (err error) {
	if f.groups != nil {
		err = f.groups.create(stop)
	}
	for stop.Err() == nil && err == nil {
		err = f.step(stop)
	}

	// The jobs of the Reserves in flight are leased. After stop, start releases them.
	for f.inFlight > 0 {
		f.start(f.receive(<-f.replies))
	}
	return err
}

// step waits for jobs, sends a Reserve, or handles a reply.
func (f *fetcher) step(stop context.Context) error {
	// A Wait costs the store less than a Reserve that finds nothing.
	if f.inFlight == 0 && !f.ready {
		ready, err := f.wait(stop)
		f.ready = ready && err == nil
		return f.handleError(stop, err)
	}
	if n := f.nextReserve(stop); n > 0 {
		f.send(n)
		return nil
	}

	// A second Reserve is missing only because too few slots are free.
	var slotFree signal
	if f.inFlight == 1 && f.backlog {
		slotFree = f.tracker.slotFree
	}
	select {
	case reply := <-f.replies:
		return f.handleReply(stop, reply)
	case <-slotFree:
		return nil
	case <-stop.Done():
		return nil
	}
}

// nextReserve returns for how many jobs to send a Reserve now, or 0.
func (f *fetcher) nextReserve(stop context.Context) int {
	f.limit.update()
	_, half := f.tracker.inUse()
	// Two Reserves share the slots if each of them then asks for enough jobs to be worth its cost.
	if half >= manySlots {
		half = (half + 1) / 2
	}

	switch {
	case f.inFlight == 0 && f.backlog:
		return min(f.awaitSlots(stop), half)
	case f.inFlight == 0:
		return f.awaitSlots(stop)
	case f.inFlight == 1 && f.backlog:
		// A smaller second call would cost more than its jobs, so it waits for half of the slots.
		if n := min(half, duly.MaxBatch); f.tracker.freeOr(n) >= n {
			return n
		}
	}
	return 0
}

// awaitSlots waits for free slots and returns their number, or 0 if stop has ended.
func (f *fetcher) awaitSlots(stop context.Context) int {
	for stop.Err() == nil {
		if f.tracker.freeOr(1) > 0 {
			if n := batch.Gather(f.cfg.Concurrency, f.tracker.free); n > 0 {
				return n
			}
			continue // the limit was lowered since, so slotFree must be awaited again
		}
		select {
		case <-f.tracker.slotFree:
		case <-stop.Done():
		}
	}
	return 0
}

// handleReply starts the jobs of a Reserve, and decides whether there may be more jobs.
func (f *fetcher) handleReply(stop context.Context, reply reserveReply) error {
	n := len(reply.deliveries)
	switch {
	case reply.err != nil:
		// After an error nothing is known about the queues, so the next call is a Reserve.
		f.failed, f.ready, f.backlog = reply.err, true, false
	default:
		f.backlog = n == reply.asked
		// The next call is a Reserve if more jobs are likely: the reply is full, or has more than
		// one job per queue. Otherwise a Wait is cheaper than a Reserve that may find nothing, and
		// it returns immediately if there are more jobs.
		f.ready = f.backlog || n > len(reply.queues)
	}
	f.start(f.receive(reply))

	// The pause after an error must not delay a reply that is in flight.
	if f.inFlight > 0 {
		return nil
	}
	err := f.failed
	f.failed = nil
	if fatal := f.handleError(stop, err); fatal != nil {
		return fatal
	}
	f.pauseIfEmpty(stop, err == nil && n == 0)
	return nil
}

// handleError pauses after an error that a retry may fix. It returns any other error.
func (f *fetcher) handleError(stop context.Context, err error) error {
	switch {
	case err == nil:
		f.failures = 0
		f.groups.exist()
		return nil
	case stop.Err() != nil:
		return nil
	case fatal(err):
		return err
	}

	f.failures++
	switch {
	case errors.Is(err, duly.ErrNotFound):
		return f.createGroups(stop, err)
	case errors.Is(err, duly.ErrConflict) && f.failures == maxConflicts:
		return err
	}
	f.health.pause(stop, f.failures, err)
	return nil
}

// createGroups creates the groups again after a group was not found. If the worker has no option
// From, it waits until the group exists.
func (f *fetcher) createGroups(stop context.Context, err error) error {
	// A missing group is logged once, because it may be missing for long.
	if f.failures == 1 {
		f.log.Error("a group that this worker handles does not exist", "error", err)
	}
	// After the first failure, the missing group may be one without From.
	if f.groups == nil || f.failures > 1 {
		f.health.pause(stop, f.failures, err)
	}
	if f.groups == nil {
		return nil
	}
	return f.groups.create(stop)
}

// pauseIfEmpty slows down while Wait reports jobs that Reserve does not find.
func (f *fetcher) pauseIfEmpty(stop context.Context, empty bool) {
	if !empty {
		f.empties = 0
		return
	}
	if f.empties++; f.empties > maxEmptyReserves {
		f.health.pause(stop, f.empties-maxEmptyReserves, nil)
	}
}

// wait waits until a queue may have a job.
func (f *fetcher) wait(stop context.Context) (ready bool, err error) {
	p := duly.WaitParams{Namespace: f.cfg.Namespace, Queues: f.order.next(), Timeout: waitTime}
	if f.groups != nil {
		p.Timeout = groupWaitTime
	}
	err = f.health.call(stop, opWait, p.Timeout+f.cfg.CallTimeout, func(ctx context.Context) (err error) {
		ready, err = f.engine.Wait(ctx, p)
		return err
	})
	return ready, err
}

// reserveReply is the result of a Reserve.
type reserveReply struct {
	queues     []string // names of the queues in the order of the call
	asked      int
	sent       instant
	took       time.Duration
	deliveries []duly.Delivery
	err        error
}

// send sends a Reserve for n slots, which are taken from now on. The call continues when the
// worker stops, because the engine may already have leased its jobs.
func (f *fetcher) send(n int) {
	f.inFlight++
	f.tracker.addReserving(n)
	reply := reserveReply{queues: f.order.next(), asked: n, sent: f.renewer.now()}
	p := duly.ReserveParams{
		Namespace: f.cfg.Namespace, Queues: reply.queues, Max: n, Lease: f.cfg.Lease, Consumer: f.consumer,
	}

	go func() {
		reply.err = f.health.call(f.base, opReserve, f.cfg.CallTimeout, func(ctx context.Context) (err error) {
			reply.deliveries, err = f.engine.Reserve(ctx, p)
			return err
		})
		reply.took = f.clock.Mono() - reply.sent.mono
		f.replies <- reply
	}()
}

// receive records a reply, and returns its deliveries.
func (f *fetcher) receive(reply reserveReply) ([]duly.Delivery, instant) {
	f.inFlight--
	f.tracker.addReserving(-reply.asked)
	if reply.err != nil {
		return nil, reply.sent
	}
	if f.cfg.Observer.Reserved != nil {
		f.cfg.Observer.Reserved(len(reply.deliveries), reply.took)
	}
	f.order.record(reply.queues, reply.deliveries)
	return reply.deliveries, reply.sent
}

// start starts a handler for each delivery.
func (f *fetcher) start(deliveries []duly.Delivery, sent instant) {
	if len(deliveries) == 0 {
		return
	}
	jobs := make([]*activeJob, 0, len(deliveries))
	now := f.renewer.now()
	var block []activeJob
	for i := range deliveries {
		// Several jobs share one allocation, because jobs of one reply tend to end together.
		if len(block) == 0 {
			block = make([]activeJob, min(jobBlock, len(deliveries)-i))
		}
		j := &block[0]
		block = block[1:]
		f.prepare(j, &deliveries[i], sent)

		switch {
		case j.route == nil:
			f.log.Error("the engine delivered a job of a queue that the worker did not ask for; releasing it",
				"queue", j.delivery.Queue, "job", j.delivery.ID)
			f.tracker.refuse(j)
		case j.lease.expired(now):
			// The reply took so long that another worker may have the job already.
			f.tracker.refuse(j)
		default:
			jobs = append(jobs, j)
		}
	}

	// The worker has begun to stop since it sent the Reserve.
	if !f.tracker.start(jobs) {
		for _, j := range jobs {
			f.tracker.refuse(j)
		}
		return
	}
	f.handleAll(jobs)
}

// handleAll starts the handlers. Jobs of batches go to their batchers, those of one queue in one
// call.
func (f *fetcher) handleAll(jobs []*activeJob) {
	var batches map[*batcher][]*activeJob
	for _, j := range jobs {
		if j.route.batch == nil {
			go f.handle(j)
			continue
		}
		// A worker without batches needs no map.
		if batches == nil {
			batches = map[*batcher][]*activeJob{}
		}
		b := f.batchers[j.route.queue]
		batches[b] = append(batches[b], j)
	}
	for b, some := range batches {
		b.add(some)
	}
}

// prepare fills in the job of a delivery.
func (f *fetcher) prepare(j *activeJob, d *duly.Delivery, sent instant) {
	j.delivery.Delivery, j.route, j.sent = *d, f.routes[d.Queue], sent
	if j.route == nil {
		j.route = f.every
	}
	if j.route != nil {
		j.handler = j.route.handlerOf(d)
	}

	// The renewer may cancel the job before its goroutine has begun.
	ctx, cancel := context.WithCancelCause(f.values)
	j.ctx, j.cancel = jobContext{Context: ctx, delivery: &j.delivery}, cancel
	j.delivery.ctx = &j.ctx

	// The length is taken from the request, and not LeaseEnd − Now: after the engine's clock was set
	// back, Now is the due time, which may be after the end of the lease.
	length := cmp.Or(f.cfg.Lease, d.Lease)
	j.lease.grant(sent, length, f.cfg.margin(length))
	j.lease.length = length
	j.lease.holdEnd = never
	if f.cfg.MaxHold > 0 {
		j.lease.holdEnd = sent.mono + max(f.cfg.MaxHold, length)
	}
}
