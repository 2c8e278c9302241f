//go:build unix

package cli

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly/internal/clock"
)

// C18.12: the commands close a queue, show the closing, and open the queue again.
func TestCommandsCloseAndOpenAQueue(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.ok("push", "q", "x")
	receipt := firstWord(r.ok("reserve", "q", "--receipts"))
	out := r.ok("release", receipt, "--slow", "30s", "--reason", "HTTP 429")
	if want := "released 1 job, again in 30s, when its queue opens\n"; out != want {
		t.Errorf("release --slow printed %q, want %q", out, want)
	}
	r.clock.Advance(18 * time.Second)

	for _, tt := range []struct{ command, want string }{
		{"stats q", "12s: HTTP 429"}, {"queues", "closed 12s"},
		{"stats q --json", `"closed_reason":"HTTP 429"`}, {"stats q --json", `"slowed":1`},
	} {
		if out := r.ok(strings.Fields(tt.command)...); !strings.Contains(out, tt.want) {
			t.Errorf("%s printed %q, want %q", tt.command, out, tt.want)
		}
	}
	if out := r.ok("peek", "q"); !strings.Contains(out, "x") {
		t.Errorf("peek printed %q", out)
	}

	if out := r.ok("queue", "set", "q", "--reopen"); strings.Contains(out, "closed") {
		t.Errorf("queue set --reopen printed %q", out)
	}
	if out := r.ok("reserve", "q", "--receipts"); out == "" {
		t.Error("the open queue delivers nothing")
	}
}

// C18.55, C18.59: the commands set an adaptive limit, and show the factor and the probing.
func TestCommandsShowAdaptiveLimits(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if out := r.ok("queue", "set", "q", "--rate", "100", "--adapt", "0.05"); !strings.Contains(out, "0.05") {
		t.Errorf("queue set --adapt printed %q", out)
	}
	shows := func(wants ...string) {
		t.Helper()
		for i, command := range []string{"stats q", "queues", "stats q --json"} {
			if out := r.ok(strings.Fields(command)...); !strings.Contains(out, wants[i]) {
				t.Errorf("%s printed %q, want %q", command, out, wants[i])
			}
		}
	}
	shows("100 % of 100/s", "q ", `"factor":1`)

	// Twenty overloads in a row start probing, and the first of them halves the factor.
	r.ok("push", "q", "x")
	overload := func() {
		r.ok("release", firstWord(r.ok("reserve", "q", "--receipts")), "--slow", "0s")
	}
	overload()
	shows("50 % of 100/s", "50 % of 100/s", `"factor":0.5`)
	for range 19 {
		overload()
	}
	shows("5 % of 100/s, probing", "closed 1s, probing", `"probing":1`)
	r.clock.Advance(time.Second)
	shows("5 % of 100/s, probing", "probing", `"factor":0.05`)

	r.ok("queue", "set", "q", "--reopen")
	shows("5 % of 100/s", "5 % of 100/s", `"factor":0.05`)
	if out := r.ok("queue", "set", "q", "--adapt", "none"); strings.Contains(out, "0.05") {
		t.Errorf("queue set --adapt none printed %q", out)
	}
	for _, bad := range []string{"0", "1.1", "-1", "NaN", "5%"} {
		if code, _, errs := r.run("queue", "set", "q", "--adapt", bad); code != exitUsage || !strings.Contains(errs, "0.05 for 5 %") {
			t.Errorf("--adapt %s: exit %d, %s", bad, code, errs)
		}
	}
}

