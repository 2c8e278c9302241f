package httpengine_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/httpengine"
	"github.com/dulymq/duly/internal/wire"
)

func readAll(to *strings.Builder, req *http.Request) (int64, error) { return io.Copy(to, req.Body) }

// shop is a server that answers each reserve with one job after the test has opened the shop, and
// counts releases.
type shop struct {
	open     chan struct{}
	taken    atomic.Int64
	released atomic.Int64
}

func (s *shop) serve(w http.ResponseWriter, req *http.Request) {
	if strings.HasSuffix(req.URL.Path, "/reserve") {
		<-s.open
		s.taken.Add(1)
		reply(w, 200, string(wire.DeliveriesForm.Append(nil,
			[]duly.Delivery{{Job: duly.Job{ID: "x", Queue: "q"}, Receipt: "q:0:01J0000000000000000000000A:1"}})))
		return
	}

	var b strings.Builder
	_, _ = readAll(&b, req)
	outcomes, err := wire.ReadSettle(b.String())
	if err != nil {
		panic(err)
	}

	for _, o := range outcomes.Values {
		if o.As == duly.Release && o.Receipt == "q:0:01J0000000000000000000000A:1" {
			s.released.Add(1)
		}
	}
	reply(w, 200, string(wire.ResultsForm.Append(nil, make([]error, len(outcomes.Values)))))
}

// C4.16: a delivery whose caller's context has ended is released.
func TestDeliveryOfCanceledReserveIsReleased(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &shop{open: make(chan struct{})}
		r := newRig(t, httpengine.Config{}, s.serve)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)

		go func() {
			_, err := r.Reserve(ctx, duly.ReserveParams{Queues: []string{"q"}, Max: 1})
			ended <- err
		}()
		synctest.Wait()
		cancel()
		wants(t, "a reserve", <-ended, duly.CodeUnavailable)
		close(s.open)
		synctest.Wait()
		if s.taken.Load() != 1 || s.released.Load() != 1 {
			t.Errorf("%d were taken and %d released, want 1 and 1", s.taken.Load(), s.released.Load())
		}
	})
}

// C4.16: at whatever time the caller's context ends, a delivery is either returned or released. Close
// waits for the release.
func TestEveryDeliveryIsReturnedOrReleased(t *testing.T) {
	t.Parallel()
	s := &shop{open: make(chan struct{})}
	close(s.open)
	r := newRig(t, httpengine.Config{}, s.serve)
	handed := int64(0)

	for range 300 {
		ctx, cancel := context.WithCancel(context.Background())
		go cancel()
		ds, err := r.Reserve(ctx, duly.ReserveParams{Queues: []string{"q"}, Max: 1})
		if err == nil {
			handed += int64(len(ds))
		}
	}

	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if taken, released := s.taken.Load(), s.released.Load(); taken != handed+released {
		t.Errorf("%d were taken, %d handed over and %d given back", taken, handed, released)
	}
}

// C4.7, C4.72: a purge of a whole state makes several requests.
func TestPurgeOfEverythingMakesSeveralRequests(t *testing.T) {
	left := 25_000
	inBubble(t, func(w http.ResponseWriter, req *http.Request) {
		var b strings.Builder
		_, _ = readAll(&b, req)
		p, err := wire.PurgeForm.ReadRequest(b.String())
		if err != nil || p.N == 0 {
			panic(b.String())
		}
		n := min(left, p.N)
		left -= n
		reply(w, 200, string(wire.PurgedForm.Append(nil, n)))
	}, func(t *testing.T, r *rig) {
		q := duly.QueueRef{Name: "q"}
		n, err := r.Purge(t.Context(), q, duly.StateReady, 12_000)
		if n != 12_000 || err != nil {
			t.Errorf("a purge of 12 000 is answered %d, %v", n, err)
		}
		n, err = r.Purge(t.Context(), q, duly.StateReady, 0)
		if n != 13_000 || err != nil || left != 0 {
			t.Errorf("a purge of the rest is answered %d, %v", n, err)
		}
		if n := len(r.requests()); n != 4 {
			t.Errorf("%d requests were sent, want 4", n)
		}
	})
}

// The error of a purge comes with the number of purged jobs.
func TestFailedPurgeReturnsItsCount(t *testing.T) {
	first := true
	inBubble(t, func(w http.ResponseWriter, _ *http.Request) {
		if !first {
			problem(w, duly.ErrUnavailable)
			return
		}
		first = false
		reply(w, 200, `{"purged":10000}`)
	}, func(t *testing.T, r *rig) {
		n, err := r.Purge(t.Context(), duly.QueueRef{Name: "q"}, duly.StateDead, 0)
		wants(t, "the purge", err, duly.CodeUnavailable)
		if n != 10_000 {
			t.Errorf("purged %d, want 10000", n)
		}
	})
}
