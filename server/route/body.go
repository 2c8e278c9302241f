package route

import (
	"context"
	"errors"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/wire"
)

// free is the size up to which a body, or an answer, takes nothing of its budget.
const free = 64 << 10

// weight is how much memory a body of n bytes may need while it is read and
// worked on: itself, its text, and what is made of that.
const weight = 3

// patience is how long a piece of a body may take: 16 KiB a second. A slower call
// may be cut while another one waits for memory.
const patience = 2 * time.Second

// Body reads the request's body whole, within the route's bound and at no less
// than the least rate. It answers [duly.ErrTooLarge], or [duly.ErrInvalid] for
// a body that came too slowly or not whole.
func (c *Call) Body() (string, error) {
	defer c.putBack()
	if err := c.read(); err != nil {
		return "", err
	}
	if len(c.pieces) == 0 {
		return string(c.in), nil
	}
	var b strings.Builder
	b.Grow(c.length())
	b.Write(c.in)
	for _, p := range c.pieces {
		b.Write(p)
	}
	return b.String(), nil
}

// BodyBytes is [Call.Body] as bytes of the caller's own; never nil.
func (c *Call) BodyBytes() ([]byte, error) {
	defer c.putBack()
	if err := c.read(); err != nil {
		return nil, err
	}
	b := append(make([]byte, 0, c.length()), c.in...)
	for _, p := range c.pieces {
		b = append(b, p...)
	}
	return b, nil
}

// Read reads the request's body by a reader of package wire.
func Read[T any](c *Call, read func(text string) (T, error)) (T, error) {
	text, err := c.Body()
	if err != nil {
		var none T
		return none, err
	}
	return read(text)
}

// length is how much was read, in bytes.
func (c *Call) length() int {
	n := len(c.in)
	for _, p := range c.pieces {
		n += len(p)
	}
	return n
}

// read reads the body into the buffer that is kept for the next call, and what
// has no room there into pieces.
func (c *Call) read() error {
	limit := c.route.MaxBody
	n := c.R.ContentLength
	c.in = c.in[:0]
	switch {
	case n == 0:
		return nil
	case n > limit:
		c.bodyRead = true
		return duly.TooLarge("request", "has %d bytes, may have at most %d", n, limit)
	}
	return c.readBody(limit)
}

func (c *Call) readBody(limit int64) error {
	rc := http.NewResponseController(c.W)
	begin := clock.Monotonic()
	until := func(d time.Duration) time.Time { return clock.Deadline(begin + c.host.live().Grace + d) }
	if c.R.Header.Get("Expect") != "" {
		_ = rc.SetWriteDeadline(until(0)) // of the 100 Continue
	}
	body := c.R.Body
	if c.R.ContentLength < 0 {
		body = http.MaxBytesReader(c.W, body, limit)
	}

	c.sends = true
	defer func() { c.bodyRead = true }()
	for total := 0; ; {
		room, err := c.place(total)
		if err != nil {
			return err
		}

		// Where nothing can be set, as in a test without a connection, nothing has
		// to be. A cut sets its mark first and then an earlier deadline, so it is
		// seen here or ends the read.
		timed := rc.SetReadDeadline(until(time.Duration(total)*time.Second/minRate)) == nil
		if c.cut.Load() {
			return c.tooSlow()
		}
		k, err := body.Read((*room)[len(*room):cap(*room)])
		*room = (*room)[:len(*room)+k]
		total += k
		if err == nil {
			continue
		}

		if c.share.account != nil {
			c.host.requests.busy(&c.share)
		}
		if timed {
			_ = rc.SetReadDeadline(time.Time{})
		}
		return c.bodyEnd(err)
	}
}

