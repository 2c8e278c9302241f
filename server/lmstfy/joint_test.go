package lmstfy_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/redisengine"
	"github.com/dulymq/duly/server"
)

// The tests in this file send requests with one job each on many connections. An engine joins them
// into few calls.

// onStages runs a test on every engine.
func onStages(t *testing.T, test func(t *testing.T, on *stage)) {
	for name, begin := range stages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, begin(t))
		})
	}
}

// consumed is a job in the answer to a consume.
type consumed struct {
	ID          string `json:"job_id"`
	RemainTries int    `json:"remain_tries"`
}

// consumeAll consumes and acks all ready jobs, and adds them to got.
func (p *play) consumeAll(queue, token string, got map[string]consumed) {
	p.t.Helper()
	for {
		a := p.send("GET", "/api/ns/"+queue+"?count=100&ttr=60", "", "X-Token", token)
		if a.status == http.StatusNotFound {
			return
		}
		var jobs []consumed
		if err := json.Unmarshal([]byte(a.body), &jobs); err != nil {
			p.t.Fatalf("%d %s: %v", a.status, a.body, err)
		}
		for _, j := range jobs {
			p.ackOnce(queue, token, j, got)
		}
	}
}

// ackOnce acks a job that no other consume has returned.
func (p *play) ackOnce(queue, token string, j consumed, got map[string]consumed) {
	p.t.Helper()
	if _, twice := got[j.ID]; twice {
		p.t.Errorf("%s was delivered twice", j.ID)
	}
	got[j.ID] = j
	if a := p.send("DELETE", "/api/ns/"+queue+"/job/"+j.ID, "", "X-Token", token); a.status != http.StatusNoContent {
		p.t.Errorf("the ack of %s is answered %d %s", j.ID, a.status, a.body)
	}
}

// Half of the callers disconnect after their request. Their jobs go to other callers, or are
// released without a try. Only a job that was already sent waits for the end of its lease.
func TestJoinedConsumesLoseNoJobOfDisconnectedCallers(t *testing.T) {
	t.Parallel()
	onStages(t, func(t *testing.T, on *stage) {
		const jobs, callers = 60, 80
		p := open(t, on, nil)
		token := p.token("ns")
		p.push("q", jobs)

		var stay []net.Conn
		for i := range callers {
			if conn := p.dial("/api/ns/q?ttr=60", token); i%2 == 0 {
				conn.Close()
			} else {
				stay = append(stay, conn)
			}
		}
		got := map[string]consumed{}
		for _, conn := range stay {
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			var j consumed
			if err := json.NewDecoder(resp.Body).Decode(&j); err != nil {
				t.Fatal(err)
			}
			conn.Close()
			if resp.StatusCode == http.StatusOK {
				p.ackOnce("q", token, j, got)
			}
		}

		until(t, "every request is over",
			func() bool { return strings.Count(p.log.String(), `"method":"GET"`) == callers })
		p.advance(61 * time.Second)
		until(t, "every job was delivered", func() bool {
			p.consumeAll("q", token, got)
			return len(got) == jobs
		})
		stats, err := p.engine.Stats(t.Context(), ref("q"))
		if err != nil {
			t.Fatal(err)
		}
		tried := int64(0)
		for _, j := range got {
			tried += int64(9 - j.RemainTries)
		}
		if c := stats.Counters; tried != c.Stalled || c.Failed != 0 || c.Delivered != jobs+c.Stalled+c.Released {
			t.Errorf("%d tries were used; the counters are %+v", tried, c)
		}
	})
}

// letThrough publishes or consumes for many callers of a token at the same time. It returns the
// number of callers within its limit.
func (p *play) letThrough(method, token string, callers int) int64 {
	var good atomic.Int64
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			switch a := p.send(method, "/api/ns/q?tries=1&ttr=60", "x", "X-Token", token); a.status {
			case http.StatusOK, http.StatusCreated:
				good.Add(1)
			case http.StatusTooManyRequests:
			default:
				p.t.Errorf("%s: %d %s %v", method, a.status, a.body, a.err)
			}
		})
	}
	all.Wait()
	return good.Load()
}

