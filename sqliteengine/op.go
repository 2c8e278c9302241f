package sqliteengine

import (
	"cmp"
	"slices"
	"sync/atomic"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/batch"
)

// txLimits limits one transaction, and so the time that its first caller waits for the last
// operation.
var txLimits = batch.Limits{Items: 2000, Bytes: 2 * duly.MaxBatchBytes}

// op is an operation that the writer runs.
type op struct {
	batch.Call
	// run runs the operation in a transaction that it shares with others. If that
	// transaction fails, run is called again, so it must reset its results first.
	run func(t *tx) error
	// space is how much disk space the operation needs.
	space spaceClass
	// kind says which operations share statements with this one.
	kind    opKind
	reserve *reserveCall // set for a Reserve; earlier Reserves of the transaction use it to size their reads
	// abandoned is called if the operation succeeded and its caller has left.
	abandoned func()
	// done, if set, is called with the result instead of answering a caller.
	done func(error)

	err error
}

// items returns a batch.Call of that size.
func items(n int) batch.Call { return batch.Call{Items: n} }

// answer delivers the result of the operation.
func (o *op) answer(err error) {
	switch {
	case o.done != nil:
		o.done(err)
	case !o.Answer(err) && err == nil && o.abandoned != nil:
		o.abandoned()
	}
}

// start marks the operation as running. It returns an error if the caller has left,
// and the operation must then be skipped.
func (o *op) start() error {
	// The writer's own operations have no context.
	if o.Context() == nil || o.Send() {
		return nil
	}
	return o.Context().Err()
}

// inbox queues operations for the writer.
type inbox struct {
	batch.Queue[*op]
	pollRequested atomic.Bool   // whether the writer must poll the queues with waiters
	signals       chan struct{} // wakes the writer; holds at most one signal
}

func (b *inbox) init() {
	b.signals = make(chan struct{}, 1)
	b.Size = func(o *op) (items, bytes int) { return o.Items, o.Bytes }
}

// close makes the inbox refuse new operations. The writer still takes the queued operations.
func (b *inbox) close() {
	b.Close()
	b.signal()
}

// signal wakes the writer.
func (b *inbox) signal() {
	select {
	case b.signals <- struct{}{}:
	default:
	}
}

// requestPoll makes the writer poll the waited queues.
func (b *inbox) requestPoll() {
	b.pollRequested.Store(true)
	b.signal()
}

// opKind is a kind of operations that share statements. All operations of a transaction are
// called before any of them is answered, so their order is free. Sharing makes many callers
// with one job each cost little more than one caller with all the jobs.
type opKind int

// The kinds of operations, in the order in which a transaction runs them. Reserves come last,
// because they find the jobs that the other operations push or free.
const (
	opPush opKind = iota - 2
	opDelete
	opOther // the zero value: the operation shares no statements
	opReserve
)

// sortByKind sorts operations by kind.
func sortByKind(ops []*op) {
	slices.SortStableFunc(ops, func(a, b *op) int { return cmp.Compare(a.kind, b.kind) })
}
