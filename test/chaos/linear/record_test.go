package linear

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/dulymq/duly"
)

// call is a line of a client: a call, written before it is sent.
type call struct {
	N       int64 // number of the call, from 1
	Kind    string
	Queue   string
	ID      string       `json:",omitempty"` // empty for settle, extend and reserve
	Receipt duly.Receipt `json:",omitempty"`
	As      string       `json:",omitempty"`
	Lease   int64        `json:",omitempty"` // in ms
	At      int64        // monotonic time in ns
	Wall    int64        // in ms
}

// reply is a line of a client: the answer to the call with this number. A call that was certainly
// not executed has the verdict "unsent".
type reply struct {
	To        int64
	Verdict   string
	State     duly.State  `json:",omitempty"`
	Failures  int         `json:",omitempty"`
	Delivered []delivered `json:",omitempty"`
	At, Wall  int64
}

// delivered is one delivery of a Reserve.
type delivered struct {
	ID       string
	Receipt  duly.Receipt
	Failures int
	LeaseEnd int64 // in ms
}

const (
	callMark, replyMark, faultMark = "> ", "< ", "! "
	unsent                         = "unsent"
)

// recorded is a call with its reply, if there was one.
type recorded struct {
	call
	reply  *reply
	client int
}

// log has what all clients of a run have written.
type log struct {
	calls   []*recorded
	ids     map[duly.Receipt]string
	clients int
	faults  []string
}

func newLog() *log { return &log{ids: map[duly.Receipt]string{}} }

// read adds the lines of one client process.
func (l *log) read(t *testing.T, lines []string) {
	t.Helper()
	open := map[int64]*recorded{}
	l.clients++
	for _, line := range lines {
		var err error
		switch {
		case strings.HasPrefix(line, callMark):
			r := &recorded{client: l.clients}
			err = json.Unmarshal([]byte(line[len(callMark):]), &r.call)
			open[r.N] = r
			l.calls = append(l.calls, r)
		case strings.HasPrefix(line, replyMark):
			r := new(reply)
			err = json.Unmarshal([]byte(line[len(replyMark):]), r)
			if open[r.To] == nil {
				err = fmt.Errorf("a reply without a call")
				break
			}
			open[r.To].reply = r
			for _, d := range r.Delivered {
				l.ids[d.Receipt] = d.ID
			}
		case strings.HasPrefix(line, faultMark):
			l.faults = append(l.faults, line)
		}
		if err != nil {
			t.Fatalf("a client wrote the invalid line %q: %v", line, err)
		}
	}
}
