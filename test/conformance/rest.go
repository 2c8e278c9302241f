package conformance

import (
	"context"
	"maps"
	"net/http"
	"runtime"
	"strconv"
	"sync"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/goroutines"
)

// rest finds out when everything that a test has started over real sockets is idle, as
// synctest.Wait does in a bubble. Two conditions must hold:
//
//   - The Waits that are open at clients are exactly those that block in the server's engine.
//     So no request or response is on its way.
//   - Every goroutine that the test has started, directly or indirectly, is blocked. So no
//     goroutine has been woken without having run.
type rest struct {
	root goroutines.ID // the test's own goroutine
	turn *turn

	mu     sync.Mutex
	change *sync.Cond
	last   int
	// Numbers of the waits that are open at clients, and of those that block in the engine.
	open, parked map[string]bool
}

// newRest must be called on the test's goroutine before the test starts others.
func newRest() *rest {
	r := &rest{root: goroutines.Own(), open: map[string]bool{}, parked: map[string]bool{}}
	r.change = sync.NewCond(&r.mu)
	return r
}

// quiet blocks until everything is idle.
func (r *rest) quiet() {
	for {
		r.mu.Lock()
		for !maps.Equal(r.open, r.parked) {
			r.change.Wait()
		}
		r.mu.Unlock()
		// The numbers agree, but data may still be between two sockets.
		if r.stays() {
			return
		}
		runtime.Gosched()
	}
}

// stays reports whether everything is idle, also after the network poller has run. It needs two
// turns, because the first may belong to a poller that has already looked.
func (r *rest) stays() bool {
	for range 2 {
		if !r.still() {
			return false
		}
		r.turn.take()
	}
	return r.still()
}

// still reports whether everything is idle now.
func (r *rest) still() bool { return !goroutines.Busy(r.root) && r.level() }

// level reports whether the Waits that are open at clients are those that block in the engine.
func (r *rest) level() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Equal(r.open, r.parked)
}

func (r *rest) enter(set map[string]bool, number string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	set[number] = true
	r.change.Broadcast()
}

func (r *rest) leave(set map[string]bool, number string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(set, number)
	r.change.Broadcast()
}

// left blocks until the server has noticed that the client of a wait is gone. A client can't know
// that, so without it the test could continue too early.
func (r *rest) left(number string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.parked[number] {
		r.change.Wait()
	}
}

// numberKey is the context key of a wait's number.
type numberKey struct{}

// numberHeader carries the number to the server.
const numberHeader = "X-Wait-Number"

// near is a client that numbers its waits.
type near struct {
	contract.Engine
	rest *rest
}

// Wait implements duly.Engine.
func (n near) Wait(ctx context.Context, p duly.WaitParams) (ready bool, err error) {
	err = n.rest.waits(ctx, func(ctx context.Context) error {
		ready, err = n.Engine.Wait(ctx, p)
		return err
	})
	return ready, err
}

// waits numbers a call that waits.
func (r *rest) waits(ctx context.Context, wait func(context.Context) error) error {
	r.mu.Lock()
	r.last++
	number := strconv.Itoa(r.last)
	r.mu.Unlock()
	// The wait is open before its request is sent, so quiet never misses it.
	r.enter(r.open, number)
	defer r.leave(r.open, number)
	err := wait(context.WithValue(ctx, numberKey{}, number))
	// The server notices a canceled request later than the client.
	if err != nil {
		r.left(number)
	}
	return err
}

// Survey implements contract.Surveyor.
func (n near) Survey(ctx context.Context, namespace string, p duly.PageParams) (contract.SurveyPage, error) {
	return contract.SurveyorOf(n.Engine).Survey(ctx, namespace, p)
}

// Find implements contract.Finder.
func (n near) Find(ctx context.Context, namespace, id string) (contract.Found, error) {
	return contract.FinderOf(n.Engine).Find(ctx, namespace, id)
}

