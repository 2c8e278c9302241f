package route

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/dulymq/duly"
)

func TestTheBudgetServesInLineAndLosesNothing(t *testing.T) {
	t.Parallel()
	b := newBudget(100)
	ctx, cancel := context.WithCancel(t.Context())
	take := func(ctx context.Context, n int64) chan *share {
		got := make(chan *share, 1)
		before := b.waiters()
		go func() {
			s := new(share)
			b.take(ctx, s, n)
			got <- s
		}()
		for len(got) == 0 && b.waiters() == before { // it has its part, or stands in line
		}
		return got
	}
	first := <-take(t.Context(), 1000) // all that there is
	if first.held != 100 {
		t.Fatalf("%d of 100", first.held)
	}
	big, small := take(ctx, 80), take(t.Context(), 30)
	if len(big)+len(small) != 0 {
		t.Error("there was more than there is")
	}
	cancel()
	if s := <-big; s.held != 0 {
		t.Errorf("who left has %d", s.held)
	}
	big = take(t.Context(), 80)
	b.give(first)
	s := <-small
	if s.held != 30 || len(big) != 0 {
		t.Errorf("%d, want 30; %d overtook", s.held, len(big))
	}
	b.give(s)
	b.give(<-big)
	if b.free != 100 || len(b.queue) != 0 || b.over {
		t.Errorf("%d left of 100, %d in line", b.free, len(b.queue))
	}
}

// Requests that grow and keep what they have must not all wait for each other.
func TestGrowingRequestsDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	b := newBudget(100)
	shares := make([]share, 5)
	for i := range shares {
		if err := b.take(t.Context(), &shares[i], 20); err != nil {
			t.Fatal(err)
		}
	}
	var all sync.WaitGroup
	for i := range shares { // there is nothing left, and each wants 60 more
		all.Go(func() {
			defer b.give(&shares[i])
			for range 3 {
				if err := b.take(t.Context(), &shares[i], 20); err != nil {
					t.Error(err)
				}
				if b.mostUsed() > 160 {
					t.Error("more than the budget and one request was given")
				}
			}
		})
	}
	all.Wait()
	if b.free != 100 || len(b.queue) != 0 || b.over {
		t.Errorf("%d left of 100, %d in line", b.free, len(b.queue))
	}
}

// Where somebody waits, slow ones are cut off one by one, and nobody who has
// given back already.
func TestSlowOnesAreCutOffWhereOthersWait(t *testing.T) {
	t.Parallel()
	b := newBudget(100)
	var cuts []int
	shares := make([]*share, 3)
	for i := range shares {
		shares[i] = new(share)
		if err := b.take(t.Context(), shares[i], 30); err != nil {
			t.Fatal(err)
		}
		b.keep(shares[i], 33) // a little more than was thought
	}
	gone := new(share)
	b.give(gone)
	b.slow(gone, func() { t.Error("who has gone is cut off") })
	for i, s := range shares {
		b.slow(s, func() { cuts = append(cuts, i) })
	}
	if len(cuts) > 0 {
		t.Errorf("%v are cut off although nobody waits", cuts)
	}
	waited := make(chan *share)
	go func() {
		s := new(share)
		b.take(t.Context(), s, 60)
		waited <- s
	}()
	for b.waiters() == 0 {
		runtime.Gosched()
	}
	if !slices.Equal(cuts, []int{0}) {
		t.Errorf("%v are cut off, want the first alone", cuts)
	}
	b.give(shares[0])
	if !slices.Equal(cuts, []int{0, 1}) {
		t.Errorf("%v are cut off, want the second as well", cuts)
	}
	b.give(shares[1])
	s := <-waited
	b.give(shares[2])
	b.give(s)
	if len(cuts) != 2 || b.free != 100 || b.cutting || len(b.slows) > 0 {
		t.Errorf("%v were cut off, %d left of 100, %d slow", cuts, b.free, len(b.slows))
	}
}

func (b *budget) mostUsed() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.size - b.free
}

func (b *budget) waiters() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.queue)
}

// C14.10: every spelling that means two things is refused, and no clean path
// is.
func TestPaths(t *testing.T) {
	t.Parallel()
	for path, clean := range map[string]bool{
		"/": true, "/a": true, "/a.b/c..d/..e/.f": true, "/a/...": true, "/%41": true, "/a%3Ab": true, "/a%20b": true,
		"/.": false, "/..": false, "/a/.": false, "/a/..": false, "/./a": false, "/../a": false, "/a/../b": false, "/a/./b": false,
		"/a/": false, "//": false, "//a": false, "/a//b": false, "/a%2Fb": false, "/a%2fb": false, "/a%00": false, "/%2e": false, "/%2e%2E/a": false, "/.%2e": false, "/a/.%2f": false,
	} {
		r := httptest.NewRequest("GET", "http://x"+path, nil)
		if err := checkPath(r); (err == nil) != clean {
			t.Errorf("%s: %v", path, err)
		}
	}
	if err := checkPath(httptest.NewRequest("GET", "/"+strings.Repeat("x", MaxURL), nil)); err == nil {
		t.Error("a long URL is clean")
	}
}

// What checkPath lets through, the mux takes as it is: it never redirects.
func FuzzPaths(f *testing.F) {
	for _, s := range []string{"/v1/a/queues/b", "/..", "/a/%2e%2e", "//a", "/a/", "/a%2fb", "/a/./b", "/%00"} {
		f.Add(s)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	mux.HandleFunc("GET /v1/{namespace}/queues/{queue}", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	f.Fuzz(func(t *testing.T, path string) {
		r, err := http.NewRequest("GET", "http://x"+path, nil)
		if err != nil || r.URL.Host != "x" {
			return
		}
		r.RequestURI = path
		if checkPath(r) != nil {
			return
		}
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		if w.Code != http.StatusTeapot {
			t.Errorf("%q: %d %v", path, w.Code, w.Header())
		}
	})
}

// X14: whatever comes in, what goes into the log is one line of ASCII.
func FuzzLine(f *testing.F) {
	f.Add("a\nb\x1b[31m\u2028\xff")
	f.Fuzz(func(t *testing.T, text string) {
		line := Line(text)
		for i := range len(line) {
			if line[i] < 0x20 || line[i] >= 0x7f {
				t.Errorf("%q becomes %q", text, line)
			}
		}
		if len(line) > 500 {
			t.Errorf("%d bytes", len(line))
		}
	})
}

// What a caller asks for that is not there is no fault of the server's: nobody
// is woken at night by it.
func TestALogTellsTheCallersMistakesFromTheServers(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]string{400: "INFO", 501: "INFO", 500: "ERROR", 503: "ERROR", 507: "ERROR"} {
		var out strings.Builder
		c := &Call{R: httptest.NewRequest("GET", "/", nil), status: status, err: duly.ErrInvalid, route: &Route{},
			host: &Host{Log: slog.New(slog.NewTextHandler(&out, nil))}}
		c.log()
		if !strings.Contains(out.String(), "level="+want) {
			t.Errorf("%d: %s", status, out.String())
		}
	}
}

// A log has an error in one line, without what is secret in a URL.
func TestFaultIsOneLineWithoutSecrets(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"dial redis://me:CANARY@host:1?db=2&password=CANARY&x=1": "dial redis://***@host:1?db=2&password=***&x=1",
		"two\nlines\x1b[31m, ä":                                  "two?lines?[31m, ??",
		"TOKEN=CANARY said \"no\"":                               `TOKEN=*** said "no"`,
	} {
		if got := Fault(errors.New(text)); got != want {
			t.Errorf("%q is logged as %q, want %q", text, got, want)
		}
	}
}
