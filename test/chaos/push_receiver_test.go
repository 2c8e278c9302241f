package chaos

import (
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/dulymq/duly/internal/porttest"
)

// fault is what a receiver does wrong.
type fault int

const (
	isSound        fault = iota
	oftenFails           // answers a third of the requests with 500
	oftenHangs           // does not answer every tenth request
	dripsBodies          // accepts, but its response body never ends
	oftenRedirects       // redirects the first request of a third of its jobs
	oftenHangsUp         // closes the connection of a fifth of its requests
	oftenThrottles       // answers one request in twenty with 429
	oftenRestarts        // restarts more often than the others
	refusesAll           // always answers 404
	forbidsRetries       // always answers 500 and forbids retries
	faultKinds
)

func (f fault) String() string {
	return [...]string{"sound", "fails", "hangs", "drips", "redirects", "hangsUp", "throttles", "restarts", "refuses",
		"forbids"}[f]
}

// refuses reports whether the receiver never accepts a job.
func (f fault) refuses() bool { return f == refusesAll || f == forbidsRetries }

// answered is one request that a receiver got.
type answered struct {
	began, ended time.Time
	status       int  // 0 if no answer was written
	lost         bool // the answer may not have arrived
}

func (a answered) String() string {
	return fmt.Sprintf("%d at %s (lost: %v)", a.status, a.began.Format(stamp), a.lost)
}

// hurtReceiver is an HTTP service with a fault. Its ledger has all answers.
type hurtReceiver struct {
	kind    fault
	address string
	seed    uint64

	mu     sync.Mutex
	server *http.Server
	ended  chan struct{}
	r      *rand.Rand
	ledger map[string][]answered // requests by webhook-id
	cuts   []time.Time           // the times of its restarts
}

func newHurtReceiver(t *testing.T, i int, seed uint64) *hurtReceiver {
	t.Helper()
	rc := &hurtReceiver{kind: fault(i) % faultKinds, address: porttest.Address(t),
		r: rand.New(rand.NewPCG(seed, uint64(i)+1)), ledger: map[string][]answered{}}
	rc.begin()
	t.Cleanup(rc.end)
	return rc
}

func (rc *hurtReceiver) url() string { return "http://" + rc.address + "/hook" }

func (rc *hurtReceiver) begin() {
	listener, err := net.Listen("tcp", rc.address)
	for ; err != nil; listener, err = net.Listen("tcp", rc.address) {
		time.Sleep(breath)
	}
	rc.server = &http.Server{Handler: rc, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	rc.ended = make(chan struct{})
	go func(s *http.Server, ended chan struct{}) {
		defer close(ended)
		_ = s.Serve(listener)
	}(rc.server, rc.ended)
}

func (rc *hurtReceiver) end() {
	rc.server.Close()
	<-rc.ended
}

// restart closes all connections and listens again at the same address.
func (rc *hurtReceiver) restart() {
	rc.mu.Lock()
	rc.cuts = append(rc.cuts, time.Now())
	rc.mu.Unlock()
	rc.end()
	rc.begin()
}

// of returns the requests for a job, sorted by their start.
func (rc *hurtReceiver) of(id string) []answered {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	ledger := rc.ledger[id]
	for i := range ledger {
		for _, cut := range rc.cuts {
			if cut.After(ledger[i].began) && cut.Before(ledger[i].ended.Add(pushTimeout)) {
				ledger[i].lost = true
			}
		}
	}
	return ledger
}

// ServeHTTP notes a request in the ledger before it answers, so the ledger has every answer that
// arrived.
func (rc *hurtReceiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	began, id := time.Now(), req.Header.Get("webhook-id")
	_, _ = io.Copy(io.Discard, req.Body)
	rc.mu.Lock()
	turn, at := rc.r.IntN(100), len(rc.ledger[id])
	status := rc.status(turn, at)
	rc.ledger[id] = append(rc.ledger[id], answered{began: began, ended: began, status: status})
	rc.mu.Unlock()

	rc.answer(w, req, status)

	rc.mu.Lock()
	defer rc.mu.Unlock()
	rc.ledger[id][at].ended = time.Now()
	if req.Context().Err() != nil && rc.kind != dripsBodies { // the sender closes the endless body of dripsBodies
		rc.ledger[id][at].lost = true
	}
}

// status draws the status of the at-th request for a job. 0 means no answer.
func (rc *hurtReceiver) status(turn, at int) int {
	switch {
	case rc.kind == oftenFails && turn < 33, rc.kind == forbidsRetries:
		return http.StatusInternalServerError
	case rc.kind == oftenHangs && turn < 10, rc.kind == oftenHangsUp && turn < 20:
		return 0
	case rc.kind == oftenRedirects && at == 0 && turn < 33:
		return http.StatusTemporaryRedirect
	case rc.kind == oftenThrottles && turn < 5:
		return http.StatusTooManyRequests
	case rc.kind == refusesAll:
		return http.StatusNotFound
	}
	return http.StatusOK
}

func (rc *hurtReceiver) answer(w http.ResponseWriter, req *http.Request, status int) {
	switch {
	case status == 0 && rc.kind == oftenHangs:
		<-req.Context().Done() // wait for the sender's timeout
		return
	case status == 0:
		if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
			conn.Close()
		}
		return
	case status == http.StatusTooManyRequests:
		w.Header().Set("Retry-After", "1")
	case status == http.StatusTemporaryRedirect:
		w.Header().Set("Location", rc.url()+"/elsewhere")
	case rc.kind == forbidsRetries:
		w.Header().Set("duly-no-retry", "true")
	}

	w.WriteHeader(status)
	if rc.kind != dripsBodies {
		return
	}
	for req.Context().Err() == nil {
		if _, err := io.WriteString(w, "drip "); err != nil || http.NewResponseController(w).Flush() != nil {
			return
		}
		time.Sleep(breath)
	}
}
