package enginetest

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// concurrentMixture runs random operations concurrently. It logs the seed, so that a failure can
// be repeated. The audit after the test checks the counters.
func concurrentMixture(s *scene) {
	seed := rand.Uint64()
	s.Logf("seed %d", seed)
	const actors, rounds = 8, 60
	s.each(actors, func(s *scene, i int) {
		a := actor{s: s, r: rand.New(rand.NewPCG(seed, uint64(i)))}
		for range rounds {
			a.act()
		}
	})
	// Let time pass until delays, leases and expiries have taken effect.
	for range 3 {
		s.conserved()
		s.Clock.Advance(time.Hour)
		s.step()
	}
	s.conserved()
	// Every dead job has used up its tries or was buried.
	for _, j := range s.list(duly.StateDead) {
		if j.LastError != buried && !contract.Exhausted(&j.Job, j.Failures, j.Stalls) {
			s.Errorf("%q is dead after %d of %d failures and %d of %d stalls, want one of them used up",
				j.ID, j.Failures, j.Tries, j.Stalls, j.MaxStalls)
		}
	}
}

// buried is the reason of every Bury by an actor.
const buried = "buried by an actor"

// actor executes random operations. Most errors are expected and ignored.
type actor struct {
	s    *scene
	r    *rand.Rand
	held []duly.Delivery
}

func (a *actor) id() string { return fmt.Sprintf("j%d", a.r.IntN(40)) }

func (a *actor) job() duly.Job {
	// Few IDs and keys, so that the actors often collide.
	j := duly.Job{ID: a.id(), Priority: a.r.IntN(3), Tries: 1 + a.r.IntN(3), Backoff: "fixed:1s",
		Lease: time.Duration(1+a.r.IntN(20)) * time.Second}
	if a.r.IntN(2) == 0 {
		j.Delay = time.Duration(a.r.IntN(5)) * time.Second
	}
	if a.r.IntN(3) == 0 {
		j.OrderKey = fmt.Sprintf("k%d", a.r.IntN(3))
	}

	switch a.r.IntN(6) {
	case 0:
		j.Merge = duly.Merge{Key: fmt.Sprintf("m%d", a.r.IntN(3))}
	case 1:
		j.Merge = duly.Merge{Key: fmt.Sprintf("m%d", a.r.IntN(3)), Mode: duly.MergeReplace}
	case 2:
		j.Merge = duly.Merge{Key: fmt.Sprintf("m%d", a.r.IntN(3)), Until: duly.UntilDone}
	}

	if a.r.IntN(4) == 0 {
		j.TTL = j.Delay + time.Duration(1+a.r.IntN(10))*time.Second
	}
	if a.r.IntN(4) == 0 {
		j.Retain = time.Duration(1+a.r.IntN(10)) * time.Second
	}
	return j
}

func (a *actor) act() {
	s, e := a.s, a.s.Engine
	switch a.r.IntN(12) {
	case 0, 1, 2, 3:
		s.pushed(a.job(), a.job(), a.job())
	// Keep the deliveries for a later settle.
	case 4, 5, 6:
		ds, err := e.Reserve(s.ctx, duly.ReserveParams{Queues: []string{s.queue}, Max: 4})
		if err != nil {
			s.Errorf("reserve returns %v, want no error", err)
		}
		a.held = append(a.held, ds...)
	case 7, 8, 9:
		a.settleSome()
	case 10:
		switch a.r.IntN(5) {
		case 0:
			e.Delete(s.ctx, s.ref(), a.id())
		case 1:
			e.Update(s.ctx, s.ref(), a.id(), duly.Update{Delay: ptr(time.Duration(a.r.IntN(3)) * time.Second),
				Priority: ptr(a.r.IntN(3))})
		case 2:
			e.Promote(s.ctx, s.ref(), a.id())
		case 3:
			e.Requeue(s.ctx, s.ref(), duly.RequeueParams{N: 3})
		case 4:
			e.Purge(s.ctx, s.ref(), duly.States[a.r.IntN(len(duly.States))], 1)
		}

	case 11:
		s.Clock.Advance(time.Duration(a.r.IntN(3000)) * time.Millisecond)
		s.Maintainer.Step(s.ctx, s.ref())
	}
}

func (a *actor) settleSome() {
	for range min(len(a.held), 3) {
		d := a.held[0]
		a.held = a.held[1:]
		o := duly.SettleRequest{Receipt: d.Receipt, As: duly.Settlement(1 + a.r.IntN(4))}
		if o.As == duly.Bury {
			o.Error = buried
		}
		// Another actor may have deleted the job, or the lease has ended.
		if err := a.s.settle(o); err != nil {
			a.s.lost("a settle that came too late", err)
		}
	}
}