// place is where the next bytes of the body go, total were read before. A
// caller holds memory for what it has sent and not for what it announces. Up to
// the free size that is the call's own buffer, which grows by doubling. Beyond
// it there are pieces, for which the budget is asked. A call that waits for
// more fails after the grace, which returns what it has.
func (c *Call) place(total int) (*[]byte, error) {
	if len(c.pieces) == 0 {
		if len(c.in) < cap(c.in) {
			return &c.in, nil
		}
		if total < free {
			c.in = append(make([]byte, 0, c.more(total)), c.in...)
			return &c.in, nil
		}
		c.share.owner, c.share.cut = c.owner(), c.cutBody
	} else if last := &c.pieces[len(c.pieces)-1]; len(*last) < cap(*last) {
		return last, nil
	}

	if !c.host.requests.try(&c.share, pieceSize*weight) && !c.await(pieceSize*weight) {
		return nil, noMemory("requests")
	}
	c.pieces = append(c.pieces, c.host.pieces.get())
	c.host.requests.slowAt(&c.share, clock.Monotonic()+patience)
	return &c.pieces[len(c.pieces)-1], nil
}

// owner names the accounts that the call's memory counts under, from the top: the
// token's namespace and the token. A token for all namespaces has an account
// for each of those that it is used for. All callers without a token share one.
func (c *Call) owner() owner {
	switch p := c.pass; {
	case p == nil:
		return owned("")
	case p.Token.Namespace == duly.AllNamespaces:
		return owned(p.Token.Namespace, p.Key(), c.Namespace)
	default:
		return owned(p.Token.Namespace, p.Key())
	}
}

// await waits for n bytes of the budget, no longer than the grace.
func (c *Call) await(n int64) bool {
	ctx, cancel := context.WithTimeout(c.R.Context(), c.host.live().Grace)
	defer cancel()
	return c.host.requests.take(ctx, &c.share, n) == nil
}

// cutBody makes the read of the body fail.
func (c *Call) cutBody() {
	c.cut.Store(true)
	_ = http.NewResponseController(c.W).SetReadDeadline(clock.Deadline(clock.Monotonic()))
}

// tooSlow returns the error of a call that was cut.
func (c *Call) tooSlow() error {
	c.Log().Info("a request came slowly while others waited for its memory; it was cut", "bytes", c.length())
	return wire.Own(&duly.Error{Code: duly.CodeUnavailable, RetryAfter: retryAfter,
		Message: "the request came slowly while others waited for memory; send it again, or less at a time"})
}

// more is how large the call's own buffer becomes. It has room for one byte more
// than the body, so that the end is seen.
func (c *Call) more(total int) int64 {
	size := min(max(2*int64(total), 1<<10), free)
	if n := c.R.ContentLength; n >= 0 && n < free {
		size = n + 1
	}
	return size
}

// putBack gives the pieces to the next call.
func (c *Call) putBack() {
	for _, p := range c.pieces {
		c.host.pieces.put(p)
	}
	c.pieces = nil
}

// collect is called with what a long body has held of the budget, before that is
// given back. The collector waits until there is as much garbage as there is
// memory in use; what long bodies leave behind would so be worth several budgets.
// So it runs once they have used one up.
func (h *Host) collect(held int64) {
	if h.held.Add(held) >= h.Memory {
		h.held.Store(0)
		runtime.GC()
	}
}

// pieceSize is in bytes. A body holds at most one piece more than has arrived.
const pieceSize = 32 << 10

// pieces are used again and again: large bodies would else be the garbage that
// a server has most of.
type pieces struct {
	mu   sync.Mutex
	list [][]byte
}

// mostPieces is how many are kept: as many as are ever in use with a server's
// default budget.
const mostPieces = 512

func (p *pieces) get() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := len(p.list) - 1
	if last < 0 {
		return make([]byte, 0, pieceSize)
	}
	b := p.list[last]
	p.list = p.list[:last]
	return b
}

func (p *pieces) put(b []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.list) < mostPieces {
		p.list = append(p.list, b[:0])
	}
}

func (c *Call) bodyEnd(err error) error {
	if err == io.EOF {
		c.sends = false
		return nil
	}
	if c.cut.Load() {
		return c.tooSlow()
	}
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return duly.TooLarge("request", "has more than %d bytes", tooLarge.Limit)
	}
	var t interface{ Timeout() bool }
	if errors.As(err, &t) && t.Timeout() {
		c.problemStatus = http.StatusRequestTimeout
		return duly.Invalid("request", "came too slowly: its body must arrive at %d bytes a second after %s", minRate, c.host.live().Grace)
	}
	return duly.Invalid("request", "ended before its body was whole")
}