// Explain implements contract.Explainer.
func (n near) Explain(ctx context.Context, q duly.QueueRef, id string) (contract.Explanation, error) {
	return contract.ExplainerOf(n.Engine).Explain(ctx, q, id)
}

// Keys implements contract.KeyLister.
func (n near) Keys(ctx context.Context, q duly.QueueRef, p contract.KeysParams) (contract.KeyPage, error) {
	return contract.KeyListerOf(n.Engine).Keys(ctx, q, p)
}

// Holder implements contract.KeyLister.
func (n near) Holder(ctx context.Context, q duly.QueueRef, key string) (contract.KeyInfo, error) {
	return contract.KeyListerOf(n.Engine).Holder(ctx, q, key)
}

// WatchCancels implements contract.CancelWatcher.
func (n near) WatchCancels(ctx context.Context, namespace string, w contract.CancelWatch) error {
	return n.Engine.(contract.CancelWatcher).WatchCancels(ctx, namespace, w)
}

// far is the server's engine. It knows the number of each wait.
type far struct {
	contract.Engine
	rest *rest
}

// Wait implements duly.Engine.
func (f far) Wait(ctx context.Context, p duly.WaitParams) (bool, error) {
	defer f.rest.parks(ctx)()
	return f.Engine.Wait(ctx, p)
}

// parks notes that a numbered call blocks in the engine, until the returned function is called.
func (r *rest) parks(ctx context.Context) (leaves func()) {
	number, ok := ctx.Value(numberKey{}).(string)
	if !ok {
		return func() {}
	}
	r.enter(r.parked, number)
	return func() { r.leave(r.parked, number) }
}

// Survey implements contract.Surveyor.
func (f far) Survey(ctx context.Context, namespace string, p duly.PageParams) (contract.SurveyPage, error) {
	return contract.SurveyorOf(f.Engine).Survey(ctx, namespace, p)
}

// Find implements contract.Finder.
func (f far) Find(ctx context.Context, namespace, id string) (contract.Found, error) {
	return contract.FinderOf(f.Engine).Find(ctx, namespace, id)
}

// Explain implements contract.Explainer.
func (f far) Explain(ctx context.Context, q duly.QueueRef, id string) (contract.Explanation, error) {
	return contract.ExplainerOf(f.Engine).Explain(ctx, q, id)
}

// Keys implements contract.KeyLister.
func (f far) Keys(ctx context.Context, q duly.QueueRef, p contract.KeysParams) (contract.KeyPage, error) {
	return contract.KeyListerOf(f.Engine).Keys(ctx, q, p)
}

// Holder implements contract.KeyLister.
func (f far) Holder(ctx context.Context, q duly.QueueRef, key string) (contract.KeyInfo, error) {
	return contract.KeyListerOf(f.Engine).Holder(ctx, q, key)
}

// WatchCancels implements contract.CancelWatcher.
func (f far) WatchCancels(ctx context.Context, namespace string, w contract.CancelWatch) error {
	return f.Engine.(contract.CancelWatcher).WatchCancels(ctx, namespace, w)
}

// Pass implements contract.Passer.
func (f far) Pass(ctx context.Context, namespace string, queues []string) {
	contract.PasserOf(f.Engine).Pass(ctx, namespace, queues)
}

// numbering adds the number of a wait to its request.
type numbering struct{ *http.Transport }

// RoundTrip implements http.RoundTripper.
func (n numbering) RoundTrip(req *http.Request) (*http.Response, error) {
	if number, ok := req.Context().Value(numberKey{}).(string); ok {
		// A RoundTripper must not change the request of its caller.
		req = req.Clone(req.Context())
		req.Header.Set(numberHeader, number)
	}
	return n.Transport.RoundTrip(req)
}

// numbered returns a handler that moves the number from the request's header to its context.
func numbered(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if number := req.Header.Get(numberHeader); number != "" {
			req = req.WithContext(context.WithValue(req.Context(), numberKey{}, number))
		}
		h.ServeHTTP(w, req)
	})
}
