package enginetest

import (
	"context"
	"fmt"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// The tests in this file have many concurrent waiters.

// crowd starts n waits. All of them must block.
func (s *scene) crowd(n int) []*waiter {
	ws := make([]*waiter, n)
	for i := range ws {
		ws[i] = s.begin(duly.MaxWait)
	}
	s.Quiet()
	s.awake(ws, 0, "the queue has no ready job")
	return ws
}

// awake reports an error unless exactly n of the waiters have woken.
func (s *scene) awake(ws []*waiter, n int, why string) {
	s.Helper()
	s.Quiet()
	woken := 0
	for _, w := range ws {
		if w.returned() {
			woken++
			if !w.ready || w.err != nil {
				s.Errorf("a waiter returned %t, %v; want true, nil", w.ready, w.err)
			}
		}
	}
	if woken != n {
		s.Errorf("%d of %d waiters woke, want %d: %s", woken, len(ws), n, why)
	}
}

func waitOnePerJob(s *scene) {
	ws := s.crowd(6)
	s.push(duly.Job{})
	s.awake(ws, 1, "one job was pushed")

	s.take()
	s.pushAll(duly.Job{}, duly.Job{})
	s.awake(ws, 3, "two more were pushed")
	s.takeAll()
	s.awake(ws, 3, "everything was taken")
}

func waitOnePerDue(s *scene) {
	s.pushAll(duly.Job{Delay: time.Minute}, duly.Job{Delay: 2 * time.Minute}, duly.Job{Delay: 2 * time.Minute})
	ws := s.crowd(6)
	s.Advance(time.Minute)
	s.awake(ws, 1, "one job is due")
	s.ack(s.take())
	s.Advance(time.Minute)
	s.awake(ws, 3, "two more are due")
	s.takeAll()
	// Ready jobs that are reserved must not wake further waiters.
	s.Advance(time.Second)
	s.awake(ws, 3, "everything was taken")
}

func waitLeasesNothing(s *scene) {
	s.crowd(3)
	s.push(duly.Job{ID: "x"})
	s.Quiet()
	s.is("x", duly.StateReady)
	s.counted(duly.Counters{Pushed: 1})
	s.sizes(duly.Sizes{Ready: 1})
}

func waitVanished(s *scene) {
	gone, stays := s.wait(), s.wait()
	// The canceled waiter was the first in line.
	gone.end()
	s.push(duly.Job{ID: "x"})
	stays.woke("the other waiter was canceled")
	s.takes("x")
}

func waitManyVanish(s *scene) {
	s.push(duly.Job{ID: "x", Delay: time.Minute})
	ws := s.crowd(20)
	for _, w := range ws[:19] {
		w.end()
	}
	s.Advance(time.Minute)
	ws[19].woke("all other waiters were canceled")
	s.takes("x")
}

// waitPass passes the wake-up of each waiter on to the next one. The clock does not move.
func waitPass(s *scene) {
	p, ok := s.Engine.(contract.Passer)
	if !ok {
		return
	}
	// Neither a waiter nor the queue exists, and Pass must return no error.
	p.Pass(s.ctx, s.namespace, []string{s.queue})
	ws := s.crowd(4)
	s.push(duly.Job{ID: "x"})
	s.awake(ws, 1, "one job was pushed")

	p.Pass(s.ctx, s.namespace, []string{s.queue})
	s.awake(ws, 2, "the first waiter does not reserve")
	ended, cancel := context.WithCancel(s.ctx)
	cancel()
	// A wake-up is passed on even if the caller's context has ended.
	p.Pass(ended, s.namespace, []string{s.queue + "-unknown", s.queue})
	s.awake(ws, 3, "the second waiter was canceled")

	s.takes("x")
	p.Pass(s.ctx, s.namespace, []string{s.queue})
	s.awake(ws, 3, "the job was taken")
}

// waitCrowd uses fewer waiters if each of them is a request to a server.
func waitCrowd(s *scene) {
	n := 10_000
	switch {
	case s.In != nil:
		n = 300
	case s.raced():
		n = 1000
	}
	ws := s.crowd(n)
	s.push(duly.Job{})
	s.awake(ws, 1, "one job was pushed")
	s.takeAll()
	jobs := numbered(100, "j")
	// One waiter per job wakes, and not more.
	s.pushAll(jobs...)
	s.awake(ws, 101, "a hundred more were pushed")
	same(s, "the jobs taken", len(s.takeAll()), 100)

	for _, w := range ws {
		w.cancel()
	}
	for i, w := range ws {
		<-w.done
		if w.err == nil && !w.ready {
			s.Fatal(fmt.Sprintf("waiter %d timed out", i))
		}
	}
}
