package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/httpengine"
	"github.com/dulymq/duly/internal/porttest"
	"github.com/dulymq/duly/internal/proctest"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/open"
	"github.com/dulymq/duly/test/servertest"
)

// TestPushedJobsReachTheirReceivers kills the servers that send jobs to receivers. The receivers
// have every fault: they fail, hang, drip, redirect, hang up, restart and throttle. Every job is
// accepted by its receiver or dead after its last try. A receiver gets a job again only if its
// answer was lost or a server was killed.
//
// C16.11, C16.15, C16.62 to C16.69, C16.73, C16.79
func TestPushedJobsReachTheirReceivers(t *testing.T) {
	t.Parallel()
	t.Run("Redis", func(t *testing.T) {
		t.Parallel()
		sendThroughKills(t, redistest.Single(t).URL(), 2)
	})
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		sendThroughKills(t, open.File(filepath.Join(t.TempDir(), "duly.db")), 1)
	})
}

const (
	// pushTimeout bounds one request. On a busy machine, a request may take a second to reach its receiver.
	pushTimeout = 2 * time.Second
	// settled is how long after the receiver's answer a job may still be unsettled. A server that
	// is killed in that time causes another request.
	settled   = 5 * time.Second
	pushLease = 3 * time.Second
	// failingTries is the number of tries of a job that its receiver never accepts.
	failingTries = 3
)

// pushTrial sends jobs from servers that are killed.
type pushTrial struct {
	t         *testing.T
	engine    string
	servers   []*servertest.Server
	client    *httpengine.Engine // connected to the first server
	receivers []*hurtReceiver

	mu    sync.Mutex
	kills []time.Time
	again map[string]bool // jobs whose push was repeated
}

func sendThroughKills(t *testing.T, engine string, servers int) {
	jobs, receivers, kills := 600, 10, 4
	least, most := 500*time.Millisecond, 1500*time.Millisecond
	if proctest.Long() {
		jobs, receivers, kills = 100_000, 50, 60
		least, most = 2*time.Second, 5*time.Second
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))

	p := &pushTrial{t: t, engine: engine, again: map[string]bool{}}
	keys := filepath.Join(t.TempDir(), "push.key")
	for range servers {
		p.servers = append(p.servers, servertest.Start(t, engine, "-addr", porttest.Address(t), "-push-keys", keys))
	}
	var err error
	p.client, err = httpengine.Open(t.Context(), httpengine.Config{URL: servertest.EngineURL(p.servers[0].Address(),
		p.servers[0].Token)})
	must(t, err)
	t.Cleanup(func() { p.client.Close() })
	for i := range receivers {
		p.receivers = append(p.receivers, newHurtReceiver(t, i, seed))
		p.register(i)
	}

	var pushed sync.WaitGroup
	pushed.Go(func() { p.push(jobs) })
	for n := 0; n < kills || p.open() > 0 && proctest.Long(); n++ {
		restUpTo(r, least, most)
		p.kill(r.IntN(len(p.servers)), keys)
		for i, rc := range p.receivers {
			if rc.kind == oftenRestarts || i == n%len(p.receivers) {
				rc.restart()
			}
		}
		if n > 100*kills {
			t.Fatalf("%d kills, and some jobs have not ended", n)
		}
	}
	pushed.Wait()
	p.awaitEnd()
	p.judge(jobs)
}

