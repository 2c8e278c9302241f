package resp

import (
	"context"
	"net"
	"time"
)

// Conn is a client's connection. It serves one caller at a time.
type Conn struct {
	net.Conn
	in *Reader
}

// NewConn returns a Conn over c. Close also closes c.
func NewConn(c net.Conn) *Conn { return &Conn{Conn: c, in: NewReader(c)} }

// Do sends one command and reads its reply. The server's error is returned as an Error. After any
// other error the connection can't be used.
func (c *Conn) Do(ctx context.Context, args ...any) (any, error) {
	defer c.until(ctx)()
	if err := c.Send(args...); err != nil {
		return nil, because(ctx, err)
	}
	v, err := c.Receive()
	return v, because(ctx, err)
}

// Send writes one command without waiting.
func (c *Conn) Send(args ...any) error {
	_, err := c.Write(AppendCommand(nil, args...))
	return err
}

// Receive reads the next value from the server.
func (c *Conn) Receive() (any, error) {
	v, err := c.in.Read()
	if err != nil {
		return nil, err
	}
	if e, ok := v.(Error); ok {
		return nil, e
	}
	return v, nil
}

// until ends reads and writes when the context ends. The returned function stops that.
func (c *Conn) until(ctx context.Context) (release func()) {
	stop := context.AfterFunc(ctx, func() { c.SetDeadline(time.Unix(1, 0)) })
	return func() { stop() }
}

// because returns the context's error if it has caused the timeout err, else err.
func because(ctx context.Context, err error) error {
	if _, answered := err.(Error); err == nil || answered || ctx.Err() == nil {
		return err
	}
	return context.Cause(ctx)
}
