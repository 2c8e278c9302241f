package bench

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/proctest"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/open"
	"github.com/dulymq/duly/server/webhook/dispatch"
	"github.com/dulymq/duly/server/webhook/guard"
	"github.com/dulymq/duly/server/webhook/target"
)

// pushHosts is the number of addresses of the receiver. A dispatcher gives each host at most a
// quarter of its slots.
const pushHosts = 4

// TestPushedJobsPerSecond sends a backlog to a receiver on this machine, with signatures. It
// compares this with a loop of bare POST requests with as many in flight.
func TestPushedJobsPerSecond(t *testing.T) {
	measures(t)
	jobs := 500
	if proctest.Long() {
		jobs = 100_000
	}
	for _, engine := range []string{"Redis", "SQLite"} {
		for _, version := range []string{"v1", "v1a"} {
			t.Run(engine+"/"+version, func(t *testing.T) {
				measures(t)
				e := pushEngine(t, engine)
				rc := newCounter(t, pushHosts)
				d := sends(t, e, rc, version)
				rc.push(t, e, jobs, time.Time{}, 0)

				bare := rc.bare(t, jobs)
				rc.got.Store(0)
				began := time.Now()
				d.run(t)
				redistest.Await(t, "the jobs to be acked", func() bool { return acked(t, e) == int64(jobs) })
				rate := float64(jobs) / time.Since(began).Seconds()
				t.Logf("%d jobs: %.0f/s, %.0f %% of %.0f/s bare requests", jobs, rate, rate/bare*100, bare)
				if n := rc.got.Load(); n < int64(jobs) {
					t.Errorf("the receiver got %d requests for %d jobs", n, jobs)
				}
			})
		}
	}
}

// TestPushedJobsAreOnTime sends jobs that are due at 1000 per second.
func TestPushedJobsAreOnTime(t *testing.T) {
	measures(t)
	jobs := 500
	if proctest.Long() {
		jobs = 10_000
	}
	for _, engine := range []string{"Redis", "SQLite"} {
		t.Run(engine, func(t *testing.T) {
			measures(t)
			e := pushEngine(t, engine)
			rc := newCounter(t, pushHosts)
			sends(t, e, rc, "v1").run(t)
			rc.push(t, e, jobs, time.Now().Add(2*time.Second), time.Millisecond)
			redistest.Await(t, "the jobs to be acked", func() bool { return acked(t, e) == int64(jobs) })

			rc.mu.Lock()
			defer rc.mu.Unlock()
			slices.Sort(rc.late)
			p := func(of int) time.Duration { return rc.late[len(rc.late)*of/1000].Round(10 * time.Microsecond) }
			t.Logf("%d jobs at 1000/s: late by p50 %s, p99 %s, p99.9 %s", len(rc.late), p(500), p(990), p(999))
			if rc.late[0] < 0 {
				t.Errorf("a request arrived %s before its job was due", -rc.late[0])
			}
		})
	}
}

// pushStore is an engine that stores targets.
type pushStore interface {
	contract.Engine
	contract.Targeter
	io.Closer
}

func pushEngine(t *testing.T, name string) pushStore {
	t.Helper()
	url := ""
	if name == "Redis" {
		url = redistest.Single(t, redistest.AOF("everysec")).URL()
	} else {
		url = open.File(filepath.Join(t.TempDir(), "duly.db"))
	}
	e, err := open.Engine(t.Context(), url, open.Log(slog.New(slog.DiscardHandler)), open.Gather())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e.(pushStore)
}

func acked(t *testing.T, e pushStore) (n int64) {
	t.Helper()
	s, err := e.Stats(t.Context(), duly.Q("hooks"))
	if err != nil {
		t.Fatal(err)
	}
	return s.Counters.Acked
}

// counter is a trivial receiver with several addresses.
type counter struct {
	hosts []string
	hangs atomic.Bool // if set, the first address does not answer
	got   atomic.Int64

	mu   sync.Mutex
	late []time.Duration
}