// register creates the target of a receiver.
func (p *pushTrial) register(i int) {
	p.t.Helper()
	body := fmt.Sprintf(`{"url":%q,"timeout":%q}`, p.receivers[i].url(), duly.FormatDuration(pushTimeout))
	req, err := http.NewRequest("PUT", p.servers[0].URL+"/v1/default/push/targets/r"+strconv.Itoa(i),
		strings.NewReader(body))
	must(p.t, err)
	req.Header.Set("Authorization", "Bearer "+p.servers[0].Token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	must(p.t, err)
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusNoContent {
		p.t.Fatalf("PUT of the target of receiver %d returned %s", i, resp.Status)
	}
}

// kill kills a server and starts it again at the same address.
func (p *pushTrial) kill(i int, keys string) {
	p.t.Helper()
	address := p.servers[i].Address()
	p.mu.Lock()
	p.kills = append(p.kills, time.Now())
	p.mu.Unlock()
	p.servers[i].Kill()
	p.servers[i] = servertest.Start(p.t, p.engine, "-addr", address, "-token=false", "-push-keys", keys)
}

// push pushes the jobs and repeats calls without an answer with the same IDs.
func (p *pushTrial) push(jobs int) {
	for n := 0; n < jobs; {
		if !proctest.Long() {
			// Spreads the pushes over time, so that each kill interrupts some work.
			time.Sleep(50 * time.Millisecond)
		}
		batch := make([]duly.Job, min(20, jobs-n))
		for i := range batch {
			batch[i] = p.job(n + i)
		}
		for begun := time.Now(); !p.stored(batch); time.Sleep(breath) {
			if time.Since(begun) > patience {
				p.t.Errorf("no push was answered for %v", patience)
				return
			}
			p.mu.Lock()
			for i := range batch {
				p.again[batch[i].ID] = true
			}
			p.mu.Unlock()
		}
		n += len(batch)
	}
}

func (p *pushTrial) job(n int) duly.Job {
	to := n % len(p.receivers)
	j := duly.Job{
		Queue: "hooks" + strconv.Itoa(n%len(pushQueues)), ID: "j" + strconv.Itoa(n), Body: []byte(strconv.Itoa(n)),
		Callback: contract.TargetPrefix + "r" + strconv.Itoa(to), Backoff: "fixed:200ms", Lease: pushLease, Tries: 1000,
	}
	if p.receivers[to].kind.refuses() {
		j.Tries = failingTries
	}
	return j
}

func (p *pushTrial) stored(batch []duly.Job) bool {
	ctx, stop := context.WithTimeout(context.Background(), 5*time.Second)
	defer stop()
	results, err := p.client.Push(ctx, batch)
	return err == nil && !slices.ContainsFunc(results, func(r duly.PushResult) bool { return r.Err != nil })
}

var pushQueues = []string{"hooks0", "hooks1", "hooks2", "hooks3"}

// open returns how many jobs have not ended. It returns 1 while the store does not answer.
func (p *pushTrial) open() (n int64) {
	for _, q := range pushQueues {
		s, err := p.client.Stats(p.t.Context(), duly.Q(q))
		if err != nil {
			return 1
		}
		n += s.Sizes.Ready + s.Sizes.Delayed + s.Sizes.Leased + s.Sizes.Blocked
	}
	return n
}

// awaitEnd waits until every job has ended. It fails if none ends for a while.
func (p *pushTrial) awaitEnd() {
	p.t.Helper()
	last, moved := int64(-1), time.Now()
	for {
		n := p.open()
		if n == 0 {
			return
		}
		if n != last {
			last, moved = n, time.Now()
		}
		if time.Since(moved) > patience {
			p.t.Fatalf("%d jobs have not ended, and none ended for %v", n, patience)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// judge compares the store with the ledgers of the receivers.
func (p *pushTrial) judge(jobs int) {
	p.t.Helper()
	dead := p.dead()
	acked, repeats, requests := 0, 0, 0
	for n := range jobs {
		id := "j" + strconv.Itoa(n)
		rc := p.receivers[n%len(p.receivers)]
		ledger := rc.of("default/" + p.job(n).Queue + "/" + id)
		requests += len(ledger)
		info, isDead := dead[id]

		switch {
		case rc.kind.refuses() && !isDead:
			p.t.Errorf("%s is not dead, although receiver %s refuses everything: %v", id, rc.kind, ledger)
		case rc.kind.refuses():
			p.judgeDead(id, rc, &info, ledger)
		case isDead:
			p.t.Errorf("%s is dead after %d failures and %d stalls: %s", id, info.Failures, info.Stalls, info.LastError)
		case !slices.ContainsFunc(ledger, func(a answered) bool { return a.status == http.StatusOK }):
			p.t.Errorf("%s is lost: receiver %s never accepted it: %v", id, rc.kind, ledger)
		default:
			acked++
			repeats += p.judgeRepeats(id, rc, ledger)
		}
	}
	p.t.Logf("%d jobs, %d kills: %d acked, %d dead, %d requests, %d of them for a job that was accepted before",
		jobs, len(p.kills), acked, len(dead), requests, repeats)
}

// judgeDead reports a job that died before its last try or without a cause.
func (p *pushTrial) judgeDead(id string, rc *hurtReceiver, info *duly.JobInfo, ledger []answered) {
	tries, failures, text := failingTries, failingTries, "404"
	if rc.kind == forbidsRetries { // a bury, which does not count as a failure
		tries, failures, text = 1, 0, "500"
	}
	if len(ledger) < tries || info.Failures != failures || !strings.Contains(info.LastError, text) {
		p.t.Errorf("%s is dead after %d failures, %d stalls and %d requests: %q; want %d failures and %s",
			id, info.Failures, info.Stalls, len(ledger), info.LastError, failures, text)
	}
}

// judgeRepeats counts requests for jobs that were accepted before. It reports those without a
// cause.
func (p *pushTrial) judgeRepeats(id string, rc *hurtReceiver, ledger []answered) (repeats int) {
	for i, a := range ledger {
		if a.status != http.StatusOK || i == len(ledger)-1 {
			continue
		}
		repeats += len(ledger) - 1 - i
		next := ledger[i+1]
		killed := slices.ContainsFunc(p.kills, func(k time.Time) bool {
			return k.After(a.began) &&
				k.Before(a.ended.Add(settled))
		})
		killed = killed && next.began.Sub(a.ended) > pushLease/2 // the lease of the killed server has to end first
		if !killed && !a.lost && !p.again[id] && a.ended.Sub(a.began) < pushTimeout/2 {
			p.t.Errorf("%s was accepted by receiver %s from %s to %s and sent again at %s; no killed server explains it",
				id, rc.kind, a.began.Format(stamp), a.ended.Format(stamp), next.began.Format(stamp))
		}
		break
	}
	return repeats
}

const stamp = "15:04:05.000"

// dead returns the dead jobs of all queues by ID.
func (p *pushTrial) dead() map[string]duly.JobInfo {
	p.t.Helper()
	jobs := map[string]duly.JobInfo{}
	for _, q := range pushQueues {
		for cursor := ""; ; {
			page, err := p.client.List(p.t.Context(), duly.Q(q), duly.ListParams{State: duly.StateDead,
				PageParams: duly.PageParams{Cursor: cursor, Limit: 1000}})
			must(p.t, err)
			for _, j := range page.Jobs {
				jobs[j.ID] = j
			}
			if cursor = page.Next; cursor == "" {
				break
			}
		}
	}
	return jobs
}
