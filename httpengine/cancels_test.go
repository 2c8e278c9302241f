package httpengine_test

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/httpengine"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/wire"
)

// feed answers polls with the answers of a test. Without an answer, a poll waits for the next one.
type feed struct {
	answers chan func(http.ResponseWriter)

	mu    sync.Mutex
	polls []wire.CanceledAsk
}

func newFeed() *feed { return &feed{answers: make(chan func(http.ResponseWriter), 1000)} }

func (f *feed) serve(w http.ResponseWriter, req *http.Request) {
	var b strings.Builder
	_, _ = readAll(&b, req)
	ask, err := wire.CanceledAskForm.ReadRequest(b.String())
	if err != nil || req.URL.Path != "/v1/shop/canceled" {
		panic(err)
	}
	f.mu.Lock()
	f.polls = append(f.polls, ask)
	f.mu.Unlock()
	select {
	case answer := <-f.answers:
		answer(w)
	case <-time.After(ask.Wait):
		reply(w, 200, string(wire.CanceledForm.Append(nil, wire.Canceled{Cursor: ask.After})))
	case <-req.Context().Done():
	}
}

// put adds an answer with its cursor.
func (f *feed) put(cursor string, any bool, canceled ...contract.Canceled) {
	f.answers <- func(w http.ResponseWriter) {
		reply(w, 200, string(wire.CanceledForm.Append(nil,
			wire.Canceled{Canceled: canceled, Any: any, Cursor: cursor})))
	}
}

// fail adds an error as an answer.
func (f *feed) fail(err error) {
	f.answers <- func(w http.ResponseWriter) { problem(w, err) }
}

// asked returns the cursors of the polls so far, and clears the list.
func (f *feed) asked() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var cursors []string
	for _, p := range f.polls {
		cursors = append(cursors, strconv.Quote(p.After))
	}
	f.polls = nil
	return strings.Join(cursors, " ")
}

// watcher records the reports of one watch.
type watcher struct {
	end context.CancelFunc

	mu    sync.Mutex
	got   []string
	ended error
}

func (r *rig) watch(namespace string) *watcher {
	ctx, end := context.WithCancel(r.t.Context())
	w := &watcher{end: end}

	note := func(what string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.got = append(w.got, what)
	}
	go func() {
		err := r.WatchCancels(ctx, namespace, contract.CancelWatch{
			Ready: func() { note("ready") },
			Canceled: func(c contract.Canceled) {
				if c.IDs == nil {
					c.IDs = []string{"*"}
				}
				note(c.Queue + "/" + strings.Join(c.IDs, ","))
			},
		})
		w.mu.Lock()
		defer w.mu.Unlock()
		w.ended = err
	}()

	synctest.Wait()
	return w
}

// said returns the reports so far, and clears the list.
func (w *watcher) said() string {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	got := strings.Join(w.got, " ")
	w.got = nil
	return got
}

func (w *watcher) err() error {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ended
}

func follow(t *testing.T, test func(t *testing.T, r *rig, f *feed)) {
	t.Helper()
	f := newFeed()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(uptime)
		f.answers = make(chan func(http.ResponseWriter), 1000) // created inside the synctest bubble
		test(t, newRig(t, httpengine.Config{}, f.serve), f)
	})
}