// C4.117, C4.118: stats shows in one table what holds back the ready jobs of a queue.
func TestStatsShowsWhatHoldsBackReadyJobs(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.ok("push", "q", "x")
	if out := r.ok("stats", "q"); strings.Contains(out, "LIMIT") {
		t.Errorf("the stats of a queue without limits are %q", out)
	}
	shows := func(when string, wants ...string) {
		t.Helper()
		out := strings.Join(strings.Fields(r.ok("stats", "q")), " ")
		for _, want := range append(wants, "LIMIT NOW") {
			if !strings.Contains(out, want) {
				t.Errorf("%s: stats printed %q, want %q", when, out, want)
			}
		}
	}

	r.ok("queue", "set", "q", "--rate", "0.5", "--burst", "2", "--max-leased", "3")
	shows("a full bucket", "leased 0 of 3", "tokens 2 of 2")
	if out := r.ok("stats", "q", "--json"); !strings.Contains(out, `"tokens":2`) || strings.Contains(out, "next_token") {
		t.Errorf("stats --json printed %q", out)
	}
	r.ok("push", "q", "y")
	receipt := firstWord(r.ok("reserve", "q", "--receipts"))
	r.ok("reserve", "q")
	shows("an empty bucket", "leased 2 of 3", "tokens 0 of 2, next in 2s")
	if out := r.ok("stats", "q", "--json"); !strings.Contains(out, `"tokens":0,"next_token":"`) {
		t.Errorf("stats --json printed %q", out)
	}

	r.clock.Advance(1500 * time.Millisecond)
	r.ok("release", receipt, "--slow", "30s", "--reason", "HTTP 429")
	r.ok("pause", "q")
	shows("a paused and closed queue", "paused yes", "closed 30s: HTTP 429", "leased 1 of 3",
		"tokens 0 of 2, next in 500ms")
}

// C18.24: the bounds in the stats of a queue with one shard are those that its adaptive limits enforce.
func TestStatsShowsBoundsInForce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for queue, shards := range map[string]string{"q": "1", "sharded": "2"} {
		r.ok("queue", "set", queue, "--shards", shards, "--rate", "10", "--burst", "11", "--max-leased", "7",
			"--adapt", "0.05")
		r.ok("push", queue, "x")
		r.ok("release", firstWord(r.ok("reserve", queue, "--receipts")), "--slow", "0s")
	}
	r.clock.Advance(time.Minute)

	for _, tt := range []struct{ queue, want string }{
		{"q", "leased 0 of 3 tokens 5 of 5 "},
		{"sharded", "leased 0 of 7 "},
	} {
		if out := strings.Join(strings.Fields(r.ok("stats", tt.queue)), " "); !strings.Contains(out, tt.want) {
			t.Errorf("stats %s printed %q, want %q", tt.queue, out, tt.want)
		}
	}
}

// C18.17: a command that exits with 69 closes the queue for the time of --overload, by default
// 10 s, and uses no try.
func TestWorkMapsExitStatus69ToAnOverload(t *testing.T) {
	t.Parallel()
	r := newLiveRig(t)
	r.ok("push", "q", "x", "--id", "slow")
	start := clock.System().Now()
	code, _, errs := r.workUntil(1, "q", "--json", "--overload", "1h", "--exec", "echo no capacity >&2; exit 69")
	if code != exitOK {
		t.Fatalf("exit %d, %s", code, errs)
	}
	end := clock.System().Now()

	if j := r.job("slow"); j.State != "ready" || j.Failures != 0 {
		t.Errorf("the job is %+v, want ready without a failure", j)
	}
	var q struct {
		Config struct {
			Until  time.Time `json:"closed_until"`
			Reason string    `json:"closed_reason"`
		}
	}
	if err := json.Unmarshal([]byte(r.ok("stats", "q", "--json")), &q); err != nil {
		t.Fatal(err)
	}
	c := q.Config
	if c.Until.Before(start.Add(time.Hour)) || c.Until.After(end.Add(time.Hour+time.Millisecond)) ||
		c.Reason != "exit status 69: no capacity" {
		t.Errorf("the queue is closed until %s for %q, want an hour after %s", c.Until, c.Reason, start)
	}
	r.ok("queue", "set", "q", "--reopen")
	if _, out, _ := r.ends("q", "--once", "--overload", "1h", "--exec", "exit 69"); !strings.Contains(out,
		"again in 1h, when its queue opens\n") {
		t.Errorf("work printed %q", out)
	}
	if d := newWorkFlags().overload; d != 10*time.Second {
		t.Errorf("the default of --overload is %s", d)
	}
}
