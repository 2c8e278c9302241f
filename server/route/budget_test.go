package route

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/dulymq/duly/internal/eventually"
)

// fakeTime gives a budget a fake time, and stops its timer.
func fakeTime(b *budget) (now *time.Duration) {
	now, b.armed = new(time.Duration), true
	b.now = func() time.Duration { return *now }
	return now
}

func shareOf(owner ...string) *share { return &share{owner: owned(owner...)} }

// mustTake reserves bytes, which must be free.
func (b *budget) mustTake(t *testing.T, s *share, n int64) {
	t.Helper()
	if !b.try(s, n) {
		t.Fatalf("%d bytes for %v were refused", n, s.owner)
	}
}

// queue makes a share wait for memory, and returns when it waits. The channel closes when the share
// gets its memory.
func (b *budget) queue(t *testing.T, ctx context.Context, s *share, n int64) (granted chan struct{}) {
	t.Helper()
	before := b.waiters()
	granted = make(chan struct{})
	go func() {
		if b.take(ctx, s, n) == nil {
			close(granted)
		}
	}()
	for b.waiters() == before {
		runtime.Gosched()
	}
	return granted
}

func (b *budget) waiters() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.waiting)
}

// mustBeEmpty checks that the budget has no used memory, no account and no waiting call.
func (b *budget) mustBeEmpty(t *testing.T) {
	t.Helper()
	if b.all.held != 0 || b.all.users != 0 || len(b.all.children) != 0 || len(b.waiting) != 0 || len(b.slow) != 0 ||
		b.beyond != nil || b.cutting != nil {
		t.Errorf("left behind: %d bytes, %d users, %d accounts, %d waiting, %d slow, beyond %v, cutting %v",
			b.all.held, b.all.users, len(b.all.children), len(b.waiting), len(b.slow), b.beyond, b.cutting)
	}
}

// fill reserves single bytes until the budget refuses one.
func (b *budget) fill(owner ...string) *share {
	s := shareOf(owner...)
	for b.try(s, 1) {
	}
	return s
}

// One owner gets at most three quarters of the free memory above it, so the next owner gets memory
// at once.
func TestBudgetLeavesRoomForOtherOwners(t *testing.T) {
	t.Parallel()
	b := newBudget(6400)

	greedy := b.fill("a", "token 1")
	if greedy.held != 3600 { // three quarters of three quarters of the budget
		t.Errorf("one token took %d of 6400, want 3600", greedy.held)
	}
	second := b.fill("a", "token 2")
	if total := greedy.held + second.held; second.held < 600 || total > 4800 {
		t.Errorf("another token of the namespace took %d, the namespace %d; want at least 600, at most 4800",
			second.held, total)
	}
	other := b.fill("b", "token 3")
	if other.held < 1000 {
		t.Errorf("another namespace took %d", other.held)
	}
	for _, s := range []*share{greedy, second, other} {
		b.release(s)
	}
	b.mustBeEmpty(t)
}

// A namespace whose calls wait does not delay the calls of another namespace.
func TestBudgetServesOwnersIndependently(t *testing.T) {
	t.Parallel()
	b := newBudget(6400)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	greedy, beyond := b.fill("a", "token"), shareOf("a", "token")
	if err := b.take(t.Context(), beyond, 1); err != nil || !beyond.beyond {
		t.Fatalf("%v, beyond %v: want the call beyond the budget", err, beyond.beyond)
	}
	first, second := shareOf("a", "token"), shareOf("a", "token")
	waits := b.queue(t, ctx, first, 100)
	waitsToo := b.queue(t, t.Context(), second, 1)
	other := shareOf("b", "token")
	b.mustTake(t, other, 1000)
	b.release(other)

	b.set(greedy, greedy.held-1)
	select {
	case <-waitsToo:
		t.Error("a small call overtook a large one of its owner")
	default:
	}
	cancel() // ends the large call
	eventually.Receive(t, "memory", waitsToo)
	select {
	case <-waits:
		t.Error("a call that left was granted memory")
	default:
	}
	for _, s := range []*share{greedy, beyond, first, second} {
		b.release(s)
	}
	b.mustBeEmpty(t)
}

// Growing requests that keep their memory do not deadlock: one request at a time is served outside
// of the budget.
func TestBudgetGrowingCallsDoNotBlockEachOther(t *testing.T) {
	t.Parallel()
	b := newBudget(320)
	shares := make([]*share, 5)
	for i := range shares {
		shares[i] = shareOf("a", "token")
		b.mustTake(t, shares[i], 32)
	}

	var all sync.WaitGroup
	for _, s := range shares { // 20 bytes are free, and each request needs 96 more
		all.Go(func() {
			defer b.release(s)
			for range 3 {
				if err := b.take(t.Context(), s, 32); err != nil {
					t.Error(err)
				}
				b.mu.Lock()
				if b.all.held > 180 {
					t.Errorf("%d bytes are held in the budget, want at most 180", b.all.held)
				}
				b.mu.Unlock()
			}
		})
	}
	all.Wait()
	b.mustBeEmpty(t)
}

