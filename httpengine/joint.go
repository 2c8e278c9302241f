package httpengine

import (
	"context"
	"sync"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/wire"
)

// joint lets concurrent calls of one kind share requests: while one request is
// on its way, calls gather; when its answer is there, those that fit into one
// request go out together.
//
// A call brings its items as the text of a request of its own, so that what it
// was called with need not live longer than it waits.
type joint[R any] struct {
	// send makes one request. Its context has the values of its caller's, such as
	// its place in a trace: of several, the first one's. It does not end with it.
	send func(ctx context.Context, body []byte) ([]R, error)
	// calls counts the goroutine that sends.
	calls *sync.WaitGroup

	mu     sync.Mutex
	line   []*part[R]
	flying bool
}

// part is one call in a joint.
type part[R any] struct {
	ctx   context.Context // for its values
	body  []byte          // a request of this call alone
	items int
	bytes int // of bodies

	done    chan struct{} // closed once the answer is there
	results []R
	err     error
}

// do sends the items of one call, alone or in company. A caller that goes
// before they are sent has sent nothing, and gets its context's own error.
func (j *joint[R]) do(ctx context.Context, body []byte, items, bytes int) ([]R, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	p := &part[R]{ctx: context.WithoutCancel(ctx), body: body, items: items, bytes: bytes, done: make(chan struct{})}
	j.mu.Lock()
	j.line = append(j.line, p)
	if !j.flying {
		j.flying = true
		j.calls.Add(1)
		go j.fly()
	}
	j.mu.Unlock()
	select {
	case <-p.done:
		return p.results, p.err
	case <-ctx.Done():
	}
	if j.withdraw(p) {
		return nil, ctx.Err()
	}
	select {
	case <-p.done: // it came at the same moment
		return p.results, p.err
	default:
		return nil, unanswered(ctx)
	}
}

// withdraw takes a call out of the line; false: it has been sent.
func (j *joint[R]) withdraw(p *part[R]) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	for i, other := range j.line {
		if other == p {
			j.line = append(j.line[:i], j.line[i+1:]...)
			return true
		}
	}
	return false
}

// fly sends until nobody is in the line.
func (j *joint[R]) fly() {
	defer j.calls.Done()
	for parts := j.next(); len(parts) > 0; parts = j.next() {
		j.answer(parts)
		for _, p := range parts {
			close(p.done)
		}
	}
}

// next takes from the line what fits into one request: at least the first.
func (j *joint[R]) next() []*part[R] {
	j.mu.Lock()
	defer j.mu.Unlock()
	items, bytes, n := 0, 0, 0
	for _, p := range j.line {
		items, bytes = items+p.items, bytes+p.bytes
		if n > 0 && (items > duly.MaxBatch || bytes > duly.MaxBatchBytes) {
			break
		}
		n++
	}
	if n == 0 {
		j.flying = false
		j.line = nil
		return nil
	}
	parts := j.line[:n:n]
	j.line = j.line[n:]
	return parts
}

// answer gives every part its results or its error.
func (j *joint[R]) answer(parts []*part[R]) {
	if len(parts) == 1 {
		parts[0].results, parts[0].err = j.request(parts[0].ctx, parts[0].body, parts[0].items)
		return
	}
	bodies, items := make([][]byte, len(parts)), 0
	for i, p := range parts {
		bodies[i] = p.body
		items += p.items
	}
	results, err := j.request(parts[0].ctx, wire.Join(bodies), items)
	if refused(err) {
		for i := range parts {
			j.answer(parts[i : i+1])
		}
		return
	}
	for _, p := range parts {
		if err != nil {
			p.err = err
			continue
		}
		p.results, results = results[:p.items:p.items], results[p.items:]
	}
}

func (j *joint[R]) request(ctx context.Context, body []byte, items int) ([]R, error) {
	results, err := j.send(ctx, body)
	if err == nil && len(results) != items {
		err = duly.Errorf(duly.CodeInternal, "the server answered %d items with %d results; it may have happened", items, len(results))
	}
	if err != nil {
		return nil, err
	}
	return results, nil
}

// refused tells whether a request was turned away at its envelope, so that
// nothing of it has happened and its parts may be sent again.
func refused(err error) bool {
	switch duly.CodeOf(err) {
	case duly.CodeInvalid, duly.CodeTooLarge:
		return true
	}
	return false
}
