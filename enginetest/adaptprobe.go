package enginetest

import (
	"time"

	"github.com/dulymq/duly"
)

// adaptProbeRunsOut waits for the next probe, before any step has noted the end of the last one.
func adaptProbeRunsOut(s *scene) {
	s.adaptive(0.1, duly.QueueConfig{MaxLeased: 100})
	s.pushAll(durable(2)...)
	s.probing()
	s.Advance(time.Second)
	probe := s.take()
	s.Advance(probe.LeaseEnd.Sub(s.now()) + time.Second)
	s.wait().woke("the closing after the stall is over")
	s.ack(s.take())
	same(s, "the shards in probing", s.stats().Probing, 0)
}

// adaptPassed lets the lease of the probe run out, and the closing after it, before the next
// Reserve. That Reserve notices both, and then the clock steps back into the closing.
func adaptPassed(s *scene) {
	passed := func(s *scene) {
		s.probing()
		s.Advance(time.Second)
		probe := s.take()
		opens := probe.LeaseEnd.Add(time.Second)
		s.Clock.Step(opens.Sub(s.now()) + time.Second)
		s.take()

		s.Clock.Step(-1500 * time.Millisecond)
		s.closedUntil("the clock stepped back into a closing that had passed", time.Time{}, "")
	}
	s.adaptive(0.1, duly.QueueConfig{MaxLeased: 100})
	s.pushAll(durable(2)...)
	passed(s)

	if !s.hasTopics() {
		return
	}
	g := s.onTopic("t").group("g")
	g.adaptive(0.1, duly.QueueConfig{MaxLeased: 100, Defaults: duly.Defaults{Tries: duly.MaxTries}})
	s.onTopic("t").send("a", "b")
	passed(g)
}
