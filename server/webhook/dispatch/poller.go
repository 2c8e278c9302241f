package dispatch

import (
	"context"
	"errors"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
)

const (
	// waitTime is the timeout of one Wait.
	waitTime = time.Minute
	// waitGrace is the time that a Wait may take after its timeout.
	waitGrace = 10 * time.Second
	// The pauses after failed calls.
	minPause, maxPause = 50 * time.Millisecond, time.Second
)

// poller waits for jobs of up to 100 push queues of one namespace, the maximum of one Wait.
type poller struct {
	feed      *feed
	namespace string
	cancel    context.CancelFunc
	// resumed has the error of a Reserve that returned fewer jobs than its maximum, or nil.
	resumed chan error

	// feed.mu guards the fields below.

	queues  []string // replaced, and never modified in place
	offset  int      // index of the first queue in the next Reserve
	isReady bool     // whether the poller is in feed.ready
	stopped bool
	// cancelWait ends the current Wait, because the queues have changed.
	cancelWait context.CancelFunc
}

// startPoller starts a poller. f.mu is held.
func (f *feed) startPoller(ctx context.Context, namespace string, queues []string) *poller {
	ctx, cancel := context.WithCancel(ctx)
	p := &poller{feed: f, namespace: namespace, cancel: cancel, resumed: make(chan error, 1), queues: queues}
	f.running.Go(func() { p.run(ctx) })
	return p
}

// setQueues replaces the queues. f.mu is held.
func (p *poller) setQueues(queues []string) {
	p.queues, p.offset = queues, 0
	// The Wait in flight does not have the new queues, so it is canceled.
	if p.cancelWait != nil {
		p.cancelWait()
	}
}

// stop stops the poller. f.mu is held.
func (p *poller) stop() {
	p.stopped = true
	p.feed.unmarkReady(p)
	p.cancel()
}

// nextQueues returns the queues for one Reserve. Each call rotates the list by one. f.mu is held.
func (p *poller) nextQueues() []string {
	n := len(p.queues)
	queues := append(append(make([]string, 0, n), p.queues[p.offset%n:]...), p.queues[:p.offset%n]...)
	p.offset = (p.offset + 1) % n
	return queues
}

// reserveParams returns the parameters of a Reserve.
func (p *poller) reserveParams(queues []string, n int) duly.ReserveParams {
	return duly.ReserveParams{Namespace: p.namespace, Queues: queues, Max: n, Dispatcher: true}
}

// resume starts the next Wait, after a Reserve that failed or that returned fewer jobs than
// its maximum.
func (p *poller) resume(err error) {
	select {
	case p.resumed <- err:
	default:
	}
}

// run waits for jobs until ctx ends. After Reserve has returned all of them, it waits again.
func (p *poller) run(ctx context.Context) {
	failures := 0
	for ctx.Err() == nil {
		ready, err := p.wait(ctx)
		if err == nil && ready {
			p.feed.markReady(p)
			select {
			// Until Reserve has taken all jobs, a Wait would return at once.
			case err = <-p.resumed:
			case <-ctx.Done():
				return
			}
		}

		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			failures = 0
			continue
		}

		if failures++; failures == 2 { // a single failure is not logged
			p.feed.log.Warn("the push jobs of a namespace could not be reserved; retrying",
				"namespace", p.namespace, "code", string(duly.CodeOf(err)))
		}
		_ = pause(ctx, p.feed.clock, failures) // the loop checks ctx after the pause
	}
}

// pause waits after a failure: twice as long after each, from minPause to maxPause.
func pause(ctx context.Context, c duly.Clock, failures int) error {
	return clock.Sleep(ctx, c, min(minPause<<min(failures-1, 5), maxPause))
}

// wait makes one Wait for the current queues. A canceled Wait is not an error.
func (p *poller) wait(ctx context.Context) (ready bool, err error) {
	f := p.feed
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f.mu.Lock()
	queues := p.queues
	p.cancelWait = cancel
	f.mu.Unlock()

	// A connection that died silently must not block the poller.
	timer := f.clock.AfterFunc(waitTime+waitGrace, cancel)
	defer timer.Stop()
	ready, err = f.engine.Wait(ctx,
		duly.WaitParams{Namespace: p.namespace, Queues: queues, Timeout: waitTime, Dispatcher: true})
	// The queues have changed, or the poller stops.
	if err != nil && ctx.Err() != nil || errors.Is(err, context.Canceled) {
		return false, nil
	}
	return ready, err
}