func wantText(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// C14.47: all watchers share one long poll, which continues from its cursor and ends with the last
// watcher.
func TestWatchersShareALongPoll(t *testing.T) {
	follow(t, func(t *testing.T, r *rig, f *feed) {
		f.put("c1", true)
		first, second := r.watch(""), r.watch("shop")
		f.put("c2", false, contract.Canceled{Queue: "q", IDs: []string{"a", "b"}}, contract.Canceled{Queue: "p"})
		for _, w := range []*watcher{first, second} {
			wantText(t, "a watcher", w.said(), "ready q/a,b p/*")
		}
		time.Sleep(2 * time.Minute)
		wantText(t, "polls", f.asked(), `"" "c1" "c2" "c2" "c2"`)

		first.end()
		if err := first.err(); !errors.Is(err, context.Canceled) {
			t.Errorf("it ended with %v", err)
		}
		f.put("c3", false, contract.Canceled{Queue: "q", IDs: []string{"c"}})
		wantText(t, "the other one", second.said(), "q/c")
		second.end()
		time.Sleep(2 * time.Minute)
		wantText(t, "polls", f.asked(), `"c3"`)
	})
}

// C4.98, C14.47: a lost connection leaves no gap while the server knows the cursor.
// Otherwise the watchers check all leases.
func TestWatchReconnects(t *testing.T) {
	follow(t, func(t *testing.T, r *rig, f *feed) {
		f.put("c1", true)
		w := r.watch("shop")
		f.answers <- func(w http.ResponseWriter) { hijack(w).Close() }
		f.fail(duly.ErrUnavailable)
		f.fail(duly.ErrClosed)
		f.put("c2", false, contract.Canceled{Queue: "q", IDs: []string{"a"}})
		time.Sleep(5 * time.Second)
		wantText(t, "without a gap", w.said(), "ready q/a")
		wantText(t, "polls", f.asked(), `"" "c1" "c1" "c1" "c1" "c2"`)

		f.put("d1", true)
		wantText(t, "after a gap", w.said(), "ready")
		if err := w.err(); err != nil {
			t.Errorf("the watch ended with %v", err)
		}
	})
}

// C14.47: a watch pauses after an early answer, and after a failure. After an answer, the next pause
// is short again.
func TestWatchPausesAfterAnEarlyAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, c := newFeed(), clock.NewFake()
		c.Advance(uptime)
		r := newRig(t, httpengine.Config{Clock: c}, f.serve)
		polls := func(after time.Duration, want int) {
			t.Helper()
			c.Advance(after)
			synctest.Wait()
			if n := len(strings.Fields(f.asked())); n != want {
				t.Errorf("%d polls, want %d", n, want)
			}
		}

		f.put("c1", false)
		f.fail(duly.ErrUnavailable)
		f.fail(duly.ErrUnavailable)
		f.fail(duly.ErrUnavailable)
		r.watch("shop")
		polls(0, 1)
		polls(499*time.Millisecond, 0)
		polls(time.Millisecond, 1)
		polls(250*time.Millisecond, 1)
		polls(500*time.Millisecond, 1)

		f.put("c2", true)
		f.fail(duly.ErrUnavailable)
		polls(time.Second, 2)
		f.put("c3", true)
		polls(250*time.Millisecond, 1)
	})
}

// C14.47: a permanent error ends the watch, for instance of a server without the route.
func TestWatchEndsWithPermanentError(t *testing.T) {
	for _, want := range []error{duly.ErrNotFound, duly.ErrUnsupported, duly.ErrUnauthorized, duly.ErrForbidden} {
		t.Run(string(duly.CodeOf(want)), func(t *testing.T) {
			follow(t, func(t *testing.T, r *rig, f *feed) {
				f.fail(want)
				if err := r.watch("shop").err(); !errors.Is(err, want) {
					t.Errorf("the watch ended with %v, want %v", err, want)
				}
				wantText(t, "polls", f.asked(), `""`)
			})
		})
	}
}

// later returns the error of a server with a Retry-After.
func later(d time.Duration) error {
	return wire.Own(&duly.Error{Code: duly.CodeUnavailable, RetryAfter: d, Message: "later"})
}

// C14.47: a server that repeatedly fails, drains or has lost all reports gets few requests.
func TestWatchFloodsNoServer(t *testing.T) {
	for name, tt := range map[string]struct {
		put  func(f *feed)
		most int // largest number of polls within ten seconds
	}{
		"fails":              {func(f *feed) { f.fail(duly.ErrUnavailable) }, 12},
		"asks for patience":  {func(f *feed) { f.fail(later(5 * time.Second)) }, 3},
		"drains":             {func(f *feed) { f.put("c", false) }, 21},
		"has lost all":       {func(f *feed) { f.put("c", true) }, 12},
		"asks for very much": {func(f *feed) { f.fail(later(time.Hour)) }, 2},
	} {
		t.Run(name, func(t *testing.T) {
			follow(t, func(t *testing.T, r *rig, f *feed) {
				for range 500 {
					tt.put(f)
				}
				w := r.watch("shop")
				time.Sleep(10*time.Second - time.Millisecond)
				if n := len(strings.Fields(f.asked())); n > tt.most || n < 1 {
					t.Errorf("%d polls in ten seconds, want at most %d", n, tt.most)
				}
				time.Sleep(10 * time.Second)
				if n := len(strings.Fields(f.asked())); n < 1 || w.err() != nil {
					t.Errorf("%d more in the next ten, ended with %v", n, w.err())
				}
			})
		})
	}
}

// C13.13: Close ends every watch. A watch of a foreign namespace is refused without a request.
func TestCloseEndsEveryWatch(t *testing.T) {
	follow(t, func(t *testing.T, r *rig, f *feed) {
		if err := r.watch("other").err(); !errors.Is(err, duly.ErrForbidden) {
			t.Errorf("another namespace: %v", err)
		}
		f.put("c1", true)
		w := r.watch("")
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if err := w.err(); !errors.Is(err, duly.ErrClosed) {
			t.Errorf("the watch ended with %v", err)
		}
		if err := r.watch("").err(); !errors.Is(err, duly.ErrClosed) {
			t.Errorf("a later watch ended with %v", err)
		}
	})
}
