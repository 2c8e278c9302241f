package httpengine

import (
	"context"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/batch"
	"github.com/dulymq/duly/internal/wire"
)

// batcher lets concurrent calls of one kind share requests.
//
// A call passes its items as the body of a request. So the call's arguments are not needed after
// the caller has left.
type batcher[R any] struct {
	batch.Batcher[*part[R]]
	// post makes one request. The context has the values of the first caller's context, such as its
	// place in a trace.
	post func(ctx context.Context, body []byte) ([]R, error)
}

// part is one call in a batch.
type part[R any] struct {
	batch.Call
	body    []byte // body of a request with only this call
	results []R
}

// start prepares the batcher. run starts goroutines that Close waits for.
func (b *batcher[R]) start(run func(func()) bool, post func(ctx context.Context, body []byte) ([]R, error)) {
	b.post = post
	b.Send, b.Go = b.send, run
	b.Limits = batch.Limits{Items: duly.MaxBatch, Bytes: duly.MaxBatchBytes}
}

// do sends the items of one call, alone or with others. If the context ends before they are
// sent, do returns the error of the context.
func (b *batcher[R]) do(ctx context.Context, body []byte, items, bytes int) ([]R, error) {
	// Only a call that was not sent may return the error of its context.
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	p := &part[R]{Call: batch.Call{Items: items, Bytes: bytes}, body: body}
	if err := b.Do(ctx, p); err != nil {
		return nil, err
	}
	return p.results, nil
}

// send makes one request for all parts. If the server refuses it as a whole, each
// part is sent alone.
func (b *batcher[R]) send(ctx context.Context, parts []*part[R]) error {
	if len(parts) == 1 {
		p := parts[0]
		p.results, p.Err = b.request(ctx, p.body, p.Items)
		return nil
	}

	bodies, items := make([][]byte, len(parts)), 0
	for i, p := range parts {
		bodies[i] = p.body
		items += p.Items
	}

	results, err := b.request(ctx, wire.Join(bodies), items)
	// A refused request changed nothing, so each call is sent alone and gets its own error.
	if refused(err) {
		for i, p := range parts {
			// A single part stores its own error.
			_ = b.send(context.WithoutCancel(p.Context()), parts[i:i+1])
		}
		return nil
	}
	if err != nil {
		return err
	}

	for _, p := range parts {
		// The capacity is cut, because a caller may append to its results.
		p.results, results = results[:p.Items:p.Items], results[p.Items:]
	}
	return nil
}

func (b *batcher[R]) request(ctx context.Context, body []byte, items int) ([]R, error) {
	results, err := b.post(ctx, body)
	// If the number of results is wrong, results would go to the wrong items.
	if err == nil && len(results) != items {
		err = contract.Errorf(duly.CodeInternal, "the server answered %d items with %d results; every item needs one; the call may have happened",
			items, len(results))
	}
	if err != nil {
		return nil, err
	}
	return results, nil
}

// refused reports whether the server refused the envelope of a request. Such a request has changed
// nothing, so its parts may be sent again.
func refused(err error) bool {
	switch duly.CodeOf(err) {
	case duly.CodeInvalid, duly.CodeTooLarge:
		return true
	}
	return false
}
