package cancelfeed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/wire"
)

// engine is a watcher. The test makes its reports.
type engine struct {
	late bool // whether the test itself calls Ready
	fail chan error

	mu      sync.Mutex
	watches map[string]contract.CancelWatch // running watches by namespace
	begun   int
}

func newEngine() *engine {
	return &engine{watches: map[string]contract.CancelWatch{}, fail: make(chan error)}
}

// of returns the running watch of a namespace.
func (e *engine) of(namespace string) (w contract.CancelWatch, there bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	w, there = e.watches[namespace]
	return w, there
}

// counts returns how many watches run, and how many have begun.
func (e *engine) counts() (running, begun int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.watches), e.begun
}

func (e *engine) set(namespace string, w *contract.CancelWatch) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if w == nil {
		delete(e.watches, namespace)
		return
	}
	e.watches[namespace] = *w
	e.begun++
}

func (e *engine) WatchCancels(ctx context.Context, namespace string, w contract.CancelWatch) error {
	e.set(namespace, &w)
	defer e.set(namespace, nil)
	if !e.late {
		w.Ready()
	}
	select {
	case err := <-e.fail:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// rig is Feeds on an engine, in a synctest bubble.
type rig struct {
	*Feeds
	t      *testing.T
	engine *engine
	clock  *clock.Fake
}

func inBubble(t *testing.T, test func(t *testing.T, r *rig)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, engine: newEngine(), clock: clock.NewFake()}
		r.Feeds = New(Config{Watcher: r.engine, Clock: r.clock})
		test(t, r)
		r.Close()
		if n, _ := r.engine.counts(); n != 0 {
			t.Errorf("%d watches outlive Close", n)
		}
	})
}

// poll polls without waiting, after all goroutines are idle.
func (r *rig) poll(namespace, after string) Reports {
	r.t.Helper()
	clock.Sleep(r.t.Context(), clock.System(), pace)
	synctest.Wait()
	answer, err := r.Poll(r.t.Context(), namespace, Query{After: after})
	if err != nil {
		r.t.Fatal(err)
	}
	return answer
}

// open opens a feed and returns its first cursor.
func (r *rig) open(namespace string) string {
	r.t.Helper()
	first := r.poll(namespace, "")
	answer := r.poll(namespace, first.Cursor)
	if !first.Any && !answer.Any {
		r.t.Fatalf("answers %+v and %+v to a new caller, want any", first, answer)
	}
	return answer.Cursor
}

// wait polls in the background.
func (r *rig) wait(ctx context.Context, after string) <-chan Reports {
	answers := make(chan Reports, 1)
	go func() {
		answer, _ := r.Poll(ctx, "shop", Query{After: after, Wait: time.Minute})
		answers <- answer
	}()
	synctest.Wait()
	return answers
}

func ids(n int) (list []string) {
	for i := range n {
		list = append(list, fmt.Sprintf("job:%06d", i))
	}
	return list
}

// C14.47: a caller that continues from its cursor gets each report once. Adjacent
// reports of one queue are joined.
func TestCursorContinues(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		at := r.open("shop")
		w, _ := r.engine.of("shop")
		w.Canceled(contract.Canceled{Queue: "q", IDs: []string{"a"}})
		w.Canceled(contract.Canceled{Queue: "q", IDs: []string{"b", "c"}})
		w.Canceled(contract.Canceled{Queue: "p"})
		w.Canceled(contract.Canceled{Queue: "q", IDs: []string{"d"}})

		first := r.poll("shop", at)
		want := `[{q [a b c]} {p []} {q [d]}]`
		if got := fmt.Sprint(first.Canceled); first.Any || got != want || first.Canceled[1].IDs != nil {
			t.Errorf("any %t, %s, want %s", first.Any, got, want)
		}
		if again := r.poll("shop", at); fmt.Sprint(again) != fmt.Sprint(first) {
			t.Errorf("the same cursor returned %+v, want the same answer", again)
		}
		if next := r.poll("shop", first.Cursor); next.Any || len(next.Canceled) > 0 {
			t.Errorf("the next cursor returned %+v, want no report", next)
		}
		if _, n := r.engine.counts(); n != 1 {
			t.Errorf("%d watches for one namespace", n)
		}
	})
}

// C14.47: a cursor without a position in the feed returns any. The answer does not
// repeat its text.
func TestUnknownCursorReturnsAny(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		at, other := r.open("shop"), r.open("other")
		feed, _, _ := strings.Cut(at, ".")
		for _, after := range []string{
			"", "x", "duly_CANARY.1", feed, feed + ".", feed + ".-1", feed + ".x", feed + ".99", other, ",,.",
		} {
			answer := r.poll("shop", after)
			if !answer.Any || !strings.HasPrefix(answer.Cursor, feed+".") || strings.Contains(answer.Cursor, "CANARY") {
				t.Errorf("%q: %+v", after, answer)
			}
			if next := r.poll("shop", answer.Cursor); next.Any {
				t.Errorf("after %q: any again", after)
			}
		}
	})
}

