package route

import "net/http"

// Stream begins an answer of unknown length. Each write has a deadline of its own and passes
// its bytes to the kernel at once.
func (c *Call) Stream(contentType string) (*Stream, error) {
	if c.Gone() {
		c.status = statusGone
		return nil, c.R.Context().Err()
	}
	c.status = http.StatusOK
	c.W.Header().Set("Content-Type", contentType)
	return &Stream{call: c, rc: http.NewResponseController(c.W)}, nil
}

// Stream is the writer of a long answer.
type Stream struct {
	call *Call
	rc   *http.ResponseController
}

// Write implements io.Writer.
func (s *Stream) Write(b []byte) (int, error) {
	s.call.deadline(len(b))
	n, err := s.call.W.Write(b)
	s.call.sent += n
	if err != nil {
		return n, err
	}
	return n, s.rc.Flush()
}
