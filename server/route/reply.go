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

// These header values are shared by all answers, because net/http only reads them.
var (
	jsonType    = []string{"application/json"}
	problemType = []string{"application/problem+json"}
	noStore     = []string{"no-store"}
	noSniff     = []string{"nosniff"}
	closing     = []string{"close"}
)

// Out returns an empty buffer for the answer.
func (c *Call) Out() []byte { return c.out[:0] }

// Reply answers with JSON that was appended to Out.
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

// ReplyAs answers with a body of another content type.
func (c *Call) ReplyAs(status int, contentType string, body []byte) error {
	c.write(status, []string{contentType}, body)
	return nil
}

// ReplyPage answers with a page. policy is its Content-Security-Policy, which must forbid frames.
// Older browsers need a separate header for that.
func (c *Call) ReplyPage(policy string, html []byte) error {
	header := c.W.Header()
	header.Set("Content-Security-Policy", policy)
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("X-Frame-Options", "DENY")
	return c.ReplyAs(http.StatusOK, "text/html; charset=utf-8", html)
}

// ReplyNow is like Reply, and passes the answer to the kernel before it returns. So an error means that
// the caller cannot have received the whole answer.
func (c *Call) ReplyNow(status int, json []byte) error {
	if c.Gone() {
		c.status = statusGone
		return c.R.Context().Err()
	}
	// Without a length, the flush would begin a chunked answer.
	c.W.Header()["Content-Length"] = []string{strconv.Itoa(len(json))}
	c.out = json
	if err := c.write(status, c.jsonType(), json); err != nil {
		return err
	}
	return http.NewResponseController(c.W).Flush()
}

// Empty answers with success and no body.
func (c *Call) Empty() error {
	c.write(http.StatusNoContent, nil, nil)
	return nil
}

func (c *Call) write(status int, contentType []string, body []byte) error {
	c.status, c.sent = status, len(body)
	if contentType != nil {
		c.W.Header()["Content-Type"] = contentType
	}
	// net/http sets the length of shorter answers.
	if len(body) > 2<<10 {
		c.W.Header()["Content-Length"] = []string{strconv.Itoa(len(body))}
	}

	// The headers are final with WriteHeader, so Connection is decided before.
	c.leave()
	c.deadline(len(body))
	c.W.WriteHeader(status)
	if len(body) == 0 {
		return nil
	}
	// The caller may read slowly. From here on, the call holds only the memory of the answer.
	defer c.beginWrite(len(body))()
	_, err := c.W.Write(body)
	return err
}

// deadline gives the caller time to read n bytes more. A connection in a test may have no
// deadlines.
func (c *Call) deadline(n int) {
	rc := http.NewResponseController(c.W)
	over := clock.Monotonic() + c.router.settings().Grace
	_ = rc.SetWriteDeadline(clock.Deadline(over + time.Duration(n)*time.Second/minRate))
	if c.R.ContentLength != 0 && !c.bodyRead {
		// net/http now reads the rest of the body itself.
		_ = rc.SetReadDeadline(clock.Deadline(over))
	}
}

// statusGone is the status in the log of a caller that has hung up. The status is not sent, because
// the connection is cut, so that a caller that still listens sees no answer.
const statusGone = 499

// Problem answers with an error, unless the call is answered already.
func (c *Call) Problem(err error) {
	c.err = err
	if c.status != 0 {
		return
	}
	// Nobody reads this answer, and the error is only a consequence of the disconnect.
	if c.Gone() && (errors.Is(err, context.Canceled) || !errors.As(err, new(*duly.Error))) {
		c.status = statusGone
		return
	}
	if errors.Is(err, context.DeadlineExceeded) {
		// The text of a context error would not say what to do, so it is replaced.
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
		header["Www-Authenticate"] = c.router.Guard.Challenges(c.route.Access)
	}
	c.write(status, problemType, body)
	c.out = body
}