// C14.47: a caller behind a load balancer continues where it was on each server. Its
// cursor stays short.
func TestCursorHasPositionPerServer(t *testing.T) {
	inBubble(t, func(t *testing.T, here *rig) {
		there := &rig{t: t, engine: newEngine(), clock: here.clock}
		there.Feeds = New(Config{Watcher: there.engine, Clock: here.clock})
		defer there.Close()
		at := here.open("shop")
		there.open("shop")
		first := there.poll("shop", at)
		if !first.Any {
			t.Errorf("the first answer of the other server: %+v", first)
		}

		for _, r := range []*rig{here, there} { // removes a job through each server
			w, _ := r.engine.of("shop")
			w.Canceled(contract.Canceled{Queue: "q", IDs: []string{"a"}})
		}
		at = first.Cursor
		for i, r := range []*rig{here, there, here, there} {
			answer := r.poll("shop", at)
			if at = answer.Cursor; answer.Any || (len(answer.Canceled) == 1) != (i < 2) {
				t.Errorf("poll %d: %+v", i, answer)
			}
		}

		for range 2 * maxServers {
			at = readCursor(at).with(position{duly.NewNumber().String(), 1 << 63})
		}
		if n := len(readCursor(at)); n != maxServers || len(at) > wire.MaxCursor {
			t.Errorf("%d places in %d bytes, want %d in at most %d", n, len(at), maxServers, wire.MaxCursor)
		}
	})
}

// C14.47: a feed keeps no more than its maximum. A caller that polls too late gets the answer any,
// and continues with its cursor.
func TestFeedSizeIsBounded(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		at := r.open("shop")
		w, _ := r.engine.of("shop")
		feed := r.feeds["shop"]
		for _, id := range ids(20_000) {
			w.Canceled(contract.Canceled{Queue: "q", IDs: []string{id}})
			if feed.size > maxBytes || len(feed.entries) > maxBytes/sizeOfEntry {
				t.Fatalf("%d entries of %d bytes, at most %d may be kept", len(feed.entries), feed.size, maxBytes)
			}
		}

		late := r.poll("shop", at)
		if !late.Any || len(late.Canceled) > 0 {
			t.Errorf("too late: any %t and %d reports", late.Any, len(late.Canceled))
		}
		w.Canceled(contract.Canceled{Queue: "q", IDs: []string{"last"}})
		if next := r.poll("shop", late.Cursor); next.Any || fmt.Sprint(next.Canceled) != "[{q [last]}]" {
			t.Errorf("then: %+v", next)
		}

		at = r.poll("shop", late.Cursor).Cursor
		w.Canceled(contract.Canceled{Queue: "q", IDs: ids(5000)})
		if got := r.poll("shop", at); got.Any || len(got.Canceled) != 1 || got.Canceled[0].IDs != nil {
			t.Errorf("5000 jobs in one report: any %t, %d reports", got.Any, len(got.Canceled))
		}
	})
}

// C14.47: reports within a short time wake the callers once.
func TestReportsAreBatched(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		at := r.open("shop")
		w, _ := r.engine.of("shop")
		const jobs = 200

		go func() {
			for _, id := range ids(jobs) {
				w.Canceled(contract.Canceled{Queue: "q", IDs: []string{id}})
				clock.Sleep(t.Context(), clock.System(), time.Millisecond)
			}
		}()

		answers, got := 0, 0
		for begin := clock.Monotonic(); got < jobs; answers++ {
			answer := <-r.wait(t.Context(), at)
			at = answer.Cursor
			for _, c := range answer.Canceled {
				got += len(c.IDs)
			}
			if answer.Any || len(answer.Canceled) == 0 || clock.Monotonic()-begin > time.Second {
				t.Fatalf("%d of %d reports after %s: %+v", got, jobs, clock.Monotonic()-begin, answer)
			}
		}
		if answers > 10 {
			t.Errorf("%d answers in 200 ms", answers)
		}
	})
}

// C14.47: a caller waits until the engine's watch has begun. A gap in the watch returns
// any.
func TestGapReturnsAny(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.engine.late = true
		first := r.wait(t.Context(), "")
		if len(first) > 0 {
			t.Errorf("answered %+v before the watch began", <-first)
		}
		r.clock.Advance(time.Minute)
		early := <-first
		if early.Any || len(early.Canceled) > 0 {
			t.Errorf("after the time has passed: %+v", early)
		}

		next := r.wait(t.Context(), early.Cursor)
		for range 2 {
			w, _ := r.engine.of("shop")
			w.Ready()
			answer := <-next
			if !answer.Any {
				t.Errorf("after a gap: %+v", answer)
			}
			next = r.wait(t.Context(), answer.Cursor)
		}
		if len(next) > 0 {
			t.Errorf("without a gap: %+v", <-next)
		}
		r.clock.Advance(time.Minute)
		<-next
	})
}

