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
	// waitTime bounds one Wait. It is the longest that a connection which died
	// without a word can keep the worker from its jobs.
	waitTime = time.Minute
	// mostConflicts is how often in a row the engine may answer that a name is that of a
	// topic, or of a group which a bridge works, before the worker gives up. A namespace
	// that moves may be a conflict for a moment.
	mostConflicts = 3
	// groupWaitTime bounds one Wait of a worker that creates its groups. A Wait that
	// began before a store was reset may not notice that its groups are gone, and
	// the next call does.
	groupWaitTime = 1500 * time.Millisecond
	// emptyHanded is how often in a row a Wait may promise jobs that others
	// have taken by the time they are reserved, before there is a pause.
	emptyHanded = 4
	// manySlots is from how many slots on a backlog is taken by two Reserves at
	// a time: with fewer, a call would cost more than the jobs that it brings.
	manySlots = 32
)

// fetcher keeps the slots busy: it reserves as much as there is room for, and
// waits where there is nothing. While there is a backlog two Reserves are under
// way, for half of the slots each, so that the store works on one while the
// handlers work on what the other has brought.
type fetcher struct {
	*session
	answers chan answer // of the Reserves under way
	flying  int         // how many of them there are
	// ask: there may be jobs, a Reserve needs no Wait before. backlog: the last
	// Reserve brought all that it asked for.
	ask, backlog bool
	failed       error // of a Reserve beside the one that is still under way
	failures     int   // calls in a row
	empties      int   // Reserves in a row that found nothing
	groups       *groups
	consumer     string // empty without a group
}

func newFetcher(s *session) *fetcher {
	f := &fetcher{session: s, answers: make(chan answer), ask: true, groups: newGroups(s)}
	for queue := range s.routes {
		if (duly.QueueRef{Name: queue}).IsGroup() {
			f.consumer = s.cfg.Consumer
		}
	}
	return f
}

// run fetches until stop ends, or answers an error that will not pass. What is
// brought by a Reserve that is under way then is known and given back.
func (f *fetcher) run(stop context.Context) (err error) {
	if f.groups != nil {
		err = f.groups.create(stop)
	}
	for stop.Err() == nil && err == nil {
		err = f.turn(stop)
	}
	for f.flying > 0 {
		f.launch(f.receive(<-f.answers))
	}
	return err
}

// turn does what is next: it waits for jobs, asks for some, or takes what was
// brought.
func (f *fetcher) turn(stop context.Context) error {
	if f.flying == 0 && !f.ask {
		ready, err := f.wait(stop)
		f.ask = ready && err == nil
		return f.judge(stop, err)
	}
	if n := f.room(stop); n > 0 {
		f.send(n)
		return nil
	}
	var freed signal // if room for another Reserve is what is missing
	if f.flying == 1 && f.backlog {
		freed = f.table.freed
	}
	select {
	case a := <-f.answers:
		return f.take(stop, a)
	case <-freed:
		return nil
	case <-stop.Done():
		return nil
	}
}

// room is how many jobs the next Reserve is to ask for; 0: none for now.
func (f *fetcher) room(stop context.Context) int {
	f.limit.update()
	_, half := f.table.inUse()
	if half >= manySlots {
		half = (half + 1) / 2
	}
	switch {
	case f.flying == 0 && f.backlog:
		return min(f.awaitRoom(stop), half)
	case f.flying == 0:
		return f.awaitRoom(stop)
	case f.flying == 1 && f.backlog:
		if n := min(half, duly.MaxBatch); f.table.roomFor(n) >= n {
			return n
		}
	}
	return 0
}

// take looks at what a Reserve has brought and puts it to work.
func (f *fetcher) take(stop context.Context, a answer) error {
	n := len(a.got)
	switch {
	case a.err != nil:
		f.failed, f.ask, f.backlog = a.err, true, false
	default:
		f.backlog = n == a.asked
		// After a few jobs a Wait is cheaper than a Reserve that may find
		// nothing; it answers at once if there is more. After many it is not.
		f.ask = f.backlog || n > len(a.queues)
	}
	f.launch(f.receive(a))
	if f.flying > 0 {
		return nil // that is not to be kept waiting by a pause
	}
	err := f.failed
	f.failed = nil
	if fatal := f.judge(stop, err); fatal != nil {
		return fatal
	}
	f.countEmpties(stop, err == nil && n == 0)
	return nil
}

// judge answers an error that will not pass, and pauses after one that may.
func (f *fetcher) judge(stop context.Context, err error) error {
	switch {
	case err == nil:
		f.failures = 0
		f.groups.here()
		return nil
	case stop.Err() != nil:
		return nil
	case fatal(err):
		return err
	}
	f.failures++
	switch {
	case errors.Is(err, duly.ErrNotFound):
		return f.gone(stop, err)
	case errors.Is(err, duly.ErrConflict) && f.failures == mostConflicts:
		return err
	}
	f.store.rest(stop, f.failures, err)
	return nil
}

// gone creates the groups again, one of which is not there any more. A worker that
// creates none waits until somebody does.
func (f *fetcher) gone(stop context.Context, err error) error {
	if f.failures == 1 {
		f.log.Error("a group that is handled does not exist", "error", err)
	}
	if f.groups == nil || f.failures > 1 { // it may be a group without From that is missing
		f.store.rest(stop, f.failures, err)
	}
	if f.groups == nil {
		return nil
	}
	return f.groups.create(stop)
}

