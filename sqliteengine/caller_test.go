package sqliteengine

import (
	"context"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
)

// leaving is the context of a caller whose deadline passes at the worst time: just after the writer
// has started the call, and reads the arguments after the caller has left and reused its memory.
// leaving is also the writer's clock, so it notices when the writer starts a call.
type leaving struct {
	context.Context
	*leavingClock
	ended chan struct{}
	moved chan struct{} // closed once the caller has reused its memory
	looks atomic.Int32  // number of reads of the context before the writer's own read
	after int32
}

type leavingClock struct {
	duly.Clock
	caller atomic.Pointer[leaving] // the caller whose call the writer has started
}

func (c *leavingClock) Now() time.Time {
	if l := c.caller.Swap(nil); l != nil {
		close(l.ended)
		<-l.moved
	}
	return c.Clock.Now()
}

func newLeaving(t *testing.T, c *leavingClock, looks int32) *leaving {
	return &leaving{Context: t.Context(), leavingClock: c, ended: make(chan struct{}), moved: make(chan struct{}),
		after: looks}
}

func (l *leaving) Done() <-chan struct{} { return l.ended }

func (l *leaving) Err() error {
	switch n := l.looks.Add(1); {
	case n <= l.after:
		return nil
	case n == l.after+1:
		l.caller.Store(l)
		return nil
	}
	return context.DeadlineExceeded
}

// C4.2: a call in flight continues after its caller's deadline. The caller may reuse its arguments
// at that time.
func TestCallKeepsItsArgumentsAfterDeadline(t *testing.T) {
	t.Parallel()
	c := &leavingClock{Clock: clock.System()}
	e, err := Open(t.Context(), Config{Path: filepath.Join(t.TempDir(), "duly.db"), Clock: c})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	push := func(ctx context.Context, jobs ...duly.Job) error { _, err := e.Push(ctx, jobs); return err }
	for _, body := range []string{"one", "two"} {
		if err := push(t.Context(), duly.Job{Queue: "q", ID: body, Body: []byte(body), Retain: time.Hour}); err != nil {
			t.Fatal(err)
		}
	}
	got, err := e.Reserve(t.Context(), duly.ReserveParams{Queues: []string{"q"}, Max: 2})
	if err != nil || len(got) != 2 {
		t.Fatal(got, err)
	}

	ctx := newLeaving(t, c, 1)
	body := []byte("mine")
	if push(ctx, duly.Job{Queue: "p", ID: "mine", Body: body}) == nil {
		t.Fatal("the push was answered although its caller has gone")
	}
	copy(body, "else")
	close(ctx.moved)

	ctx = newLeaving(t, c, 2)
	result := []byte("good")
	outcomes := []duly.SettleRequest{{Receipt: got[0].Receipt, As: duly.Ack, Result: result},
		{Receipt: got[1].Receipt, As: duly.Bury, Error: "broken"}}
	if _, err := e.Settle(ctx, "", outcomes); err == nil {
		t.Fatal("the settle was answered although its caller has gone")
	}
	copy(result, "evil")
	outcomes[1] = duly.SettleRequest{Receipt: "q:0:01J0000000000000000000000A:1", As: duly.Ack}
	close(ctx.moved)

	if err := push(t.Context(), duly.Job{Queue: "q"}); err != nil { // runs after the calls that are in flight
		t.Fatal(err)
	}
	if j, err := e.Get(t.Context(), duly.Q("p"), "mine"); err != nil || string(j.Body) != "mine" {
		t.Errorf("stored %q, %v", j.Body, err)
	}
	if j, err := e.Get(t.Context(), duly.Q("q"), "one"); err != nil || string(j.Result) != "good" {
		t.Errorf("the result is %q, %v", j.Result, err)
	}
	if j, err := e.Get(t.Context(), duly.Q("q"), "two"); err != nil || j.State != duly.StateDead ||
		j.LastError != "broken" {
		t.Errorf("the buried job is %v with %q, %v", j.State, j.LastError, err)
	}
}