// C14.47: a feed without callers closes after linger, and its watch ends.
func TestFeedClosesWithoutCallers(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		running := func() int { n, _ := r.engine.counts(); return n }
		if running() != 0 {
			t.Fatal("a namespace without callers is watched")
		}

		at := r.open("shop")
		r.clock.Advance(linger - time.Second)
		if at = r.poll("shop", at).Cursor; running() != 1 {
			t.Fatal("the feed has closed too early")
		}
		r.clock.Advance(linger - time.Second)
		if r.poll("shop", at).Any {
			t.Error("the feed has closed although it was polled")
		}
		r.clock.Advance(linger)
		synctest.Wait()
		if running() != 0 || len(r.feeds) != 0 {
			t.Error("the feed is open without callers")
		}

		if again := r.open("shop"); again == at || running() != 1 {
			t.Errorf("%d watches, cursor %s", running(), again)
		}
	})
}

// C14.47: the number of feeds is bounded. A new feed replaces the one that has been without callers
// for longest, and never a feed with callers.
func TestNumberOfFeedsIsBounded(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, maxFeeds)
		for i := range maxFeeds {
			name := fmt.Sprint("n", i)
			at := r.open(name)
			r.clock.Advance(time.Millisecond)
			if i > 0 {
				go func() {
					_, err := r.Poll(ctx, name, Query{After: at, Wait: time.Hour})
					ended <- err
				}()
			}
		}
		synctest.Wait()

		r.open("one more")
		_, there := r.engine.of("n0")
		if n, _ := r.engine.counts(); there || n != maxFeeds {
			t.Errorf("%d watches, the idle one among them: %t", n, there)
		}

		r.mu.Lock()
		r.feeds["one more"].callers++ // simulates a caller of this feed
		r.mu.Unlock()
		_, err := r.Poll(ctx, "too many", Query{})
		var e *duly.Error
		if !errors.As(err, &e) || e.Code != duly.CodeUnavailable || e.RetryAfter != retryAfter {
			t.Fatalf("one too many: %v", err)
		}
		if !strings.Contains(e.Message, "1000 other namespaces") {
			t.Errorf("the error does not name the bound: %s", e.Message)
		}

		stop()
		for range maxFeeds - 1 {
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("a poll ended with %v", err)
			}
		}
	})
}

// C14.47: a failed watch ends the polls of its namespace with the engine's error. The
// next poll starts another watch.
func TestFailedWatchEndsPolls(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		at := r.open("shop")
		errs := make(chan error, 2)
		for range 2 {
			go func() {
				_, err := r.Poll(t.Context(), "shop", Query{After: at, Wait: time.Minute})
				errs <- err
			}()
		}
		synctest.Wait()

		broken := errors.New("broken")
		r.engine.fail <- broken
		if a, b := <-errs, <-errs; a != broken || b != broken {
			t.Errorf("the polls ended with %v and %v", a, b)
		}
		again := r.open("shop")
		if _, n := r.engine.counts(); again == at || n != 2 {
			t.Errorf("%d watches, cursor %s", n, again)
		}
	})
}

// C14.47: waiting callers are counted, and Close ends every wait.
func TestPollsAreCountedAndEndWithClose(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		waiting := 0
		var counts []int
		f := New(Config{
			Watcher: newEngine(), Clock: clock.NewFake(),
			Polling: func(n int) { waiting += n; counts = append(counts, n) },
		})
		first, err := f.Poll(t.Context(), "shop", Query{Wait: time.Minute})
		if err != nil || !first.Any {
			t.Fatal(first, err)
		}

		ended := make(chan error)
		go func() {
			_, err := f.Poll(t.Context(), "shop", Query{After: first.Cursor, Wait: time.Minute})
			ended <- err
		}()
		synctest.Wait()

		if waiting != 1 {
			t.Errorf("%d callers are counted while one waits", waiting)
		}

		go f.Close()
		if err := <-ended; !errors.Is(err, duly.ErrClosed) {
			t.Errorf("the wait ended with %v", err)
		}
		if waiting != 0 || slices.Max(counts) != 1 {
			t.Errorf("%d callers are counted at the end", waiting)
		}
		if _, err := f.Poll(t.Context(), "shop", Query{}); !errors.Is(err, duly.ErrClosed) {
			t.Errorf("closed feeds answer %v", err)
		}
	})
}
