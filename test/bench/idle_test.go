package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/eventually"
	"github.com/dulymq/duly/internal/proctest"
)

const (
	idleQueues = 100
	idleJobs   = 100_000 // all due tomorrow
	idlePolls  = 64
	idleTime   = 60 * time.Second
	idleBound  = 300 * time.Millisecond
)

// TestIdleServerUsesLittleCPU measures 60 s of an idle server with 100 queues, 100 000 jobs due
// tomorrow and 64 open long polls. It may use at most 0.3 s of CPU time.
func TestIdleServerUsesLittleCPU(t *testing.T) {
	if !proctest.Long() {
		t.Skip("takes more than a minute; runs with DULY_LONG=1, as in make bench")
	}
	if runtime.GOOS != "linux" {
		t.Skip("reads /proc, so it runs on Linux")
	}
	s := serve(t)
	e := s.engine(t)
	loadTomorrow(t, e)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	p := s.poll(ctx, idlePolls)
	eventually.True(t, "every long poll to wait", func() bool { return s.waiting(t) == idlePolls })
	proctest.AwaitRest(t, s.pid) // garbage collection after the load

	before := proctest.CPU(t, s.pid)
	time.Sleep(idleTime) // the measured time
	used := proctest.CPU(t, s.pid) - before
	t.Logf("%s of an idle server: %s of CPU (at most %s); %d queues, %d jobs due tomorrow, %d long polls", idleTime,
		used, idleBound, idleQueues, idleJobs, idlePolls)
	if used > idleBound {
		t.Errorf("an idle server took %s of CPU in %s, want at most %s", used, idleTime, idleBound)
	}

	// The server was idle but not stuck: every poll is still open, and is answered when there is
	// a job.
	select {
	case got := <-p.answers:
		t.Fatalf("a long poll was answered without a job: %s", got)
	default:
	}
	if open := p.open.Load(); open != idlePolls {
		t.Fatalf("%d of %d long polls are open", open, idlePolls)
	}
	if _, err := e.Push(ctx, []duly.Job{{Queue: queueName(0), Body: []byte("now")}}); err != nil {
		t.Fatal(err)
	}
	select {
	case got := <-p.answers:
		if !strings.Contains(got, `"now"`) {
			t.Errorf("the long poll returned %s", got)
		}
	case <-time.After(5 * time.Second):
		t.Error("a push did not wake the long poll of its queue")
	}
}

func queueName(i int) string { return fmt.Sprintf("idle-%d", i) }

func loadTomorrow(t *testing.T, e contract.Engine) {
	t.Helper()
	for q := range idleQueues {
		jobs := make([]duly.Job, idleJobs/idleQueues)
		for i := range jobs {
			jobs[i] = duly.Job{Queue: queueName(q), Body: []byte("tomorrow"), Delay: 24*time.Hour + time.Duration(i)*time.Second}
		}
		results, err := e.Push(t.Context(), jobs)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range results {
			if r.Err != nil || r.Status != duly.Created {
				t.Fatalf("%+v", r)
			}
		}
	}
}

// polls are open long polls.
type polls struct {
	open    atomic.Int64
	answers chan string // of the answered polls
}

// poll opens n long polls, each on its own connection and queue.
func (s *served) poll(ctx context.Context, n int) *polls {
	p := &polls{answers: make(chan string, n)}
	for i := range n {
		go func() {
			p.open.Add(1)
			defer p.open.Add(-1)
			if got := s.reserve(ctx, queueName(i)); ctx.Err() == nil {
				p.answers <- got
			}
		}()
	}
	return p
}

// reserve makes one long poll and returns the answer or the error.
func (s *served) reserve(ctx context.Context, queue string) string {
	at := *s.url
	at.Path = "/v1/default/reserve"
	body := fmt.Sprintf(`{"queues":[%q],"max":1,"wait":"10m"}`, queue)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, at.String(), strings.NewReader(body))
	if err != nil {
		return err.Error()
	}
	req.Header.Set("Authorization", "Bearer "+s.token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := new(http.Transport).RoundTrip(req) // a new transport has a new connection
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	var answer json.RawMessage
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return err.Error()
	}
	return resp.Status + " " + string(answer)
}
