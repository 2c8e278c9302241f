package chaos

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/dulymq/duly"
)

// diary writes the events of one client process, one line per event, without buffering. So a line
// survives the death of the process. AT is the machine's clock in µs, which all processes of a
// test share.
//
//	p AT ID QUEUE DELAY PRIORITY SUM       a push is sent; DELAY in µs
//	P AT ID OUTCOME                        … and answered
//	D SENT AT RECEIPT ID DUE NOW END PRIORITY SUM
//	                                       a delivery; its Reserve was sent at SENT; the engine's times in ms
//	U SENT AT                              a Reserve without an answer
//	s AT RECEIPT AS END                    a settle is sent for the delivery with this END
//	S AT RECEIPT ok|lease_lost END         … and answered
//	x AT RECEIPT LEASE END                 an extend is sent; LEASE in µs
//	X AT RECEIPT ok|lease_lost END         … and answered
//	error TEXT                             an unexpected error
//
// END distinguishes two deliveries with one receipt. A crash may undo a delivery, and the next one
// then gets the same receipt. A line without END belongs to the latest delivery.
//
// A call without an answer (no P, S or X line) may have been executed.
type diary struct {
	mu  sync.Mutex
	out io.Writer
}

func (d *diary) say(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	fmt.Fprintf(d.out, format+"\n", args...)
}

func at() int64 { return time.Now().UnixMicro() }

// sum returns a short checksum of a body.
func sum(body []byte) string {
	s := sha256.Sum256(body)
	return hex.EncodeToString(s[:6])
}

func (d *diary) pushing(j *duly.Job) {
	d.say("p %d %s %s %d %d %s", at(), j.ID, j.Queue, j.Delay.Microseconds(), j.Priority, sum(j.Body))
}

func (d *diary) pushed(r duly.PushResult) { d.say("P %d %s %s", at(), r.ID, r.Status) }

func (d *diary) delivered(sent int64, v *duly.Delivery) {
	d.say("D %d %d %s %s %d %d %d %d %s", sent, at(), v.Receipt, v.ID, v.Due.UnixMilli(), v.Now.UnixMilli(),
		v.LeaseEnd.UnixMilli(), v.Priority, sum(v.Body))
}

func (d *diary) unanswered(sent int64) { d.say("U %d %d", sent, at()) }

// outcome is a settle of a delivery.
type outcome struct {
	duly.SettleRequest
	leaseEnd int64 // of the delivery, in ms
}

// outcomeOf returns a settle of a delivery.
func outcomeOf(v *duly.Delivery, as duly.Settlement) outcome {
	return outcome{duly.SettleRequest{Receipt: v.Receipt, As: as}, v.LeaseEnd.UnixMilli()}
}

func (d *diary) settling(o *outcome) { d.say("s %d %s %s %d", at(), o.Receipt, o.As, o.leaseEnd) }

func (d *diary) settled(o *outcome, err error) {
	d.say("S %d %s %s %d", at(), o.Receipt, verdict(err), o.leaseEnd)
}

func (d *diary) extending(o *outcome, lease time.Duration) {
	d.say("x %d %s %d %d", at(), o.Receipt, lease.Microseconds(), o.leaseEnd)
}

func (d *diary) extended(o *outcome, err error) {
	d.say("X %d %s %s %d", at(), o.Receipt, verdict(err), o.leaseEnd)
}

func (d *diary) fault(what string, err error) {
	d.say("error %s: %s", what, strings.ReplaceAll(err.Error(), "\n", " "))
}

func verdict(err error) string {
	if err == nil {
		return "ok"
	}
	return string(duly.CodeOf(err))
}

// pages is the diary of clients that run in the test's own process.
type pages struct {
	diary
	text strings.Builder
}

func newPages() *pages {
	p := &pages{}
	p.out = &p.text
	return p
}

func (p *pages) lines() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := strings.TrimSuffix(p.text.String(), "\n")
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}
