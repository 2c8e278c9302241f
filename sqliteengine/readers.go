package sqliteengine

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/sqliteengine/internal/sq"
)

// maxReaders is how many reads run side by side; more wait for their turn.
const maxReaders = 4

// yieldEvery is how many of SQLite's instructions a read runs before it lets other
// goroutines have its processor: some 50 µs.
const yieldEvery = 1000

// readers is the pool of connections that read beside the writer. Each sees the
// file as it was at one commit.
type readers struct {
	gate gate
	long *longReads

	mu   sync.Mutex
	free []*conn
	lent map[*conn]context.CancelFunc // each interrupts what runs there
	turn chan struct{}                // holds a token for each connection in use
	down bool                         // the store is closed, or being opened again
}

// read runs f in a transaction that sees one moment of the file.
func (e *Engine) read(ctx context.Context, f func(c *conn) error) error {
	return e.onReader(ctx, func(ctx context.Context, c *conn) error { return e.snapshot(ctx, c, f) })
}

// errInterrupted ends a read that waited when it was interrupted.
var errInterrupted = errors.New("sqliteengine: the read was interrupted")

// onReader lends f a connection. The context that f gets ends with the caller's,
// and when the store is closed.
func (e *Engine) onReader(asked context.Context, f func(ctx context.Context, c *conn) error) error {
	if err := e.alive(asked); err != nil {
		return err
	}

	select {
	case e.readers.turn <- struct{}{}:
		defer func() { <-e.readers.turn }()
	case <-asked.Done():
		return asked.Err()
	case <-e.stopped:
		return duly.ErrClosed
	}

	ctx, interrupt := context.WithCancel(asked)
	defer interrupt()
	c, err := e.readers.take(e, interrupt)
	if err != nil {
		return storeError(e.cfg.Path, err)
	}

	err = e.lend(ctx, c, f)
	if sq.IsInterrupted(err) || errors.Is(err, errInterrupted) {
		return cmp.Or(e.alive(asked), e.down()) // the caller has gone, or the store
	}
	return storeError(e.cfg.Path, err)
}

// lend runs f on a connection and puts the connection back.
func (e *Engine) lend(ctx context.Context, c *conn, f func(ctx context.Context, c *conn) error) (err error) {
	sound := false // a panic may leave anything behind
	defer func() { e.readers.give(c, sound) }()

	err = interruptible(ctx, c, func(c *conn) error { return f(ctx, c) })
	var broken *sq.Error
	sound = !errors.As(err, &broken)
	return err
}

// interruptPause is between two interrupts: one that comes between two
// statements ends neither.
const interruptPause = 10 * time.Millisecond

// interruptible runs f, and interrupts what it runs once ctx has ended. When it
// returns nobody does so any more.
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
		if close(returned); !stop() {
			<-over
		}
	}()

	return f(c)
}

// snapshot runs f in a read transaction, once no checkpoint waits for reads to
// end.
func (e *Engine) snapshot(ctx context.Context, c *conn, f func(c *conn) error) (err error) {
	if err := e.readers.gate.enter(ctx); err != nil {
		return err
	}
	defer e.readers.gate.leave()

	began := e.begin()
	defer func() { e.observe("read", began) }()
	if _, err := c.stmt("begin_read").Run(); err != nil {
		return err
	}
	defer func() {
		if c.InTx() {
			_, end := c.stmt("commit").Run()
			err = errors.Join(err, end)
		}
	}()
	return f(c)
}

func (r *readers) take(e *Engine, interrupt context.CancelFunc) (*conn, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.down {
		return nil, e.down()
	}
	if n := len(r.free); n > 0 {
		c := r.free[n-1]
		r.free = r.free[:n-1]
		r.lent[c] = interrupt
		return c, nil
	}
	c, err := e.connect(sq.ReadOnly)
	if err == nil {
		c.YieldEvery(yieldEvery)
		r.lent[c] = interrupt
	}
	return c, err
}

// give puts a connection back, or closes one that is not sound.
func (r *readers) give(c *conn, sound bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.lent, c)
	if r.down || !sound {
		c.close()
		return
	}
	r.free = append(r.free, c)
}

// pause interrupts the reads under way, closes every connection once they have
// ended, and refuses more.
func (r *readers) pause() error {
	r.mu.Lock()
	r.down = true
	for _, interrupt := range r.lent {
		interrupt()
	}

	r.mu.Unlock()
	for range maxReaders {
		r.turn <- struct{}{}
	}
	defer func() {
		for range maxReaders {
			<-r.turn
		}
	}()

	r.mu.Lock()
	defer r.mu.Unlock()
	var err error
	for _, c := range r.free {
		err = errors.Join(err, c.NoCheckpointOnClose(), c.close())
	}

	r.free = nil
	return err
}

// resume lets reads go on.
func (r *readers) resume() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.down = false
}