// Callers with two different tokens share the calls of one queue. Each token gets exactly as many
// jobs as its limit allows.
func TestJoinedCallsKeepTheLimitsOfTokens(t *testing.T) {
	t.Parallel()
	onStages(t, func(t *testing.T, on *stage) {
		const callers = 40
		p := open(t, on, nil)
		limits := map[string]int{}
		for _, limit := range []int{7, 13} {
			secret, _, err := p.s.Guard().Create(t.Context(), contract.Token{
				Namespace: "ns", Rights: contract.RightProduce | contract.RightConsume,
				Limits: contract.Limits{Produce: limit, Consume: limit, Per: time.Hour},
			})
			if err != nil {
				t.Fatal(err)
			}
			limits[secret] = limit
		}

		for _, method := range []string{"PUT", "GET"} {
			var all sync.WaitGroup
			for token, limit := range limits {
				all.Go(func() {
					if n := p.letThrough(method, token, callers); n != int64(limit) {
						t.Errorf("%s: %d calls of a token went through, its limit is %d", method, n, limit)
					}
				})
			}
			all.Wait()
		}
		stats, err := p.engine.Stats(t.Context(), ref("q"))
		if c := stats.Counters; err != nil || c.Pushed != 20 || c.Delivered != 20 {
			t.Errorf("%+v, %v: want 20 jobs pushed and delivered", c, err)
		}
	})
}

// Callers that do not read their answers do not delay other callers. Their jobs come back when they
// disconnect.
func TestSlowCallersDelayNoJoinedCall(t *testing.T) {
	t.Parallel()
	onStages(t, func(t *testing.T, on *stage) {
		const slow, each, fast = 2, 6, 30
		p := open(t, on, nil)
		token := p.token("ns")
		large := strings.Repeat("x", 1<<20)
		for range slow * each {
			if a := p.send("PUT", "/api/ns/q?tries=3", large, "X-Token", token); a.status != http.StatusCreated {
				t.Fatal(a)
			}
		}
		var conns []net.Conn
		for range slow { // such an answer is larger than the sockets' buffers
			conns = append(conns, p.dial(fmt.Sprintf("/api/ns/q?count=%d&ttr=60", each), token))
		}
		leased := func(n int64) func() bool {
			return func() bool {
				s, err := p.engine.Stats(t.Context(), ref("q"))
				return err == nil && s.Sizes.Leased == n
			}
		}
		until(t, "the slow callers have their jobs", leased(slow*each))

		p.push("q", fast)
		var all sync.WaitGroup
		for range fast {
			all.Go(func() {
				if a := p.send("GET", "/api/ns/q?ttr=60", "", "X-Token", token); a.status != http.StatusOK {
					t.Errorf("%d %s %v", a.status, a.body, a.err)
				}
			})
		}
		all.Wait()
		for _, conn := range conns {
			conn.Close()
		}
		until(t, "the jobs of the slow callers are back", leased(fast))
		if s, err := p.engine.Stats(t.Context(), ref("q")); err != nil || s.Sizes.Ready != slow*each ||
			s.Counters.Released != slow*each {
			t.Errorf("%+v %+v %v", s.Sizes, s.Counters, err)
		}
	})
}

// gathered is an engine whose calls start at the same time.
type gathered struct {
	contract.Engine
	come, gone atomic.Int64
	open       chan struct{}
}

func (g *gathered) enter() {
	g.come.Add(1)
	<-g.open
	g.gone.Add(1)
}

// Reserve implements duly.Engine.
func (g *gathered) Reserve(ctx context.Context, p duly.ReserveParams) ([]duly.Delivery, error) {
	g.enter()
	return g.Engine.Reserve(ctx, p)
}

// Settle implements duly.Engine.
func (g *gathered) Settle(ctx context.Context, namespace string, outcomes []duly.SettleRequest) ([]error, error) {
	g.enter()
	return g.Engine.Settle(ctx, namespace, outcomes)
}

