package service

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/eventually"
	"github.com/dulymq/duly/internal/porttest"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/open"
)

// caller pushes jobs one after another over one connection. If the connection closes during a
// push, it repeats the push with the same ID over another one.
type caller struct {
	url, token string
	name       string
	transport  *http.Transport
	repeats    int           // how often a push is repeated at most
	pushes     *atomic.Int64 // answered pushes of all callers

	answered []string // IDs of the answered pushes
	repeated int
	failed   []string
}

// run pushes until ctx ends. It completes the last push.
func (c *caller) run(ctx context.Context) {
	for i := 0; ctx.Err() == nil; i++ {
		id := fmt.Sprintf("%s-%d", c.name, i)
		body := fmt.Sprintf(`{"jobs":[{"queue":"rolling","id":%q,"body":"x"}]}`, id)
		if why := c.insist(context.Background(), "/v1/default/push", body, `"outcome":"`); why != "" {
			c.failed = append(c.failed, id+": "+why)
			continue
		}
		c.answered = append(c.answered, id)
		c.pushes.Add(1)
	}
}

// poll repeatedly waits for jobs that are never pushed.
func (c *caller) poll(ctx context.Context) {
	for ctx.Err() == nil {
		why := c.insist(ctx, "/v1/default/reserve", `{"queues":["never"],"wait":"1m"}`, `{"deliveries":[]}`)
		if why != "" && ctx.Err() == nil {
			c.failed = append(c.failed, why)
		}
	}
}

// insist sends a request. It repeats it if there was no connection or a closed one, and returns
// what is wrong with the answer.
func (c *caller) insist(ctx context.Context, path, body, want string) (why string) {
	for try := 0; ; try++ {
		why, closed := c.post(ctx, path, body, want)
		if !closed || try == c.repeats || ctx.Err() != nil {
			return why
		}
		c.repeated++
		if try > 0 {
			time.Sleep(10 * time.Millisecond)
		}
	}
}

// post returns what is wrong with the answer, and whether there was no answer.
func (c *caller) post(ctx context.Context, path, body, want string) (why string, closed bool) {
	req, err := http.NewRequestWithContext(ctx, "POST", c.url+path, strings.NewReader(body))
	if err != nil {
		return err.Error(), false
	}
	req.GetBody = nil // so that net/http does not repeat the request
	req.Header.Set("Authorization", "Bearer "+c.token)
	resp, err := c.transport.RoundTrip(req)
	if err != nil {
		c.transport.CloseIdleConnections()
		return err.Error(), true
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return err.Error(), true
	}
	if resp.StatusCode != http.StatusOK || !strings.Contains(string(b), want) {
		return fmt.Sprintf("%d %.200s", resp.StatusCode, b), false
	}
	return "", false
}

// load is a number of callers.
type load struct {
	all     []*caller
	pushes  atomic.Int64 // number of answered pushes
	stop    context.CancelFunc
	running sync.WaitGroup
}

const (
	callers = 8
	pollers = 2
)

func startLoad(t *testing.T, url, token string, repeats int) *load {
	ctx, stop := context.WithCancel(context.Background())
	l := &load{stop: stop}
	t.Cleanup(stop)
	for i := range callers + pollers {
		c := &caller{url: url, token: token, name: fmt.Sprintf("c%d", i), transport: &http.Transport{}, repeats: repeats,
			pushes: &l.pushes}
		l.all = append(l.all, c)
		work := c.run
		if i >= callers {
			work = c.poll
		}
		l.running.Go(func() {
			defer c.transport.CloseIdleConnections()
			work(ctx)
		})
	}
	return l
}

// goesOn waits until this many more pushes were answered.
func (l *load) goesOn(t *testing.T, pushes int64) {
	t.Helper()
	until := l.pushes.Load() + pushes
	eventually.True(t, fmt.Sprintf("%d pushes more", pushes), func() bool { return l.pushes.Load() >= until })
}

// end stops the load. It returns the IDs of the answered pushes and the number of repeated calls.
func (l *load) end(t *testing.T) (answered []string, repeated int) {
	t.Helper()
	l.stop()
	l.running.Wait()
	for _, c := range l.all {
		answered = append(answered, c.answered...)
		repeated += c.repeated
		for _, why := range c.failed {
			t.Errorf("a call failed even when it was repeated: %s", why)
		}
	}
	return answered, repeated
}

// holdsOnce checks that every job whose push was answered is stored exactly once.
func holdsOnce(t *testing.T, e contract.Engine, answered []string) {
	t.Helper()
	found := map[string]int{}
	p := duly.ListParams{State: duly.StateReady}
	for p.Limit = duly.MaxBatch; ; {
		page, err := e.List(t.Context(), duly.Q("rolling"), p)
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range page.Jobs {
			found[j.ID]++
		}
		if p.Cursor = page.Next; p.Cursor == "" {
			break
		}
	}
	for _, id := range answered {
		if found[id] != 1 {
			t.Errorf("job %s is stored %d times, although its push was answered", id, found[id])
		}
	}
	for id, n := range found {
		if n != 1 {
			t.Errorf("job %s is stored %d times", id, n)
		}
	}
}

// TestRollingRestartLosesNothing restarts two servers on one Redis in turn, behind a balancer and
// under load. Clients repeat a call once if their connection was closed. No push is lost, each
// job is stored exactly once, and long polls end without a job.
func TestRollingRestartLosesNothing(t *testing.T) {
	t.Parallel()
	for name, delay := range map[string]time.Duration{"AtOnce": 0, "WithADelay": 300 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			redis := redistest.Single(t)
			first := serve(t, redis.URL(), "-addr", porttest.Address(t), "-drain-delay", delay.String())
			token := first.token
			servers := []*served{first, serve(t, redis.URL(), "-addr", porttest.Address(t), "-drain-delay", delay.String(),
				"-token=false")}
			b := balance(t, delay > 0, servers[0].address, servers[1].address)
			l := startLoad(t, b.url(), token, 1)
			restarts := 0
			for range counts(2, 20) {
				for i, s := range servers {
					s.stop()
					time.Sleep(50 * time.Millisecond) // the other server has all the load
					servers[i] = serve(t, redis.URL(), "-addr", s.address, "-drain-delay", delay.String(), "-token=false")
					restarts++
					l.goesOn(t, 100)
				}
			}
			answered, repeated := l.end(t)
			t.Logf("%d restarts, %d pushes were answered, %d calls were repeated once", restarts, len(answered), repeated)
			holdsOnce(t, opened(t, servers[0].url, token), answered)
		})
	}
}

// TestRestartOnOneFileLosesNothing restarts the only server of a file, so that no server listens
// for a while. Clients repeat calls until one does. Nothing is lost, and no job is stored twice.
func TestRestartOnOneFileLosesNothing(t *testing.T) {
	t.Parallel()
	file := onFile(t)
	s := serve(t, file, "-addr", porttest.Address(t))
	token := s.token
	l := startLoad(t, s.url, token, 1<<20)
	restarts := counts(3, 30)
	for range restarts {
		l.goesOn(t, 50)
		s.stop()
		s = serve(t, file, "-addr", s.address, "-token=false")
	}
	l.goesOn(t, 50)
	answered, repeated := l.end(t)
	t.Logf("%d restarts, %d pushes were answered, %d attempts found no server", restarts, len(answered), repeated)
	holdsOnce(t, opened(t, s.url, token), answered)
}

// opened returns a server as an engine.
func opened(t *testing.T, url, token string) contract.Engine {
	t.Helper()
	e, err := open.Engine(t.Context(), strings.Replace(url, "http://", "http://"+token+"@", 1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}
