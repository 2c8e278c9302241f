package sqliteengine

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/cancels"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/schedule"
)

// store is the open file: the writer, the readers, and the state that they share.
type store struct {
	cfg      Config
	layout   layout
	lock     *os.File
	inbox    inbox
	notifier *notifier
	readers  readers
	w        *writer

	tokenWatchers tokenWatchers
	cancels       cancels.Hub
	tokenUsage    tokenUsage

	consumers consumers
	firing    *schedule.Firing

	closing  atomic.Bool
	diskFull atomic.Bool // whether the disk is full, so that new jobs are refused
	once     sync.Once
	stopped  chan struct{} // closed when the writer has returned
	err      error         // the error that Close returns
}

// checkOpen returns an error if ctx has ended or the engine is closed.
func (e *store) checkOpen(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if e.closing.Load() {
		return duly.ErrClosed
	}
	return nil
}

// observeStart returns the start time of an observed call, or 0 without an observer.
func (e *store) observeStart() time.Duration {
	if e.cfg.Observe == nil {
		return 0
	}
	return clock.Monotonic()
}

// observe reports the duration of a call to the observer.
func (e *store) observe(call string, began time.Duration) {
	if e.cfg.Observe != nil {
		e.cfg.Observe(call, clock.Monotonic()-began)
	}
}

// write runs an operation and waits for its result. If ctx ends first, write returns
// early and the operation may still run.
func (e *store) write(ctx context.Context, o *op) error {
	if err := e.checkOpen(ctx); err != nil {
		return err
	}
	o.Begin(ctx)
	if !e.enqueue(o) {
		return duly.ErrClosed
	}
	return o.Wait()
}

// submit queues an operation without a caller. It returns false if the engine is
// closed.
func (e *store) submit(o *op) bool {
	o.Begin(context.Background())
	return e.enqueue(o)
}

func (e *store) enqueue(o *op) bool {
	ok := e.inbox.Put(o)
	if ok {
		e.inbox.signal()
	}
	return ok
}

// change runs a small operation that needs no disk space.
func (e *store) change(ctx context.Context, run func(t *tx) error) error {
	return e.write(ctx, &op{Call: items(1), run: run})
}

// changeWithSpace runs a small operation that needs disk space.
func (e *store) changeWithSpace(ctx context.Context, n spaceClass, run func(t *tx) error) error {
	return e.write(ctx, &op{Call: items(1), run: run, space: n})
}

// onJob runs an operation on one unexpired job.
func (e *store) onJob(ctx context.Context, ref duly.QueueRef, id string, n spaceClass,
	run func(t *tx, j *job) error) error {
	if err := contract.ValidateID(id); err != nil {
		return err
	}
	return e.onQueue(ctx, ref, n, func(t *tx, q *queue) error {
		return q.onJob(t, ref, id, run)
	})
}

// onJob runs an operation on the unexpired job with an ID. q is nil for an unknown queue.
func (q *queue) onJob(t *tx, ref duly.QueueRef, id string, run func(t *tx, j *job) error) error {
	if q == nil {
		return contract.NotFound(ref, id)
	}
	j, err := q.findJob(t, id)
	if err != nil {
		return err
	}
	if j == nil {
		return q.notFound(t, id)
	}
	return run(t, j)
}

// onQueue runs an operation on one queue, or with nil if the queue is unknown.
func (e *store) onQueue(ctx context.Context, ref duly.QueueRef, n spaceClass, run func(t *tx, q *queue) error) error {
	if err := contract.ValidateQueue(ref); err != nil {
		return err
	}
	ref = ref.Normal()
	return e.changeWithSpace(ctx, n, func(t *tx) error {
		if err := t.checkKnown(ref); err != nil {
			return err
		}
		return run(t, t.queue(ref))
	})
}

// onTopic runs an operation on one topic.
func (e *store) onTopic(ctx context.Context, ref duly.QueueRef, n spaceClass,
	run func(t *tx, q topicQueue) error) error {
	if err := contract.ValidateTopic(ref); err != nil {
		return err
	}
	return e.changeWithSpace(ctx, n, func(t *tx) error {
		q, err := t.topic(ref.Normal())
		if err != nil {
			return err
		}
		return run(t, q)
	})
}

// onGroup runs an operation on one group.
func (e *store) onGroup(ctx context.Context, ref duly.QueueRef, n spaceClass,
	run func(t *tx, q groupQueue, topic topicQueue) error) error {
	if err := contract.ValidateGroup(ref); err != nil {
		return err
	}
	return e.changeWithSpace(ctx, n, func(t *tx) error {
		if err := t.checkKnown(ref.Normal()); err != nil {
			return err
		}
		q := t.queue(ref.Normal())
		return run(t, q.asGroup(), q.asGroup().topic(t))
	})
}

// namePage returns a page of names from a statement.
func (e *store) namePage(ctx context.Context, p duly.PageParams, statement, namespace string) (
	page duly.NamePage, err error,
) {
	if err := contract.ValidateNamePage(&p); err != nil {
		return page, err
	}

	err = e.read(ctx, func(c *conn) error {
		s := c.stmt(statement).Text(1, p.Cursor).Int(2, int64(p.Limit)+1)
		if namespace != "" {
			s.Text(3, namespace)
		}
		for {
			row, err := s.Step()
			if err != nil || !row {
				return err
			}
			page.Names = append(page.Names, s.ColText(0))
		}
	})
	if len(page.Names) > p.Limit {
		page.Names = page.Names[:p.Limit]
		page.Next = page.Names[p.Limit-1]
	}

	return page, err
}

// downError returns the error of calls while the store is being reopened.
func (e *store) downError() error {
	return &duly.Error{Code: duly.CodeUnavailable,
		Message: fmt.Sprintf("%s has failed and is being reopened; repeat in a moment", e.cfg.Path)}
}
