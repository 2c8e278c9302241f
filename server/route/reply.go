package route

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/wire"
)

// shared values of headers: net/http only reads them.
var (
	jsonType    = []string{"application/json"}
	problemType = []string{"application/problem+json"}
	noStore     = []string{"no-store"}
	noSniff     = []string{"nosniff"}
	closing     = []string{"close"}
)

// Out is an empty buffer for the answer.
func (c *Call) Out() []byte { return c.out[:0] }

// Reply answers JSON that was appended to Out.
func (c *Call) Reply(status int, json []byte) error {
	c.write(status, c.jsonType(), json)
	c.out = json
	return nil
}

func (c *Call) jsonType() []string {
	if d := c.route.Dialect; d != nil {
		return d.JSON
	}
	return jsonType
}

// ReplyAs answers something of a type of its own.
func (c *Call) ReplyAs(status int, contentType string, body []byte) error {
	c.write(status, []string{contentType}, body)
	return nil
}

// ReplyPage answers a page for people. policy is its Content-Security-Policy, which
// must let nobody frame it; older browsers need a header of their own.
func (c *Call) ReplyPage(policy string, html []byte) error {
	header := c.W.Header()
	header.Set("Content-Security-Policy", policy)
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("X-Frame-Options", "DENY")
	return c.ReplyAs(http.StatusOK, "text/html; charset=utf-8", html)
}

// ReplyNow answers JSON that was appended to Out, and hands it to the kernel
// before it returns, so that an error means that the caller can't have got all
// of it.
func (c *Call) ReplyNow(status int, json []byte) error {
	if c.Gone() {
		c.status = statusGone
		return c.R.Context().Err()
	}
	c.W.Header()["Content-Length"] = []string{strconv.Itoa(len(json))} // else a flush begins chunks
	c.out = json
	if err := c.write(status, c.jsonType(), json); err != nil {
		return err
	}
	return http.NewResponseController(c.W).Flush()
}

// Empty answers success that has nothing to say.
func (c *Call) Empty() error {
	c.write(http.StatusNoContent, nil, nil)
	return nil
}

func (c *Call) write(status int, contentType []string, body []byte) error {
	c.status, c.sent = status, len(body)
	if contentType != nil {
		c.W.Header()["Content-Type"] = contentType
	}
	if len(body) > 2<<10 { // net/http counts shorter ones itself
		c.W.Header()["Content-Length"] = []string{strconv.Itoa(len(body))}
	}
	c.leave()
	c.deadline(len(body))
	c.W.WriteHeader(status)
	if len(body) == 0 {
		return nil
	}
	defer c.taking(len(body))()
	_, err := c.W.Write(body)
	return err
}

// deadline gives the caller time to take n bytes more. A connection that has no
// deadlines, as in a test, does without.
func (c *Call) deadline(n int) {
	rc := http.NewResponseController(c.W)
	over := clock.Monotonic() + c.host.live().Grace
	_ = rc.SetWriteDeadline(clock.Deadline(over + time.Duration(n)*time.Second/minRate))
	if c.R.ContentLength != 0 && !c.bodyRead {
		_ = rc.SetReadDeadline(clock.Deadline(over)) // net/http now reads on to the next request
	}
}

// statusGone is what the log tells of a caller that has hung up. It is not
// sent: the connection is cut, so that who still listens sees no answer.
const statusGone = 499

// Problem answers an error, unless the call is answered already.
func (c *Call) Problem(err error) {
	c.err = err
	if c.status != 0 {
		return
	}
	if c.Gone() && (errors.Is(err, context.Canceled) || !errors.As(err, new(*duly.Error))) {
		c.status = statusGone
		return
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = duly.ErrUnavailable
	}
	header := c.W.Header()
	var e *duly.Error
	if errors.As(err, &e) && e.RetryAfter > 0 {
		header.Set("Retry-After", strconv.FormatInt(wire.RetryAfterSeconds(e.RetryAfter), 10))
	}
	if d := c.route.Dialect; d != nil {
		status, body := d.Fail(c, err)
		kind := d.JSON
		if body == nil {
			kind = nil
		}
		c.write(status, kind, body)
		return
	}
	body, status := wire.AppendProblem(c.Out(), err, c.problemStatus)
	if status == http.StatusUnauthorized {
		header["Www-Authenticate"] = c.host.Guard.Challenges(c.route.Need)
	}
	c.write(status, problemType, body)
	c.out = body
}
