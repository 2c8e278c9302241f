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

// rest finds out when everything that a test has set off over real sockets has
// come to rest, as synctest.Wait does in a bubble. It has when two things hold:
//
//   - every Wait that is open at a client is parked in the server's engine, and
//     none is parked there whose client has gone: so nothing is on the wire,
//     where nobody could see it;
//   - every goroutine that the test has begun, or that those have begun, is
//     blocked: so nothing has been woken that has not run yet.
type rest struct {
	root goroutines.ID // the test's own goroutine
	turn *turn

	mu           sync.Mutex
	change       *sync.Cond
	last         int
	open, parked map[string]bool // waits, by the number that they carry
}

// newRest is called on the test's goroutine, before it begins anything.
func newRest() *rest {
	r := &rest{root: goroutines.Own(), open: map[string]bool{}, parked: map[string]bool{}}
	r.change = sync.NewCond(&r.mu)
	return r
}

// quiet blocks until everything has come to rest.
func (r *rest) quiet() {
	for {
		r.mu.Lock()
		for !maps.Equal(r.open, r.parked) {
			r.change.Wait()
		}
		r.mu.Unlock()
		if r.stays() {
			return
		}
		runtime.Gosched()
	}
}

// stays tells whether nothing moves, also after what is between two sockets has
// been seen: the first turn may be that of a poller which had looked already.
func (r *rest) stays() bool {
	for range 2 {
		if !r.still() {
			return false
		}
		r.turn.take()
	}
	return r.still()
}

// still tells whether nothing moves at this moment.
func (r *rest) still() bool { return !goroutines.Busy(r.root) && r.level() }

// level tells whether both ends still agree.
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

// left blocks until the server has noticed that a wait's client has gone, which
// no client can know: a test that goes on means a server that knows.
func (r *rest) left(number string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.parked[number] {
		r.change.Wait()
	}
}

// numberKey is what a Wait's context carries its number under.
type numberKey struct{}

// numberHeader is what carries it to the server.
const numberHeader = "X-Wait-Number"

// near is a client whose waits are numbered.
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
	r.enter(r.open, number)
	defer r.leave(r.open, number)
	err := wait(context.WithValue(ctx, numberKey{}, number))
	if err != nil {
		r.left(number)
	}
	return err
}

// Survey implements contract.Surveyor.
func (n near) Survey(ctx context.Context, namespace string, p duly.PageParams) (contract.SurveyPage, error) {
	return contract.SurveyorOf(n.Engine).Survey(ctx, namespace, p)
}

// WatchCancels implements contract.CancelWatcher.
func (n near) WatchCancels(ctx context.Context, namespace string, w contract.CancelWatch) error {
	return n.Engine.(contract.CancelWatcher).WatchCancels(ctx, namespace, w)
}

// far is the server's engine, told which wait is whose.
type far struct {
	contract.Engine
	rest *rest
}

// Wait implements duly.Engine.
func (f far) Wait(ctx context.Context, p duly.WaitParams) (bool, error) {
	defer f.rest.parks(ctx)()
	return f.Engine.Wait(ctx, p)
}

// parks notes that a numbered call waits in the engine, until the function that it
// returns is called.
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

// WatchCancels implements contract.CancelWatcher.
func (f far) WatchCancels(ctx context.Context, namespace string, w contract.CancelWatch) error {
	return f.Engine.(contract.CancelWatcher).WatchCancels(ctx, namespace, w)
}

// Pass implements contract.Passer.
func (f far) Pass(ctx context.Context, namespace string, queues []string) {
	contract.PasserOf(f.Engine).Pass(ctx, namespace, queues)
}

// numbering puts a wait's number into its request.
type numbering struct{ *http.Transport }

// RoundTrip implements http.RoundTripper.
func (n numbering) RoundTrip(req *http.Request) (*http.Response, error) {
	if number, ok := req.Context().Value(numberKey{}).(string); ok {
		req = req.Clone(req.Context())
		req.Header.Set(numberHeader, number)
	}
	return n.Transport.RoundTrip(req)
}

// numbered takes it out again.
func numbered(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if number := req.Header.Get(numberHeader); number != "" {
			req = req.WithContext(context.WithValue(req.Context(), numberKey{}, number))
		}
		h.ServeHTTP(w, req)
	})
}