// newCounter returns a receiver with this many addresses.
func newCounter(t *testing.T, hosts int) *counter {
	rc := &counter{}
	for range hosts {
		s := httptest.NewServer(rc)
		t.Cleanup(s.Close)
		rc.hosts = append(rc.hosts, s.URL)
	}
	return rc
}

// ServeHTTP counts a request. If its body begins with a time, it notes how late the request is.
func (rc *counter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	now := time.Now()
	body, _ := io.ReadAll(r.Body)
	if rc.hangs.Load() && strings.HasSuffix(rc.hosts[0], r.Host) {
		<-r.Context().Done()
		return
	}
	rc.got.Add(1)
	if at, _, ok := strings.Cut(string(body), " "); ok {
		ms, _ := strconv.ParseInt(at, 10, 64)
		rc.mu.Lock()
		rc.late = append(rc.late, now.Sub(time.UnixMilli(ms)))
		rc.mu.Unlock()
	}
	w.WriteHeader(http.StatusNoContent)
}

// push pushes jobs of 100 bytes. The first is due at due, and each other one a step later. With
// the zero time all are due now.
func (rc *counter) push(t *testing.T, e duly.Engine, n int, due time.Time, step time.Duration) {
	t.Helper()
	for i := 0; i < n; i += duly.MaxBatch {
		batch := make([]duly.Job, min(duly.MaxBatch, n-i))
		for j := range batch {
			batch[j] = duly.Job{Queue: "hooks", Callback: fmt.Sprint("target:h", (i+j)%len(rc.hosts)),
				Body: []byte(strings.Repeat("x", 100))}
			if !due.IsZero() {
				at := due.Add(time.Duration(i+j) * step).Truncate(time.Millisecond)
				batch[j].Due = at
				batch[j].Body = fmt.Appendf(nil, "%-100d", at.UnixMilli())
			}
		}
		results, err := e.Push(t.Context(), batch)
		if err != nil || results[0].Err != nil {
			t.Fatal(err, results[0].Err)
		}
	}
}

// bare returns the requests per second of a loop with as many requests in flight as a dispatcher
// may have.
func (rc *counter) bare(t *testing.T, n int) float64 {
	t.Helper()
	const inFlight = 256
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: inFlight}}
	defer client.CloseIdleConnections()
	body := strings.Repeat("x", 100)
	var sent atomic.Int64
	var all sync.WaitGroup
	began := time.Now()
	for i := range inFlight {
		all.Go(func() {
			for sent.Add(1) <= int64(n) {
				resp, err := client.Post(rc.hosts[i%len(rc.hosts)], "application/octet-stream", strings.NewReader(body))
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		})
	}
	all.Wait()
	return float64(n) / time.Since(began).Seconds()
}

// sender is a dispatcher of an engine with the targets of a receiver.
type sender struct{ *dispatch.Dispatcher }

func sends(t *testing.T, e pushStore, rc *counter, version string) sender {
	t.Helper()
	keys, err := target.OpenKeys(filepath.Join(t.TempDir(), "push.key"))
	if err != nil {
		t.Fatal(err)
	}
	g, err := guard.New(guard.Config{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	if err != nil {
		t.Fatal(err)
	}
	store := target.NewStore(e, keys, g, nil)
	for i, host := range rc.hosts {
		if err := store.Put(t.Context(), duly.DefaultNamespace, fmt.Sprint("h", i),
			target.Settings{URL: host, Sign: []string{version}}, nil); err != nil {
			t.Fatal(err)
		}
	}
	resolver := target.NewResolver(store, e)
	t.Cleanup(resolver.Close)
	watcher, _ := e.(contract.Watcher)
	return sender{dispatch.New(dispatch.Config{
		Engine: e, Queues: dispatch.QueuesOf(e, watcher, nil, resolver.Refresh), Resolver: resolver,
		Log: slog.New(slog.DiscardHandler),
	})}
}

// run runs the dispatcher until the test ends.
func (d sender) run(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
