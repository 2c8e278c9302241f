package route

import (
	"io"
	"net/http"
	"time"

	"github.com/dulymq/duly/internal/clock"
)

// These constants limit the rest of a body that is read after the answer. Up to the limits, a
// client that writes its whole request before it reads gets the answer. Beyond the limits it gets a
// broken connection.
const (
	discardBytes = 16 << 20
	discardTime  = 10 * time.Second
)

// netRest is the number of bytes that net/http itself reads of a body before it answers.
const netRest = 256 << 10

// leave prepares an answer to a request whose body was not read to its end. If
// net/http does not read the rest either, the answer closes the connection,
// because the beginning of the next request is unknown.
func (c *Call) leave() {
	n := c.R.ContentLength
	whole := c.bodyRead && !c.unread && n <= c.route.MaxBody
	if n == 0 || whole || !c.bodyRead && n < netRest {
		return
	}

	// A client that waits for 100 Continue has sent nothing of the body yet.
	c.closes = c.unread || c.R.Header.Get("Expect") == ""
	// Without this header, the rest of the body would be read as the next request.
	c.W.Header()["Connection"] = closing
	// Then net/http reads nothing of the body by itself.
	_ = http.NewResponseController(c.W).EnableFullDuplex()
}

// discard sends the answer and reads a limited rest of the body, so that the
// client can read the answer before the connection is closed.
func (c *Call) discard() {
	rc := http.NewResponseController(c.W)
	if rc.Flush() != nil || rc.SetReadDeadline(clock.Deadline(clock.Monotonic()+discardTime)) != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, c.R.Body, discardBytes)
}
