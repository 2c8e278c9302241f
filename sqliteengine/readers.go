package sqliteengine

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/sqliteengine/internal/sqliteconn"
)

// maxReaders is the number of reads that run concurrently. Further reads wait.
const maxReaders = 4

// yieldEvery is how many SQLite instructions a read runs before it yields its
// processor to other goroutines: about 50 µs.
const yieldEvery = 1000

// readers is a pool of read connections. Each read sees the file as of one commit.
type readers struct {
	gate gate
	long *longReads

	mu    sync.Mutex
	free  []*conn
	inUse map[*conn]context.CancelFunc // functions that interrupt the reads of the connections in use
	slots chan struct{}                // holds a value for each connection in use
	down  bool                         // whether the store is closed or being reopened
}

// read runs f in a read transaction.
func (e *store) read(ctx context.Context, f func(c *conn) error) error {
	return e.onReader(ctx, func(ctx context.Context, c *conn) error { return e.snapshot(ctx, c, f) })
}

// errInterrupted is the error of a read that was interrupted while it waited.
var errInterrupted = errors.New("sqliteengine: the read was interrupted")

// onReader runs f on a read connection. The context of f ends with the caller's, and
// when the store closes.
func (e *store) onReader(caller context.Context, f func(ctx context.Context, c *conn) error) error {
	if err := e.checkOpen(caller); err != nil {
		return err
	}

	select {
	// The slot comes before the connection, so pause waits for all reads by taking every slot.
	case e.readers.slots <- struct{}{}:
		defer func() { <-e.readers.slots }()
	case <-caller.Done():
		return caller.Err()
	case <-e.stopped:
		return duly.ErrClosed
	}

	// pause must be able to end the read although its caller still waits.
	ctx, interrupt := context.WithCancel(caller)
	defer interrupt()
	c, err := e.readers.acquire(e, interrupt)
	if err != nil {
		return storeError(e.cfg.Path, err)
	}

	err = e.runOn(ctx, c, f)
	if sqliteconn.IsInterrupted(err) || errors.Is(err, errInterrupted) {
		// Either the caller has left, or the store was closed or is being reopened.
		return cmp.Or(e.checkOpen(caller), e.downError())
	}
	return storeError(e.cfg.Path, err)
}

// runOn runs f on a connection and returns the connection to the pool.
func (e *store) runOn(ctx context.Context, c *conn, f func(ctx context.Context, c *conn) error) (err error) {
	// A panic may leave a statement or a transaction open.
	reusable := false
	defer func() { e.readers.release(c, reusable) }()

	err = interruptible(ctx, c, func(c *conn) error { return f(ctx, c) })
	var broken *sqliteconn.Error
	// After an error of SQLite, the state of the connection is uncertain.
	reusable = !errors.As(err, &broken)
	return err
}

// interruptPause is the time between two interrupts. They are repeated because an
// interrupt between two statements has no effect.
const interruptPause = 10 * time.Millisecond

// interruptible runs f and interrupts its statements after ctx has ended. After interruptible has
// returned, no interrupt follows.
func interruptible(ctx context.Context, c *conn, f func(c *conn) error) error {
	returned, over := make(chan struct{}), make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(over)
		for {
			c.Interrupt()
			select {
			case <-returned:
				return
			case <-clock.System().NewTimer(interruptPause).C:
			}
		}
	})
	defer func() {
		// An interrupt after the return would hit the next read on the connection.
		if close(returned); !stop() {
			<-over
		}
	}()

	return f(c)
}

// snapshot runs f in a read transaction. It first waits while a checkpoint keeps the
// gate closed.
func (e *store) snapshot(ctx context.Context, c *conn, f func(c *conn) error) (err error) {
	if err := e.readers.gate.enter(ctx); err != nil {
		return err
	}
	defer e.readers.gate.leave()

	began := e.observeStart()
	defer func() { e.observe("read", began) }()
	if _, err := c.stmt("begin_read").Run(); err != nil {
		return err
	}
	defer func() {
		// A read that stays open would keep the WAL from restarting. After some errors SQLite has
		// already ended the transaction.
		if c.InTx() {
			_, end := c.stmt("commit").Run()
			err = errors.Join(err, end)
		}
	}()
	return f(c)
}

// acquire returns a free connection or opens one.
func (r *readers) acquire(e *store, interrupt context.CancelFunc) (*conn, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.down {
		return nil, e.downError()
	}

	if n := len(r.free); n > 0 {
		c := r.free[n-1]
		r.free = r.free[:n-1]
		r.inUse[c] = interrupt
		return c, nil
	}

	c, err := e.connect(sqliteconn.ReadOnly)
	if err == nil {
		// Only reads yield. The writer does not, because all callers wait for it.
		c.YieldEvery(yieldEvery)
		r.inUse[c] = interrupt
	}

	return c, err
}

// release returns a connection to the pool. If the connection is not reusable, release closes it.
func (r *readers) release(c *conn, sound bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.inUse, c)
	// After pause no connection may return to the pool.
	if r.down || !sound {
		c.close()
		return
	}
	r.free = append(r.free, c)
}

