package sqliteengine

import (
	"context"
	"errors"
	"sync"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/sqliteengine/internal/sq"
)

// maxReaders is how many reads run side by side; more wait for their turn.
const maxReaders = 4

// readers is the pool of connections that read beside the writer. Each sees the
// file as it was at one commit.
type readers struct {
	mu   sync.Mutex
	free []*conn
	turn chan struct{} // holds a token for each connection in use
	down bool          // the store is closed, or being opened again
}

// read runs f in a transaction that sees one moment of the file.
func (e *Engine) read(ctx context.Context, f func(c *conn) error) error {
	return e.onReader(ctx, func(c *conn) error {
		began := e.begin()
		err := snapshot(c, f)
		e.observe("read", began)
		return err
	})
}

// onReader lends f a connection.
func (e *Engine) onReader(ctx context.Context, f func(c *conn) error) error {
	if err := e.alive(ctx); err != nil {
		return err
	}
	select {
	case e.readers.turn <- struct{}{}:
		defer func() { <-e.readers.turn }()
	case <-ctx.Done():
		return ctx.Err()
	case <-e.stopped:
		return duly.ErrClosed
	}
	c, err := e.readers.take(e)
	if err != nil {
		return storeError(e.cfg.Path, err)
	}
	err = f(c)
	e.readers.give(c, err)
	return storeError(e.cfg.Path, err)
}

// snapshot runs f in a read transaction.
func snapshot(c *conn, f func(c *conn) error) (err error) {
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

func (r *readers) take(e *Engine) (*conn, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.down {
		return nil, e.down()
	}
	if n := len(r.free); n > 0 {
		c := r.free[n-1]
		r.free = r.free[:n-1]
		return c, nil
	}
	return e.connect(sq.ReadOnly)
}

// give puts a connection back, or closes one that failed.
func (r *readers) give(c *conn, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var broken *sq.Error
	if r.down || errors.As(err, &broken) {
		c.close()
		return
	}
	r.free = append(r.free, c)
}

// pause closes every connection once the reads under way have ended, and
// refuses more.
func (r *readers) pause() error {
	r.mu.Lock()
	r.down = true
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
