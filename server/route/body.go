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
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/wire"
)

// free is the size up to which a body or an answer needs no memory from its budget.
const free = 64 << 10

// weight is the number of bytes of memory that one byte of a body needs: the body itself, its text,
// and the values that are read from it.
const weight = 3

// chunkTime is the longest time for one chunk of a body, which is 16 KiB a second. A slower call
// may be cut while another one waits for memory.
const chunkTime = 2 * time.Second

// Body reads the whole body of the request. It returns [duly.ErrTooLarge] if it exceeds the route's
// MaxBody, and [duly.ErrInvalid] for a body that is too slow or incomplete.
func (c *Call) Body() (string, error) {
	defer c.putBack()
	if err := c.read(); err != nil {
		return "", err
	}
	if len(c.chunks) == 0 {
		return string(c.in), nil
	}

	var b strings.Builder
	// The buffer is allocated once with the exact size, because the text counts under the same
	// budget.
	b.Grow(c.length())
	b.Write(c.in)
	for _, chunk := range c.chunks {
		b.Write(chunk)
	}
	return b.String(), nil
}

// BodyBytes is like [Call.Body], and returns bytes that the caller may keep. They are never nil.
func (c *Call) BodyBytes() ([]byte, error) {
	defer c.putBack()
	if err := c.read(); err != nil {
		return nil, err
	}
	b := append(make([]byte, 0, c.length()), c.in...)
	for _, chunk := range c.chunks {
		b = append(b, chunk...)
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

// length returns the number of bytes that were read.
func (c *Call) length() int {
	n := len(c.in)
	for _, chunk := range c.chunks {
		n += len(chunk)
	}
	return n
}

// read reads the body into the call's own buffer, and the rest of a long body into chunks.
func (c *Call) read() error {
	limit := c.route.MaxBody
	n := c.R.ContentLength
	c.in = c.in[:0]
	switch {
	case n == 0:
		return nil
	case n > limit:
		c.bodyRead = true
		return contract.TooLarge("request", "has %d bytes, may have at most %d", n, limit)
	}
	return c.readBody(limit)
}

func (c *Call) readBody(limit int64) error {
	rc := http.NewResponseController(c.W)
	begin := clock.Monotonic()
	until := func(d time.Duration) time.Time { return clock.Deadline(begin + c.router.settings().Grace + d) }
	if c.R.Header.Get("Expect") != "" {
		_ = rc.SetWriteDeadline(until(0)) // deadline for the write of 100 Continue
	}
	body := c.R.Body
	if c.R.ContentLength < 0 {
		// Without a length in its header, the body must be limited while it is read.
		body = http.MaxBytesReader(c.W, body, limit)
	}

	c.unread = true
	defer func() { c.bodyRead = true }()
	for total := 0; ; {
		room, err := c.bodyBuffer(total)
		if err != nil {
			return err
		}

		// A test without a connection has no deadlines. A cut sets its mark first and then
		// an earlier deadline, so this sees the mark or the read fails.
		timed := rc.SetReadDeadline(until(time.Duration(total)*time.Second/minRate)) == nil
		if c.cut.Load() {
			return c.tooSlow()
		}
		n, err := body.Read((*room)[len(*room):cap(*room)])
		*room = (*room)[:len(*room)+n]
		total += n
		if err == nil {
			continue
		}

		if c.share.account != nil {
			c.router.requests.busy(&c.share)
		}
		// The connection may serve another request, which sets another deadline.
		if timed {
			_ = rc.SetReadDeadline(time.Time{})
		}
		return c.bodyEnd(err)
	}
}

// bodyBuffer returns the buffer for the next bytes of the body, after total bytes. A call holds
// memory for the bytes that have arrived, not for the length that it announces. Up to the free size
// it uses the call's own buffer, which grows by doubling. Beyond it the call takes chunks from the
// budget. If it waits for a chunk in vain, it fails after the grace and returns its memory.
func (c *Call) bodyBuffer(total int) (*[]byte, error) {
	if len(c.chunks) == 0 {
		if len(c.in) < cap(c.in) {
			return &c.in, nil
		}
		if total < free {
			c.in = append(make([]byte, 0, c.nextSize(total)), c.in...)
			return &c.in, nil
		}
		// With its first chunk, the call gets a share of the budget.
		c.share.owner, c.share.cut = c.owner(), c.cutBody
	} else if last := &c.chunks[len(c.chunks)-1]; len(*last) < cap(*last) {
		return last, nil
	}

	if !c.router.requests.try(&c.share, chunkSize*weight) && !c.await(chunkSize*weight) {
		return nil, noMemory("requests")
	}
	c.chunks = append(c.chunks, c.router.chunks.get())
	// The call now depends on its caller again.
	c.router.requests.slowAt(&c.share, clock.Monotonic()+chunkTime)
	return &c.chunks[len(c.chunks)-1], nil
}

// owner returns the accounts that the call's memory counts under, from the top: the token's
// namespace and the token. A token for all namespaces has one account for each namespace that it is
// used for. All callers without a token share one account.
func (c *Call) owner() owner {
	switch g := c.grant; {
	case g == nil:
		return owned("")
	case g.Token.Namespace == contract.AllNamespaces:
		return owned(g.Token.Namespace, g.Key(), c.Namespace)
	default:
		return owned(g.Token.Namespace, g.Key())
	}
}

// await waits for n bytes of the budget, at most for the grace.
func (c *Call) await(n int64) bool {
	ctx, cancel := context.WithTimeout(c.R.Context(), c.router.settings().Grace)
	defer cancel()
	return c.router.requests.take(ctx, &c.share, n) == nil
}

// cutBody makes the read of the body fail.
func (c *Call) cutBody() {
	c.cut.Store(true)
	_ = http.NewResponseController(c.W).SetReadDeadline(clock.Deadline(clock.Monotonic()))
}

// tooSlow returns the error of a call that was cut because it was slow.
func (c *Call) tooSlow() error {
	c.Log().Info("a request came slowly while others waited for its memory; it was cut", "bytes", c.length())
	return wire.Own(&duly.Error{
		Code: duly.CodeUnavailable, RetryAfter: retryAfter,
		Message: "the request came slowly while others waited for memory; send it again, or less at a time",
	})
}

// nextSize returns the next size of the call's own buffer. It has room for one byte more than
// the body, so that a read sees the end.
func (c *Call) nextSize(total int) int64 {
	size := min(max(2*int64(total), 1<<10), free)
	if n := c.R.ContentLength; n >= 0 && n < free {
		size = n + 1
	}
	return size
}

// putBack returns the chunks to the pool.
func (c *Call) putBack() {
	for _, chunk := range c.chunks {
		c.router.chunks.put(chunk)
	}
	c.chunks = nil
}

// collect runs the garbage collector after long bodies have used a whole budget. held is the memory
// that one of them held. Without this call, the collector waits until the garbage is as large as
// the memory in use, and the garbage of long bodies could be several budgets by then.
func (rt *Router) collect(held int64) {
	if rt.sinceGC.Add(held) >= rt.Memory {
		rt.sinceGC.Store(0)
		runtime.GC()
	}
}

// chunkSize is the size of a chunk in bytes. A body holds at most one chunk that is not full.
const chunkSize = 32 << 10

// chunkPool keeps chunks for reuse, because large bodies would be most of a server's garbage.
type chunkPool struct {
	mu   sync.Mutex
	list [][]byte
}

// maxChunks is the number of chunks that a pool keeps: as many as the default budget allows.
const maxChunks = 512

func (p *chunkPool) get() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()

	last := len(p.list) - 1
	if last < 0 {
		return make([]byte, 0, chunkSize)
	}
	b := p.list[last]
	p.list = p.list[:last]
	return b
}

func (p *chunkPool) put(b []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()

	if len(p.list) < maxChunks {
		p.list = append(p.list, b[:0])
	}
}

// bodyEnd converts the error of the last read to the error of the request.
func (c *Call) bodyEnd(err error) error {
	if err == io.EOF {
		c.unread = false
		return nil
	}
	if c.cut.Load() {
		return c.tooSlow()
	}

	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return contract.TooLarge("request", "has more than %d bytes", tooLarge.Limit)
	}
	var t interface{ Timeout() bool }
	if errors.As(err, &t) && t.Timeout() {
		c.problemStatus = http.StatusRequestTimeout
		return contract.Invalid("request",
			"came too slowly: its body may take %s, and one more second for every %d bytes",
			c.router.settings().Grace, minRate)
	}
	return contract.Invalid("request", "ended before the body was complete")
}
