package bench

import (
	"sync/atomic"
	"time"

	"github.com/dulymq/duly/internal/clock"
)

// ticker reports a measurement's progress from a separate goroutine, so that the measuring
// goroutines need not.
type ticker struct {
	report  func(Progress)
	watched atomic.Pointer[watched]
	quit    chan struct{}
	gone    chan struct{}
}

type watched struct {
	at  Progress
	run *run
}

const tickEvery = 100 * time.Millisecond

func tick(clk clock.Clock, report func(Progress)) *ticker {
	t := &ticker{report: report, quit: make(chan struct{}), gone: make(chan struct{})}
	go t.loop(clk)
	return t
}

// watch switches to the progress of another run.
func (t *ticker) watch(at Progress, r *run) {
	at.Total = r.total
	t.watched.Store(&watched{at, r})
}

// end stops the reports and waits for the last report.
func (t *ticker) end() {
	close(t.quit)
	<-t.gone
}

func (t *ticker) loop(clk clock.Clock) {
	defer close(t.gone)
	timer := clk.NewTimer(tickEvery)
	defer timer.Stop()
	for {
		select {
		case <-t.quit:
			return
		case <-timer.C:
		}
		if w := t.watched.Load(); w != nil {
			p := w.at

			// A worker may finish more jobs than the run has asked for.
			p.Done = min(w.run.done.Load(), p.Total)
			t.report(p)
		}
		timer.Reset(tickEvery)
	}
}