// C11.18: while Redis is busy, requests of many connections become few calls to scripts.
func TestRequestsOfManyConnectionsShareScriptCalls(t *testing.T) {
	t.Parallel()
	const callers, most = 64, 16
	redis := redistest.Single(t)
	e, err := redisengine.Open(t.Context(), redisengine.Config{URL: redis.URL(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	g := &gathered{Engine: e}
	p := open(t, &stage{engine: g, registry: e, clock: clock.System()}, nil)
	token := p.token("ns")
	p.push("q", callers)

	targets := make([]string, callers)
	for i := range targets {
		targets[i] = "/api/ns/q?ttr=60"
	}
	for _, method := range []string{"GET", "DELETE"} {
		g.open = make(chan struct{})
		g.come.Store(0)
		g.gone.Store(0)
		var all sync.WaitGroup
		for i := range callers {
			all.Go(func() {
				a := p.send(method, targets[i], "", "X-Token", token)
				var j consumed
				if err := json.Unmarshal([]byte(a.body), &j); err != nil && method == "GET" || a.status/100 != 2 {
					t.Errorf("%s: %d %s", method, a.status, a.body)
				}
				targets[i] = "/api/ns/q/job/" + j.ID
			})
		}
		until(t, "every request has come", func() bool { return g.come.Load() == callers })
		redis.Must("CLIENT", "PAUSE", time.Minute.Milliseconds(), "WRITE")
		calls := scriptCalls(t, redis)
		close(g.open)
		until(t, "every request has reached the engine", func() bool { return g.gone.Load() == callers })
		redis.Must("CLIENT", "UNPAUSE")
		all.Wait()
		if n := scriptCalls(t, redis) - calls; n > most {
			t.Errorf("%d times %s took %d calls of scripts, want at most %d", callers, method, n, most)
		}
	}
}

// scriptCalls returns the number of scripts that the server has run.
func scriptCalls(t *testing.T, s *redistest.Server) (n int) {
	t.Helper()
	stats := fmt.Sprint(s.Must("INFO", "commandstats"))
	for _, found := range regexp.MustCompile(`cmdstat_(?:fcall|evalsha|eval):calls=(\d+)`).FindAllStringSubmatch(stats,
		-1) {
		one, err := strconv.Atoi(found[1])
		if err != nil {
			t.Fatal(err)
		}
		n += one
	}
	return n
}

// fragile is an engine whose Reserve panics for every fourth caller.
type fragile struct {
	contract.Engine
	calls atomic.Int64
}

// Reserve implements duly.Engine.
func (f *fragile) Reserve(ctx context.Context, p duly.ReserveParams) ([]duly.Delivery, error) {
	if f.calls.Add(1)%4 == 0 {
		panic("planted")
	}
	return f.Engine.Reserve(ctx, p)
}

// Only the caller of a panic gets an error. The other callers of the joined call get their jobs.
func TestPanicFailsOnlyItsCaller(t *testing.T) {
	t.Parallel()
	onStages(t, func(t *testing.T, on *stage) {
		const callers = 40
		p := open(t, on, func(c *server.Config) { c.Engine = &fragile{Engine: c.Engine} })
		token := p.token("ns")
		p.push("q", callers)
		var good, bad atomic.Int64
		var all sync.WaitGroup

		for range callers {
			all.Go(func() {
				switch a := p.send("GET", "/api/ns/q?ttr=60", "", "X-Token", token); a.status {
				case http.StatusOK:
					good.Add(1)
				case http.StatusInternalServerError:
					bad.Add(1)
				default:
					t.Error(a)
				}
			})
		}

		all.Wait()
		s, err := p.engine.Stats(t.Context(), ref("q"))
		if err != nil || good.Load() != callers*3/4 || bad.Load() != callers/4 || s.Sizes.Leased != good.Load() {
			t.Errorf("%d callers got a job and %d a panic; %+v, %v", good.Load(), bad.Load(), s.Sizes, err)
		}
	})
}
