package redisengine

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
)

var _ duly.CancelWatcher = (*Engine)(nil)

const (
	// announceEvery is how long reports of one namespace gather after a message.
	announceEvery = 25 * time.Millisecond
	// announceWithin bounds a message. A late one is of no use: the worker's next
	// Extend finds the lease lost.
	announceWithin = time.Second
	// refusedFor is how long a process sends no message after one was refused.
	refusedFor = time.Minute
	// mostNamed bounds the jobs that one message names. Of a queue with more, it
	// says that any leased job may be gone.
	mostNamed = 5000
)

// announcer publishes which jobs were removed. The first report of a namespace is
// sent at once, and those that come within announceEvery go together: an ack of the
// lmstfy-compatible API is a Delete, and there may be 100,000 in a second.
type announcer struct {
	mu     sync.Mutex
	spaces map[string]*removals // by namespace, while a goroutine sends for it
	// unheard are the namespaces whose last message reached nobody. The next one
	// names the queues alone: it is short, and still reaches a new watcher.
	unheard map[string]bool
	refused time.Duration // no message is sent before, on the monotonic clock
	warn    sync.Once
}

// removals are the reports of one namespace that wait.
type removals struct {
	ids   map[string][]string // by queue; nil: any leased job of it
	named int
}

// WatchCancels implements duly.CancelWatcher. All watchers of a namespace share one
// connection.
func (e *Engine) WatchCancels(ctx context.Context, namespace string, w duly.CancelWatch) error {
	if err := duly.ValidateNamespace(namespace); err != nil {
		return err
	}
	if err := e.alive(ctx); err != nil {
		return err
	}
	return e.cancels.Watch(ctx, duly.NamespaceOr(namespace), w)
}

// hearCancels is the source of e.cancels. A message that can't be read counts as
// a gap.
func (e *Engine) hearCancels(ctx context.Context, namespace string, w duly.CancelWatch) error {
	return e.link.Hear(ctx, e.canceledChannel(namespace), w.Ready, func(message string) {
		list, ok := readCanceled(message)
		if !ok {
			w.Ready()
		}
		for _, c := range list {
			w.Canceled(c)
		}
	})
}

// canceledChannel has the hash tag of the namespace's other keys.
func (e *Engine) canceledChannel(namespace string) string {
	return e.prefix + ":{" + namespace + "}:canceled"
}

// announce reports removed jobs of a queue: those with these IDs, or any leased
// one if there are none. It does not wait for the server.
func (e *Engine) announce(ref duly.QueueRef, ids ...string) {
	a := &e.announcer
	a.mu.Lock()
	defer a.mu.Unlock()
	if clock.System().Mono() < a.refused {
		return
	}

	r := a.spaces[ref.Namespace]
	if r == nil {
		r = &removals{}
		if !e.work.begin(func() { e.sendRemovals(ref.Namespace, r) }) {
			return // the engine is closed
		}
		if a.spaces == nil {
			a.spaces, a.unheard = map[string]*removals{}, map[string]bool{}
		}
		a.spaces[ref.Namespace] = r
	}
	r.add(ref.Name, ids)
}

func (r *removals) add(queue string, ids []string) {
	before, there := r.ids[queue]
	r.named += len(ids)
	switch {
	case there && before == nil:
		return
	case len(ids) == 0 || r.named > mostNamed:
		before = nil
	default:
		before = append(before, ids...)
	}
	if r.ids == nil {
		r.ids = map[string][]string{}
	}
	r.ids[queue] = before
}

// sendRemovals sends one message after the other until no report waits.
func (e *Engine) sendRemovals(namespace string, r *removals) {
	for {
		message := e.announcer.next(namespace, r)
		if message == "" {
			return
		}
		e.publish(namespace, message)

		timer := clock.System().NewTimer(announceEvery)
		select {
		case <-timer.C:
		case <-e.hub.ctx.Done(): // the engine is about to be closed
		}
		timer.Stop()
	}
}

// next packs the reports that wait; "" if there are none, and the next report
// begins another sender.
func (a *announcer) next(namespace string, r *removals) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(r.ids) == 0 {
		delete(a.spaces, namespace)
		return ""
	}

	var p packer
	p.array(len(r.ids))
	for queue, ids := range r.ids {
		if a.unheard[namespace] {
			ids = nil
		}
		p.array(1 + len(ids))
		p.text(queue)
		for _, id := range ids {
			p.text(id)
		}
	}
	r.ids, r.named = nil, 0
	return string(p)
}

// readCanceled reads a message: for each queue an array of its name and the IDs of
// the removed jobs.
func readCanceled(message string) (list []duly.Canceled, ok bool) {
	u := unpacker{rest: message}
	for n := u.array(); n > 0 && !u.bad; n-- {
		ids := u.array() - 1
		c := duly.Canceled{Queue: u.text()}
		for ; ids > 0 && !u.bad; ids-- {
			c.IDs = append(c.IDs, u.text())
		}
		list = append(list, c)
	}
	return list, !u.bad
}

// publish sends a message and notes whether it has reached anybody. Whatever fails,
// a report may be lost.
func (e *Engine) publish(namespace, message string) {
	ctx, cancel := context.WithTimeout(e.ctx, announceWithin)
	defer cancel()
	msg, err := e.link.Do(ctx, e.link.B().Spublish().Channel(e.canceledChannel(namespace)).Message(message).Build())

	a := &e.announcer
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case duly.CodeOf(err) == duly.CodeForbidden:
		a.refused = clock.System().Mono() + refusedFor
		a.warn.Do(func() {
			e.cfg.Logger.Warn("redis: canceled jobs are not reported to the workers that run them, which notice it when they extend the lease",
				slog.String("error", err.Error()))
		})
	case err == nil && integer(&msg) == 0:
		a.unheard[namespace] = true
	case err == nil:
		delete(a.unheard, namespace)
	}
}
