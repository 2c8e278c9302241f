package dispatch

import (
	"context"
	"errors"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
)

const (
	// waitTime bounds one Wait.
	waitTime = time.Minute
	// callTime bounds what a Wait may take beyond that.
	callTime = 10 * time.Second
	// The pauses of a lane whose calls fail.
	firstPause, longestPause = 50 * time.Millisecond, time.Second
)

// lane waits for jobs of up to 100 push queues of one namespace, the most that one
// Wait can name.
type lane struct {
	feed      *feed
	namespace string
	cancel    context.CancelFunc
	// asked has the answer of a Reserve that found less than it asked for.
	asked chan error

	// What follows is guarded by feed.mu.

	queues  []string // replaced, never changed
	first   int      // of the queues, in the next Reserve
	isReady bool     // it is in feed.ready
	ended   bool
	// cut ends the Wait under way, because the queues have changed.
	cut context.CancelFunc
}

// open starts a lane. f.mu is held.
func (f *feed) open(ctx context.Context, namespace string, queues []string) *lane {
	ctx, cancel := context.WithCancel(ctx)
	l := &lane{feed: f, namespace: namespace, cancel: cancel, asked: make(chan error, 1), queues: queues}
	f.running.Go(func() { l.run(ctx) })
	return l
}

// change replaces the queues. f.mu is held.
func (l *lane) change(queues []string) {
	l.queues, l.first = queues, 0
	if l.cut != nil {
		l.cut()
	}
}

// end stops the lane. f.mu is held.
func (l *lane) end() {
	l.ended = true
	l.feed.unmark(l)
	l.cancel()
}

// turn returns the queues for one Reserve. Each of them is first in turn. f.mu is held.
func (l *lane) turn() []string {
	n := len(l.queues)
	queues := append(append(make([]string, 0, n), l.queues[l.first%n:]...), l.queues[:l.first%n]...)
	l.first = (l.first + 1) % n
	return queues
}

func (l *lane) reserve(queues []string, n int) duly.ReserveParams {
	return duly.ReserveParams{Namespace: l.namespace, Queues: queues, Max: n, Dispatcher: true}
}

// ask lets the lane wait again, after a Reserve that found less than it asked for, or
// that has failed.
func (l *lane) ask(err error) {
	select {
	case l.asked <- err:
	default:
	}
}

// run waits for jobs, and again whenever a Reserve has taken all, until ctx ends.
func (l *lane) run(ctx context.Context) {
	failures := 0
	for ctx.Err() == nil {
		ready, err := l.wait(ctx)
		if err == nil && ready {
			l.feed.mark(l)
			select {
			case err = <-l.asked:
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
		if failures++; failures == 2 { // one failure is a hiccup of the network
			l.feed.log.Warn("push jobs of a namespace can't be reserved; trying again", "namespace", l.namespace, "code", string(duly.CodeOf(err)))
		}
		_ = clock.Sleep(ctx, l.feed.clock, min(firstPause<<min(failures-1, 5), longestPause)) // the loop looks at ctx
	}
}

// wait makes one Wait for the queues of now. One that was cut is no failure.
func (l *lane) wait(ctx context.Context) (ready bool, err error) {
	f := l.feed
	ctx, cut := context.WithCancel(ctx)
	defer cut()
	f.mu.Lock()
	queues := l.queues
	l.cut = cut
	f.mu.Unlock()

	late := f.clock.AfterFunc(waitTime+callTime, cut)
	defer late.Stop()
	ready, err = f.engine.Wait(ctx, duly.WaitParams{Namespace: l.namespace, Queues: queues, Timeout: waitTime, Dispatcher: true})
	if err != nil && ctx.Err() != nil || errors.Is(err, context.Canceled) {
		return false, nil
	}
	return ready, err
}
