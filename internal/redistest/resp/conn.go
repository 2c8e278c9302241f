package resp

import (
	"context"
	"net"
	"time"
)

// Conn is a connection of a client. It serves one caller at a time.
type Conn struct {
	net.Conn
	in *Reader
}

// NewConn speaks over c, which the Conn closes.
func NewConn(c net.Conn) *Conn { return &Conn{Conn: c, in: NewReader(c)} }

// Do sends one command and reads its reply. An error that the server answered
// comes as an Error; after any other error the connection is of no use.
func (c *Conn) Do(ctx context.Context, args ...any) (any, error) {
	defer c.until(ctx)()
	if err := c.Send(args...); err != nil {
		return nil, because(ctx, err)
	}
	v, err := c.Receive()
	return v, because(ctx, err)
}

// Send writes one command and waits for nothing.
func (c *Conn) Send(args ...any) error {
	_, err := c.Write(AppendCommand(nil, args...))
	return err
}

// Receive reads the next value that the server says.
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

// until ends reading and writing with the context; the function it returns
// ends that.
func (c *Conn) until(ctx context.Context) (release func()) {
	stop := context.AfterFunc(ctx, func() { c.SetDeadline(time.Unix(1, 0)) })
	return func() { stop() }
}

// because prefers the context's reason over the time-out that it caused.
func because(ctx context.Context, err error) error {
	if _, answered := err.(Error); err == nil || answered || ctx.Err() == nil {
		return err
	}
	return context.Cause(ctx)
}