// pause interrupts the running reads, waits for them, closes all connections and
// refuses new reads.
func (r *readers) pause() error {
	r.mu.Lock()
	r.down = true
	for _, interrupt := range r.inUse {
		interrupt()
	}
	// The interrupted reads need the lock to release their connections.
	r.mu.Unlock()

	// The pool is empty once this call holds every token.
	for range maxReaders {
		r.slots <- struct{}{}
	}
	defer func() {
		for range maxReaders {
			<-r.slots
		}
	}()

	r.mu.Lock()
	defer r.mu.Unlock()
	var err error
	for _, c := range r.free {
		// The WAL must not be moved or deleted, even if this is the last connection.
		err = errors.Join(err, c.NoCheckpointOnClose(), c.close())
	}
	r.free = nil
	return err
}

// resume accepts reads again.
func (r *readers) resume() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.down = false
}

// onSnapshot runs f on a snapshot of a queue, or with nil if the queue is unknown. It changes
// nothing and skips unreadable rows.
func (e *store) onSnapshot(ctx context.Context, ref duly.QueueRef, f func(t readTx, q *queue) error) error {
	if err := contract.ValidateQueue(ref); err != nil {
		return err
	}
	ref = ref.Normal()
	return e.read(ctx, func(c *conn) error {
		t, q, err := e.findKnown(c, ref)
		if err != nil {
			return err
		}
		return f(t, q)
	})
}

// onLongSnapshot is like onSnapshot, for a page. f reads until the page or the slice ends, and
// reports whether to continue in another snapshot.
func (e *store) onLongSnapshot(ctx context.Context, ref duly.QueueRef,
	f func(t readTx, q *queue, s *readSlice) (more bool, err error)) error {
	if err := contract.ValidateQueue(ref); err != nil {
		return err
	}
	ref = ref.Normal()
	return e.readLong(ctx, func(c *conn, s *readSlice) (more bool, err error) {
		t, q, err := e.findKnown(c, ref)
		if err != nil {
			return false, err
		}
		return f(t, q, s)
	})
}

// onTopicSnapshot runs f on a consistent snapshot of a topic.
func (e *store) onTopicSnapshot(ctx context.Context, ref duly.QueueRef, f func(t readTx, q topicQueue) error) error {
	if err := contract.ValidateTopic(ref); err != nil {
		return err
	}
	ref = ref.Normal()
	return e.read(ctx, func(c *conn) error {
		t, q, err := e.findQueue(c, ref)
		if err != nil {
			return err
		}
		if q == nil || q.kind != kindTopic {
			return contract.NoTopic(ref)
		}
		return f(t, q.asTopic())
	})
}

// findQueue starts a read transaction and returns it with the queue, or with nil if the queue is
// unknown.
func (e *store) findQueue(c *conn, ref duly.QueueRef) (readTx, *queue, error) {
	t := e.newReadTx(c)
	q, err := t.readQueue(ref)
	return t, q, err
}

// findKnown is like findQueue but with an error for the name of a topic or of an unknown group,
// see tx.known.
func (e *store) findKnown(c *conn, ref duly.QueueRef) (readTx, *queue, error) {
	t, q, err := e.findQueue(c, ref)
	topicRef, _, isGroup := ref.Group()
	switch {
	case err != nil:
	case q != nil && q.kind == kindTopic:
		err = contract.IsTopic(ref)
	case q == nil && isGroup:
		// The error names the missing one: the topic or its group.
		topic, readErr := t.readQueue(topicRef)
		if err = readErr; err == nil && (topic == nil || topic.kind != kindTopic) {
			err = contract.NoTopic(topicRef)
		} else if err == nil {
			err = contract.NoGroup(ref)
		}
	}
	return t, q, err
}

// readTx is a read transaction. It changes nothing and skips unreadable rows.
type readTx struct{ *tx }

// newReadTx returns a read transaction.
func (e *store) newReadTx(c *conn) readTx {
	t := readTx{&tx{conn: c, w: e.w, readOnly: true}}
	t.begin()
	return t
}

// readLong runs f, which reads a page, in one transaction after the other. It stops
// when f returns false or an error.
func (e *store) readLong(ctx context.Context, f func(c *conn, s *readSlice) (more bool, err error)) error {
	l := e.readers.long
	select {
	// There are fewer tokens than readers, so long reads never occupy every reader.
	case l.tokens <- struct{}{}:
		defer func() { <-l.tokens }()
	case <-ctx.Done():
		return ctx.Err()
	case <-e.stopped:
		return e.checkOpen(ctx)
	}

	return e.onReader(ctx, func(ctx context.Context, c *conn) error {
		for {
			s := readSlice{long: l, gate: &e.readers.gate, end: l.clock.Mono() + sliceTime}
			more := false
			err := e.snapshot(ctx, c, func(c *conn) (err error) {
				more, err = f(c, &s)
				return err
			})
			if err != nil || !more {
				return err
			}

			if s.timeUsed && clock.Sleep(ctx, l.clock, restTime) != nil {
				return errInterrupted
			}
		}
	})
}