// The call beyond the budget is chosen from the owner with the most room.
func TestBudgetGoesBeyondForThePoorestOwner(t *testing.T) {
	t.Parallel()
	b := newBudget(6400)
	rich := b.fill("a", "token")
	first := shareOf("a", "token")
	if err := b.take(t.Context(), first, 1); err != nil { // first is the call outside the budget
		t.Fatal(err)
	}
	richWaits, poorWaits := shareOf("a", "token"), shareOf("b", "token")
	b.queue(t, t.Context(), richWaits, 1)
	poor := b.queue(t, t.Context(), poorWaits, 5000)
	b.release(first)
	eventually.Receive(t, "memory", poor)

	if !poorWaits.beyond || richWaits.held != 0 {
		t.Errorf("the poor owner's call is beyond the budget: %v; the rich one has %d", poorWaits.beyond,
			richWaits.held)
	}
	b.set(poorWaits, 10)
	if poorWaits.beyond {
		t.Error("a call that fits into the budget again still is beyond it")
	}
	for _, s := range []*share{rich, poorWaits, richWaits} {
		b.release(s)
	}
	b.mustBeEmpty(t)
}

// cutRecorder creates shares whose cut function records their names.
type cutRecorder []string

func (r *cutRecorder) share(t *testing.T, b *budget, name string, n int64, slow time.Duration, owner ...string) *share {
	t.Helper()
	s := shareOf(owner...)
	s.cut = func() { *r = append(*r, name) }
	b.mustTake(t, s, n)
	b.slowAt(s, slow)
	return s
}

// While a call waits, slow calls are cut one at a time: the slowest call of the owner with the most
// memory.
func TestBudgetCutsTheSlowestOfTheRichest(t *testing.T) {
	t.Parallel()
	b := newBudget(6400)
	now := fakeTime(b)
	var cuts cutRecorder
	fast := cuts.share(t, b, "fast", 500, time.Hour, "a", "token")
	slow := cuts.share(t, b, "slow", 500, 2*time.Second, "a", "token")
	slowest := cuts.share(t, b, "slowest", 500, time.Second, "a", "token")
	frugal := cuts.share(t, b, "frugal", 10, 0, "b", "token")
	rest := b.fill("a", "token")
	beyond := shareOf("a", "token")
	if err := b.take(t.Context(), beyond, 1); err != nil {
		t.Fatal(err)
	}
	*now = 3 * time.Second
	b.tick()
	if len(cuts) > 0 {
		t.Fatalf("%v were cut although no call waits", cuts)
	}

	waits := shareOf("a", "token")
	granted := b.queue(t, t.Context(), waits, 700)
	if !slices.Equal(cuts, cutRecorder{"slowest"}) {
		t.Errorf("%v were cut, want the slowest", cuts)
	}
	b.tick()
	if len(cuts) != 1 {
		t.Errorf("%v were cut before the first one gave back", cuts)
	}
	b.release(slowest)
	if !slices.Equal(cuts, cutRecorder{"slowest", "slow"}) {
		t.Errorf("%v were cut, want the next one too", cuts)
	}
	b.release(slow)
	eventually.Receive(t, "memory", granted)
	for _, s := range []*share{fast, frugal, rest, beyond, waits} {
		b.release(s)
	}
	b.mustBeEmpty(t)
}

// The call outside the budget is cut first. While an owner with more room waits, even a fast
// call outside the budget has only limited time.
func TestBudgetCutsTheCallBeyondItFirst(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		waits string
		after time.Duration
		cut   bool
	}{
		{"a", beyondTime, false},
		{"b", beyondTime - 1, false},
		{"b", beyondTime, true},
		{"a", time.Hour, true}, // has been slow for an hour
	} {
		b := newBudget(6400)
		now := fakeTime(b)
		var cuts cutRecorder
		rest := b.fill("a", "token")
		beyond := shareOf("a", "token")
		beyond.cut = func() { cuts = append(cuts, "beyond") }
		if err := b.take(t.Context(), beyond, 1); err != nil {
			t.Fatal(err)
		}
		b.slowAt(beyond, time.Hour)
		*now = c.after
		waits := shareOf(c.waits, "token")
		granted := b.queue(t, t.Context(), waits, 6000)
		if cut := len(cuts) == 1; cut != c.cut {
			t.Errorf("%s waits, after %s: cut %v, want %v", c.waits, c.after, cut, c.cut)
		}
		b.release(beyond)
		eventually.Receive(t, "memory", granted)
		b.release(rest)
		b.release(waits)
		b.mustBeEmpty(t)
	}
}

// A call that does not depend on its caller's speed is not cut. A call that has returned its memory
// is not cut either.
func TestBudgetCutsNoBusyCall(t *testing.T) {
	t.Parallel()
	b := newBudget(6400)
	now := fakeTime(b)
	var cuts cutRecorder
	busy := cuts.share(t, b, "busy", 1, 0, "a", "token")
	b.busy(busy)
	gone := cuts.share(t, b, "gone", 1, 0, "a", "token")
	b.release(gone)
	b.slowAt(gone, 0)
	rest := b.fill("a", "token")

	waiting := cuts.share(t, b, "waiting", 0, 0, "a", "token")
	if err := b.take(t.Context(), waiting, 1); err != nil { // is served outside the budget
		t.Fatal(err)
	}
	*now = time.Hour
	waits := shareOf("a", "token")
	granted := b.queue(t, t.Context(), waits, 1)
	b.tick()
	if len(cuts) > 0 {
		t.Errorf("%v were cut", cuts)
	}
	for _, s := range []*share{busy, rest, waiting} {
		b.release(s)
	}
	eventually.Receive(t, "memory", granted)
	b.release(waits)
	b.mustBeEmpty(t)
}

// Memory that is set without a reservation counts like other memory.
func TestBudgetCountsUnreservedMemory(t *testing.T) {
	t.Parallel()
	b := newBudget(6400)
	s := shareOf("a", "token")
	b.set(s, 100)
	if s.held != 100 || b.all.held != 100 {
		t.Errorf("%d bytes are held, of all %d, want 100", s.held, b.all.held)
	}
	b.release(s)
	b.mustBeEmpty(t)
}
