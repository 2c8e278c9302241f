package httpengine_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/httpengine"
	"github.com/dulymq/duly/internal/wire"
)

// holding answers a wait after its time, or when ready is closed.
func holding(ready <-chan struct{}) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		var b strings.Builder
		_, _ = readAll(&b, req)
		p, err := wire.ReadWait(b.String(), "shop")
		if err != nil {
			panic(err)
		}
		select {
		case <-ready:
			reply(w, 200, `{"ready":true}`)
		case <-time.After(p.Timeout):
			reply(w, 200, `{"ready":false}`)
		case <-req.Context().Done():
		}
	}
}

func waitFor(e *httpengine.Engine, ctx context.Context, d time.Duration) (bool, error) {
	return e.Wait(ctx, duly.WaitParams{Queues: []string{"q"}, Timeout: d})
}

// C14.16: a long wait makes several requests, so that a proxy does not close one as idle.
func TestLongWaitIsAskedInSlices(t *testing.T) {
	inBubble(t, holding(nil), func(t *testing.T, r *rig) {
		begin := time.Now()
		ready, err := waitFor(r.Engine, t.Context(), 2*time.Minute)
		if ready || err != nil || time.Since(begin) != 2*time.Minute {
			t.Errorf("the wait ended after %s with %t, %v", time.Since(begin), ready, err)
		}
		var asked []string
		for _, s := range r.requests() {
			asked = append(asked, s.body)
		}
		want := `{"queues":["q"],"wait":"50s"} {"queues":["q"],"wait":"50s"} {"queues":["q"],"wait":"20s"}`
		if got := strings.Join(asked, " "); got != want {
			t.Errorf("it was asked %s, want %s", got, want)
		}
	})
}

// After an early answer, for instance of a draining server, the client requests the rest of the
// time after a pause.
func TestWaitKeepsItsTimeAfterEarlyAnswers(t *testing.T) {
	requests := 0
	inBubble(t, func(w http.ResponseWriter, _ *http.Request) {
		requests++
		reply(w, 200, fmt.Sprintf(`{"ready":%t}`, requests > 100)) // without a pause, the test would not end
	}, func(t *testing.T, r *rig) {
		begin := time.Now()
		ready, err := waitFor(r.Engine, t.Context(), 1700*time.Millisecond)
		if took := time.Since(begin); ready || err != nil || took != 1700*time.Millisecond {
			t.Errorf("the wait ended after %s with %t, %v", took, ready, err)
		}

		var asked []string
		for _, s := range r.requests() {
			asked = append(asked, s.body)
		}
		want := `{"queues":["q"],"wait":"1.7s"} {"queues":["q"],"wait":"1.2s"} {"queues":["q"],"wait":"700ms"} ` +
			`{"queues":["q"],"wait":"200ms"} {"queues":["q"],"wait":"0s"}`
		if got := strings.Join(asked, " "); got != want {
			t.Errorf("it was asked %s, want %s", got, want)
		}
	})
}

func TestWaitEndsWithTheServersAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		job := make(chan struct{})
		r := newRig(t, httpengine.Config{}, holding(job))
		time.AfterFunc(70*time.Second, func() { close(job) })
		begin := time.Now()
		ready, err := waitFor(r.Engine, t.Context(), duly.MaxWait)
		if !ready || err != nil || time.Since(begin) != 70*time.Second {
			t.Errorf("the wait ended after %s with %t, %v", time.Since(begin), ready, err)
		}
	})
}

// C4.17: a wait ends with its context, and the server notices the end.
func TestWaitEndsWithItsContextAndTheServerSeesIt(t *testing.T) {
	hungUp := false
	inBubble(t, func(w http.ResponseWriter, req *http.Request) {
		<-req.Context().Done()
		hungUp = true
	}, func(t *testing.T, r *rig) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		ready, err := waitFor(r.Engine, ctx, time.Minute)
		if ready || err != context.DeadlineExceeded {
			t.Errorf("the wait ended with %t, %v", ready, err)
		}
		synctest.Wait()
		if !hungUp {
			t.Error("the server did not notice it")
		}
	})
}

// C13.13: Close ends every wait.
func TestCloseEndsEveryWait(t *testing.T) {
	inBubble(t, holding(nil), func(t *testing.T, r *rig) {
		ended := make(chan error)
		for range 3 {
			go func() {
				_, err := waitFor(r.Engine, t.Context(), duly.MaxWait)
				ended <- err
			}()
		}

		synctest.Wait()
		begin := time.Now()
		closed := make(chan error)
		go func() { closed <- r.Close() }()

		for range 3 {
			if err := <-ended; !errors.Is(err, duly.ErrClosed) {
				t.Errorf("a wait ended with %v", err)
			}
		}

		if err := <-closed; err != nil || time.Since(begin) != 0 {
			t.Errorf("Close took %s and ended with %v", time.Since(begin), err)
		}
		if err := r.push(t.Context()); !errors.Is(err, duly.ErrClosed) {
			t.Errorf("a later push ends with %v", err)
		}
		if err := r.Close(); err != nil {
			t.Errorf("the second Close: %v", err)
		}
	})
}

// A draining server answers every wait at once. It gets few requests.
func TestServerThatAnswersEarlyIsNotFlooded(t *testing.T) {
	inBubble(t, func(w http.ResponseWriter, _ *http.Request) { reply(w, 200, `{"ready":false}`) },
		func(t *testing.T, r *rig) {
			begin := time.Now()
			ready, err := waitFor(r.Engine, t.Context(), 10*time.Second)
			if ready || err != nil || time.Since(begin) != 10*time.Second {
				t.Errorf("the wait ended after %s with %t, %v", time.Since(begin), ready, err)
			}
			if n := len(r.requests()); n > 21 {
				t.Errorf("it was asked %d times in 10 s", n)
			}
		})
}

// A wait ends with an error if the server dies.
func TestWaitOnADeadServerIsUnavailable(t *testing.T) {
	inBubble(t, func(w http.ResponseWriter, req *http.Request) { <-req.Context().Done() }, func(t *testing.T, r *rig) {
		begin := time.Now()
		_, err := waitFor(r.Engine, t.Context(), duly.MaxWait)
		wants(t, "a wait", err, duly.CodeUnavailable)
		if took := time.Since(begin); took != 80*time.Second { // 80 s: the time of a poll and the timeout
			t.Errorf("it was noticed after %s", took)
		}
	})
}
