package enginetest

import (
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/adaptive"
)

// The texts by which the test finds the lines of a log.
const (
	lineClosed = "a queue is closed"
	lineBegins = "a queue is probing"
	lineEnds   = "a queue is no longer probing"
)

// adaptLogged counts the log lines of each change that is not made by an outcome, on a queue and on a group.
func adaptLogged(s *scene) {
	if s.Logged == nil {
		s.Skip("the suite cannot read the log of the engine")
	}

	// Queues and groups are named after the cases.
	for _, c := range []struct {
		name string
		end  func(s *scene, probe duly.Delivery)
		line string
		with string // a text of the line
	}{
		{"stall-in-a-step", func(s *scene, probe duly.Delivery) { s.stall(probe) }, lineClosed, adaptive.Reason},
		{"stall-in-a-reserve", func(s *scene, probe duly.Delivery) {
			s.Advance(probe.LeaseEnd.Sub(s.now()) + time.Millisecond)
			s.nothing("the probe has stalled")
		}, lineClosed, adaptive.Reason},
		{"release", func(s *scene, probe duly.Delivery) { s.release(probe) }, lineClosed, adaptive.Reason},
		{"end-of-adapt", func(s *scene, _ duly.Delivery) {
			s.configure(duly.QueueConfig{Adapt: duly.Adapt{Floor: duly.None}})
		}, lineEnds, "factor=1"},
		{"reopen", func(s *scene, _ duly.Delivery) { s.configure(duly.QueueConfig{Reopen: true}) }, lineEnds, "factor=0.1"},
		{"delete", func(s *scene, probe duly.Delivery) {
			if s.ref().IsGroup() {
				s.seek(duly.FromEnd)
				return
			}
			s.must("delete", s.Engine.Delete(s.ctx, s.ref(), probe.ID))
		}, lineClosed, adaptive.Reason},
	} {
		q := s.on(c.name)
		q.adaptive(0.1, duly.QueueConfig{MaxLeased: 100})
		q.pushAll(durable(2)...)
		q.logsOne(c.line, c.with, c.end)

		if s.hasTopics() {
			g := s.onTopic("t").group(c.name)
			g.adaptive(0.1, duly.QueueConfig{MaxLeased: 100, Defaults: duly.Defaults{Tries: duly.MaxTries}})
			s.onTopic("t").send("a", "b")
			g.logsOne(c.line, c.with, c.end)
		}
	}
}

// logsOne ends the first probe of a queue, and checks that the log then has one more line of that kind
// about the queue, which contains a text.
func (s *scene) logsOne(line, with string, end func(s *scene, probe duly.Delivery)) {
	s.Helper()
	lines := func() (n [3]int) {
		for i, text := range []string{lineClosed, lineBegins, lineEnds} {
			n[i] = s.Logged(text, s.ref().Normal().String())
		}
		return n
	}

	before := lines()
	s.probing()
	s.Advance(time.Second)
	before[1]++
	same(s, s.queue+": the lines of closings, begins and ends when probing begins", lines(), before)

	end(s, s.take())
	if line == lineEnds {
		before[2]++
	} else {
		before[0]++
	}
	same(s, s.queue+": the lines of closings, begins and ends after the probe", lines(), before)
	same(s, s.queue+": the lines with "+with, s.Logged(line, s.ref().Normal().String(), with), 1)
	s.must("destroy", s.Engine.Destroy(s.ctx, s.ref()))
}