// countEmpties slows down when Wait goes on promising what Reserve does not
// find.
func (f *fetcher) countEmpties(stop context.Context, empty bool) {
	if !empty {
		f.empties = 0
		return
	}
	if f.empties++; f.empties > emptyHanded {
		f.store.rest(stop, f.empties-emptyHanded, nil)
	}
}

func (f *fetcher) wait(stop context.Context) (ready bool, err error) {
	p := duly.WaitParams{Namespace: f.cfg.Namespace, Queues: f.order.next(), Timeout: waitTime}
	if f.groups != nil {
		p.Timeout = groupWaitTime
	}
	err = f.store.call(stop, opWait, p.Timeout+f.cfg.CallTimeout, func(ctx context.Context) (err error) {
		ready, err = f.engine.Wait(ctx, p)
		return err
	})
	return ready, err
}

// awaitRoom waits for free slots and returns how many there are; 0 when stop has
// ended.
func (f *fetcher) awaitRoom(stop context.Context) int {
	for stop.Err() == nil {
		if f.table.roomFor(1) > 0 {
			if n := batch.Gather(f.cfg.Concurrency, f.table.room); n > 0 {
				return n
			}
			continue // the limit was lowered meanwhile, so the room has to be awaited again
		}
		select {
		case <-f.table.freed:
		case <-stop.Done():
		}
	}
	return 0
}

// answer is what a Reserve has brought.
type answer struct {
	queues []string // in the order in which they were asked
	asked  int
	sent   moment
	took   time.Duration
	got    []duly.Delivery
	err    error
}

// send sends a Reserve for n slots, which are taken from now on. It is not cut
// short when the worker stops.
func (f *fetcher) send(n int) {
	f.flying++
	f.table.ask(n)
	a := answer{queues: f.order.next(), asked: n, sent: f.keeper.now()}
	go func() {
		p := duly.ReserveParams{Namespace: f.cfg.Namespace, Queues: a.queues, Max: n, Lease: f.cfg.Lease, Consumer: f.consumer}
		a.err = f.store.call(f.base, opReserve, f.cfg.CallTimeout, func(ctx context.Context) (err error) {
			a.got, err = f.engine.Reserve(ctx, p)
			return err
		})
		a.took = f.clock.Mono() - a.sent.mono
		f.answers <- a
	}()
}

// receive takes note of a Reserve's end.
func (f *fetcher) receive(a answer) ([]duly.Delivery, moment) {
	f.flying--
	f.table.ask(-a.asked)
	if a.err != nil {
		return nil, a.sent
	}
	if f.cfg.Observer.Reserved != nil {
		f.cfg.Observer.Reserved(len(a.got), a.took)
	}
	f.order.took(a.queues, a.got)
	return a.got, a.sent
}

// launch starts a handler for each delivery.
func (f *fetcher) launch(got []duly.Delivery, sent moment) {
	if len(got) == 0 {
		return
	}
	flights := make([]*flight, 0, len(got))
	now := f.keeper.now()
	var block []flight
	for i := range got {
		if len(block) == 0 {
			block = make([]flight, min(flightBlock, len(got)-i))
		}
		fl := &block[0]
		block = block[1:]
		f.prepare(fl, &got[i], sent)
		if fl.route == nil { // an engine that does not keep to what it was asked
			f.log.Error("a job of a queue that was not asked for is given back", "queue", fl.delivery.Queue, "job", fl.delivery.ID)
			f.table.give(fl, duly.SettleRequest{As: duly.Release})
			continue
		}
		if fl.lease.lost(now) { // the answer took so long that it may be somebody else's
			f.table.give(fl, duly.SettleRequest{As: duly.Release})
			continue
		}
		flights = append(flights, fl)
	}
	if !f.table.start(flights) {
		for _, fl := range flights {
			f.table.give(fl, duly.SettleRequest{As: duly.Release})
		}
		return
	}
	f.handleAll(flights)
}

// handleAll starts the handlers. Deliveries for batches go to their gatherers, those
// of one queue together.
func (f *fetcher) handleAll(flights []*flight) {
	var batches map[*gatherer][]*flight
	for _, fl := range flights {
		if fl.route.batch == nil {
			go f.handle(fl)
			continue
		}
		if batches == nil {
			batches = map[*gatherer][]*flight{}
		}
		g := f.gatherers[fl.route.queue]
		batches[g] = append(batches[g], fl)
	}
	for g, some := range batches {
		g.add(some)
	}
}

// flightBlock is how many flights are made at a time: one that lasts keeps the
// memory of as many.
const flightBlock = 16

func (f *fetcher) prepare(fl *flight, d *duly.Delivery, sent moment) {
	fl.delivery.Delivery, fl.route, fl.sent = *d, f.routes[d.Queue], sent
	if fl.route == nil {
		fl.route = f.every
	}
	if fl.route != nil {
		fl.handler = fl.route.handlerOf(d)
	}
	// From when it stands in the table it may be cancelled, also before its
	// goroutine has begun.
	ctx, cancel := context.WithCancelCause(f.values)
	fl.ctx, fl.cancel = jobContext{Context: ctx, delivery: &fl.delivery}, cancel
	fl.delivery.ctx = &fl.ctx
	// What was asked for, not LeaseEnd - Now: after a step back of the engine's
	// clock Now is the due moment, which may lie behind the lease.
	length := cmp.Or(f.cfg.Lease, d.Lease)
	fl.lease.give(sent, length, f.cfg.margin(length))
	fl.lease.length = length
	fl.lease.holdEnd = never
	if f.cfg.MaxHold > 0 {
		fl.lease.holdEnd = sent.mono + max(f.cfg.MaxHold, length)
	}
}
