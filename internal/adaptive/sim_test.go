package adaptive

import (
	"container/heap"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"time"

	"github.com/dulymq/duly"
)

// simulation is a queue with one shard, its workers and the service that they call. The clock jumps
// from event to event.
type simulation struct {
	cfg     Config
	state   State
	slots   int // number of handlers that can run concurrently
	service service
	now     int64 // current time in ms
	events  events
	seq     int

	ready  int // number of jobs that wait
	leased int
	closed int64  // the end of the closing
	number uint64 // of the last delivery
	tokens float64
	filled int64 // time up to which the bucket was filled
	wake   int64 // time of the next attempt to reserve

	tries, probes, released int
	answers                 []answer
	raised                  int // number of increases of the factor
}

// answer is one answer of the service.
type answer struct {
	at    int64
	class Class
}

// service answers a call at a time. It returns the outcome and how long the call took.
type service interface {
	call(now int64) (outcome, time.Duration)
}

// outcome is the end of a delivery, and for how long an overload closes the shard.
type outcome struct {
	Class Class
	Slow  time.Duration
}

func newSimulation(cfg Config, slots, jobs int, s service) *simulation {
	sim := &simulation{cfg: cfg, state: New(), slots: slots, service: s, ready: jobs, now: 1_000_000, wake: math.MaxInt64}
	sim.tokens, sim.filled = float64(sim.state.Burst(cfg)), sim.now
	return sim
}

// event is something that happens at a time.
type event struct {
	at  int64
	seq int
	do  func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].seq < e[j].seq
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

func (s *simulation) at(at int64, do func()) {
	s.seq++
	heap.Push(&s.events, event{at, s.seq, do})
}

// run lets the clock run for a time.
func (s *simulation) run(d time.Duration) {
	end := s.now + milli(d)
	s.reserve()
	for len(s.events) > 0 && s.events[0].at <= end {
		e := heap.Pop(&s.events).(event)
		s.now = e.at
		e.do()
	}
	s.now = end
}

// push adds jobs.
func (s *simulation) push(n int) {
	s.ready += n
	s.reserve()
}

// reserve delivers jobs as the limits allow. If they are closed, it runs again when they open.
func (s *simulation) reserve() {
	for s.ready > 0 && s.leased < s.slots {
		if s.closed > s.now {
			s.reserveAt(s.closed)
			return
		}
		if s.state.Most() == 0 {
			return
		}
		if limit := s.state.MaxLeased(s.cfg); limit > 0 && s.leased >= limit {
			return
		}
		if s.cfg.Rate > 0 {
			s.fill()
			if s.tokens < 1 {
				s.reserveAt(s.now + int64(math.Ceil((1-s.tokens)/s.state.Rate(s.cfg)*1000)))
				return
			}
			s.tokens--
		}
		s.deliver()
	}
}

func (s *simulation) reserveAt(at int64) {
	if at >= s.wake {
		return
	}
	s.wake = at
	s.at(at, func() {
		if s.wake == at {
			s.wake = math.MaxInt64
		}
		s.reserve()
	})
}

// fill fills the token bucket with the current rate.
func (s *simulation) fill() {
	s.tokens = min(s.tokens+s.state.Rate(s.cfg)*float64(s.now-s.filled)/1000, float64(s.state.Burst(s.cfg)))
	s.filled = s.now
}

func (s *simulation) deliver() {
	s.number++
	job := numbered(s.number)
	s.state.Deliver(s.cfg, Moment{s.now, s.leased}, job)
	s.ready--
	s.leased++
	if s.state.ProbeIsOut() {
		s.probes++
	}
	o, took := s.service.call(s.now)
	s.at(s.now+milli(took), func() { s.settle(job, o) })
}

// numbered returns the number of the nth job, from 1.
func numbered(n uint64) (number duly.Number) {
	binary.BigEndian.PutUint64(number[8:], n)
	return number
}

func (s *simulation) settle(job duly.Number, o outcome) {
	s.fill() // a change of the factor first fills the bucket
	before := s.state.Factor
	closing := s.state.Settle(s.cfg, Moment{s.now, s.leased}, job, o.Class)
	if until := s.now + milli(max(closing, o.Slow)); until > s.now {
		s.closed = max(s.closed, until)
		s.state.Close(s.closed)
	}
	if s.state.Factor > before {
		s.raised++
	}

	s.leased--
	switch o.Class {
	case Failure:
		s.tries++
		s.ready++ // the job is ready at once, because with a backlog its backoff makes no difference
	case Overload:
		s.released++
		s.ready++
	}
	s.answers = append(s.answers, answer{s.now, o.Class})
	s.reserve()
}

// answered returns the answers of a class in the last d.
func (s *simulation) answered(class Class, d time.Duration) int {
	n := 0
	for _, a := range s.answers {
		if a.class == class && a.at > s.now-milli(d) {
			n++
		}
	}
	return n
}

// limited is a service that takes so many calls per second, and refuses more with an
// overload.
type limited struct {
	capacity float64 // capacity in calls per second
	burst    float64
	latency  time.Duration
	tokens   float64
	filled   int64
	random   *rand.Rand
}

func (l *limited) call(now int64) (outcome, time.Duration) {
	l.tokens = min(l.tokens+l.capacity*float64(now-l.filled)/1000, max(l.burst, 1))
	l.filled = now
	if l.tokens < 1 {
		return outcome{Class: Overload}, l.took() / 10 // a refusal is fast
	}
	l.tokens--
	return outcome{Class: Success}, l.took()
}

// took returns a random time between half and one and a half of the latency. Without randomness it
// returns the latency.
func (l *limited) took() time.Duration {
	if l.random == nil {
		return l.latency
	}
	return time.Duration(float64(l.latency) * (0.5 + l.random.Float64()))
}

// windowed is a service that counts the calls of each second separately.
type windowed struct {
	limited
	second, calls int64
}

func (w *windowed) call(now int64) (outcome, time.Duration) {
	if second := now / 1000; second != w.second {
		w.second, w.calls = second, 0
	}
	if w.calls++; float64(w.calls) > w.capacity {
		return outcome{Class: Overload}, w.took() / 10
	}
	return outcome{Class: Success}, w.took()
}

// failing is a service that can be down.
type failing struct {
	limited
	down    *outcome // what it answers, nil while it works
	latency time.Duration
}

func (f *failing) call(now int64) (outcome, time.Duration) {
	if f.down != nil {
		return *f.down, f.latency
	}
	return f.limited.call(now)
}
