package cancel

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/cancels"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/redisengine/internal/codec"
	"github.com/dulymq/duly/redisengine/internal/store"
)

// Reporter reports removed jobs to the workers that run them.
type Reporter struct {
	*store.Store
	hub    cancels.Hub
	outbox outbox
}

// New returns the reporter of a store.
func New(s *store.Store) *Reporter {
	e := &Reporter{Store: s}
	e.hub.Source = e.hear
	return e
}

// Close ends all watches of the process.
func (e *Reporter) Close() { e.hub.Close() }

const (
	// reportEvery is the least time between two messages of one namespace.
	reportEvery = 25 * time.Millisecond
	// reportTimeout bounds a message. A later message would be useless, because the worker's next
	// Extend finds the lease lost.
	reportTimeout = time.Second
	// refusedPause is how long a process publishes nothing after the server refused a message.
	refusedPause = time.Minute
	// maxNamed bounds the jobs that one message names. If a queue has more removed jobs, the
	// message says that any of its leased jobs may be gone.
	maxNamed = 5000
)

// outbox holds the reports of removed jobs that wait to be sent. The first report of a namespace
// is sent at once. Later ones within reportEvery share a message: an ack of the lmstfy-compatible
// API is a Delete, and there may be 100,000 per second.
type outbox struct {
	mu     sync.Mutex
	spaces map[string]*removals // waiting reports by namespace, while a goroutine sends them
	// unheard has the namespaces whose last message reached no watcher. The next message names only
	// the queues, so it is short and a new watcher still learns of the removal.
	unheard map[string]bool
	refused time.Duration // monotonic time before which no message is sent
	warn    sync.Once
}

// removals holds the waiting reports of one namespace.
type removals struct {
	// Removed IDs by queue; nil means that any leased job of the queue may be removed.
	ids   map[string][]string
	named int
}

// Watch calls w with the reports of a namespace until ctx ends. All watchers of a
// namespace share one connection.
func (e *Reporter) Watch(ctx context.Context, namespace string, w contract.CancelWatch) error {
	if err := contract.ValidateNamespace(namespace); err != nil {
		return err
	}
	if err := e.Alive(ctx); err != nil {
		return err
	}
	return e.hub.Watch(ctx, contract.NamespaceOr(namespace), w)
}

// hear subscribes for the hub. A message that can't be read counts as a gap.
func (e *Reporter) hear(ctx context.Context, namespace string, w contract.CancelWatch) error {
	return e.Link.Hear(ctx, e.canceledChannel(namespace), w.Ready, func(message string) {
		list, ok := readCanceled(message)
		if !ok {
			// Ready makes the worker ask about all its leases, which covers the lost message.
			w.Ready()
		}
		for _, c := range list {
			w.Canceled(c)
		}
	})
}

// canceledChannel returns a channel name with the hash tag of the namespace's other keys.
func (e *Reporter) canceledChannel(namespace string) string {
	return e.Prefix + ":{" + namespace + "}:canceled"
}

// Report reports removed jobs of a queue: the jobs with these IDs, or any leased job if ids is
// empty. It does not wait for the server.
func (e *Reporter) Report(ref duly.QueueRef, ids ...string) {
	a := &e.outbox
	a.mu.Lock()
	defer a.mu.Unlock()
	// The server lacks the right to publish, so the report would only cost a round trip.
	if clock.System().Mono() < a.refused {
		return
	}

	r := a.spaces[ref.Namespace]
	// One sender serves a namespace at a time. The first report starts the sender.
	if r == nil {
		r = &removals{}
		if !e.Tasks.Go(func() { e.run(ref.Namespace, r) }) {
			// The engine is closed.
			return
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
	// nil already covers all jobs of the queue.
	case there && before == nil:
		return
	case len(ids) == 0 || r.named > maxNamed:
		before = nil
	default:
		before = append(before, ids...)
	}
	if r.ids == nil {
		r.ids = map[string][]string{}
	}
	r.ids[queue] = before
}

// run sends one message after another until no report waits.
func (e *Reporter) run(namespace string, r *removals) {
	for {
		message := e.outbox.next(namespace, r)
		if message == "" {
			return
		}
		e.publish(namespace, message)

		// Reports that arrive during the pause share the next message.
		timer := clock.System().NewTimer(reportEvery)
		select {
		case <-timer.C:
		// The engine is closing, so the last reports go at once.
		case <-e.Quit.Done():
		}
		timer.Stop()
	}
}

// next packs the waiting reports. If no report waits, it returns "", and the next report starts
// another sender.
func (a *outbox) next(namespace string, r *removals) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(r.ids) == 0 {
		// Deleting under the lock makes the next Report start a sender, so no report waits forever.
		delete(a.spaces, namespace)
		return ""
	}

	var p codec.Packer
	p.Array(len(r.ids))
	for queue, ids := range r.ids {
		if a.unheard[namespace] {
			ids = nil
		}
		p.Array(1 + len(ids))
		p.Text(queue)
		for _, id := range ids {
			p.Text(id)
		}
	}
	r.ids, r.named = nil, 0
	return string(p)
}

// readCanceled reads a message: for each queue an array of the queue's name and the IDs of the
// removed jobs.
func readCanceled(message string) (list []contract.Canceled, ok bool) {
	u := codec.Unpacker{Rest: message}
	for n := u.Array(); n > 0 && !u.Bad; n-- {
		ids := u.Array() - 1
		c := contract.Canceled{Queue: u.Text()}
		for ; ids > 0 && !u.Bad; ids-- {
			c.IDs = append(c.IDs, u.Text())
		}
		list = append(list, c)
	}
	return list, !u.Bad
}

// publish sends a message and records whether a watcher received it. If sending fails, the report
// is lost.
func (e *Reporter) publish(namespace, message string) {
	ctx, cancel := context.WithTimeout(e.Ctx, reportTimeout)
	defer cancel()
	msg, err := e.Link.Do(ctx, e.Link.B().Spublish().Channel(e.canceledChannel(namespace)).Message(message).Build())

	a := &e.outbox
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case duly.CodeOf(err) == duly.CodeForbidden:
		a.refused = clock.System().Mono() + refusedPause
		a.warn.Do(func() {
			o := e.Link.Options()
			e.Settings.Logger.Warn("redis: the server refuses to publish removed jobs, so their workers notice it at the "+
				"next extension; "+
				"grant it: ACL SETUSER USER +spublish &"+o.Prefix+":*",
				slog.String("setting", "acl"), slog.String("server", strings.Join(o.Addrs, ",")), slog.String("error", err.Error()))
		})
	// The answer is the number of receivers. Without receivers, the next message names only queues.
	case err == nil && codec.Integer(&msg) == 0:
		a.unheard[namespace] = true
	case err == nil:
		delete(a.unheard, namespace)
	}
}
