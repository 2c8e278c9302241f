package redisengine

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/redistest"
)

// twins are two queues to which the same is done: one takes simple jobs by their
// own script, the other, for it has a bound, takes all jobs by the other one.
type twins struct {
	*testing.T
	*rand.Rand
	server *redistest.Server
	e      *Engine
	clock  *clock.Fake
	own    []string // IDs that nobody made
	made   []string // numbers
}

const quick, bounded = "quick", "bounded"

// What the script of simple jobs does is what the other one would have done,
// job by job: the same outcomes, and the same in the store. Calls are plain,
// have rules, own IDs or keys, repeat IDs of each other and of themselves, and
// those of jobs whose TTL is over.
func TestSimplePushesDoWhatPushesDo(t *testing.T) {
	t.Parallel()
	rounds := 50
	switch {
	case testing.Short():
		rounds = 15
	case os.Getenv("DULY_LONG") != "":
		rounds = 500
	}
	for seed := range uint64(4) {
		server, prefix := redistest.Shared(t)
		c := clock.NewFake()
		x := &twins{T: t, Rand: rand.New(rand.NewPCG(seed, 1)), server: server, e: openOn(t, server.URL()+"?prefix="+prefix, c), clock: c}
		x.must(x.e.Configure(t.Context(), duly.Q(bounded), duly.QueueConfig{MaxJobs: 1_000_000}))
		x.must(x.e.Configure(t.Context(), duly.Q(quick), duly.QueueConfig{DeadCount: 99_999}))
		simple, left := 0, 0
		for round := range rounds {
			calls := x.calls(seed == 0)
			s, l := x.push(calls)
			simple, left = simple+s, left+l
			x.compare()
			if x.IntN(3) == 0 {
				x.work()
				x.compare()
			}
			if t.Failed() {
				t.Fatalf("seed %d, round %d", seed, round)
			}
			x.clock.Advance([]time.Duration{0, 0, 700 * time.Microsecond, 300 * time.Millisecond, time.Second}[x.IntN(5)])
		}
		if simple == 0 || left == 0 {
			t.Errorf("%d jobs were simple, and %d of them left to the other script: that tests nothing", simple, left)
		}
		report, err := x.e.Check(t.Context(), duly.CheckParams{})
		if x.must(err); len(report.Faults) > 0 {
			t.Errorf("the check finds %+v", report.Faults)
		}
	}
}

// calls are up to four calls of up to six jobs. alike: all of them are of one
// kind, and have their client's IDs.
func (x *twins) calls(alike bool) (calls [][]duly.Job) {
	for range 1 + x.IntN(4) {
		var jobs []duly.Job
		keyed := x.IntN(4) == 0
		for range 1 + x.IntN(6) {
			j := duly.Job{Tries: 3, MaxStalls: duly.None, Backoff: duly.Fixed(0), TTL: 2 * time.Second, Body: []byte(fmt.Sprint(x.IntN(100)))}
			if !alike {
				j = x.job(keyed)
			}
			x.name(&j, alike)
			jobs = append(jobs, j)
		}
		calls = append(calls, jobs)
	}
	return calls
}

func pick[T any](x *twins, of ...T) T { return of[x.IntN(len(of))] }

// job is one of any kind; keyed: one of those that no simple push takes.
func (x *twins) job(keyed bool) duly.Job {
	j := duly.Job{Body: []byte(fmt.Sprint(x.IntN(100)))}
	if x.IntN(4) > 0 {
		j.Priority, j.Tries, j.MaxStalls = pick(x, 0, 5, -700), pick(x, 0, 1, 300), pick(x, 0, duly.None)
		j.TTL, j.Lease, j.Retain = pick(x, 0, time.Second, 1500*time.Microsecond, time.Hour), pick(x, 0, time.Minute), pick(x, 0, 0, time.Hour)
		j.Backoff = pick(x, "", duly.Fixed(0), "exp:1s:5s")
	}
	switch x.IntN(8) {
	case 0:
		j.Delay = pick(x, time.Second, 700*time.Microsecond, time.Nanosecond)
		if j.TTL > 0 && j.TTL < j.Delay {
			j.TTL = 0
		}
	case 1: // with a TTL that may be too short
		j.Due = x.clock.Now().Add(pick(x, -time.Hour, time.Millisecond, 2*time.Second))
	case 2:
		j.Headers = map[string]string{"name": "value"}
	}
	if keyed {
		switch x.IntN(4) {
		case 0:
			j.OrderKey = pick(x, "a", "b")
		case 1:
			j.Merge.Key = pick(x, "a", "b")
		case 2:
			j.Body = make([]byte, bigBody+1)
		}
	}
	return j
}

// name gives the job an ID: a new one of its client's, or an own one, or one that
// was given before.
func (x *twins) name(j *duly.Job, alike bool) {
	j.ID, j.Made = duly.MakeID(j), true
	if x.IntN(8) == 0 && len(x.made) > 0 {
		j.ID, j.Made = pick(x, x.made[max(0, len(x.made)-20):]...), x.IntN(2) == 0
	}
	x.made = append(x.made, j.ID)
	if alike {
		return
	}
	switch x.IntN(8) {
	case 0:
		j.ID, j.Made = fmt.Sprint("own-", x.IntN(30)), false
	case 1: // its text is that of a number
		j.Made = false
	}
}

// push does the same to both queues: in the quick one, calls in a row that are
// simple go out as one. It counts their jobs, and those that were left.
func (x *twins) push(calls [][]duly.Job) (simple, left int) {
	x.Helper()
	var row []*pushing
	flush := func() {
		simple, left = x.joined(row, simple, left)
		row = nil
	}
	var want, got [][]duly.PushResult
	for _, jobs := range calls {
		results, err := x.e.Push(x.Context(), in(bounded, jobs))
		x.must(err)
		p := newPushing(x.e, x.e.queues.get(duly.Q(quick).Normal()), in(quick, jobs), make([]duly.PushResult, len(jobs)))
		want, got = append(want, results), append(got, p.results)
		if p.judge(nil); len(p.items) == 0 {
			continue
		}
		if row = append(row, p); !allSimple(p.items) {
			row = row[:len(row)-1]
			flush()
			x.must(p.send(x.Context()))
		}
	}
	flush()
	for i := range want {
		for k, w := range want[i] {
			if g := got[i][k]; fmt.Sprint(g) != fmt.Sprint(w) {
				x.Errorf("call %d, job %d, %+v: %v, and the bounded queue says %v", i, k, calls[i][k], g, w)
			}
		}
	}
	return simple, left
}

// joined pushes the items of a row of calls as one.
func (x *twins) joined(row []*pushing, simple, left int) (int, int) {
	x.Helper()
	var calls []*joint
	for _, p := range row {
		j := newJoint(len(p.items))
		j.answered = func(r jointReply) { p.answered(p.items, r) }
		p.packSimple(j, p.items, p.q.shards[0].reckon(x.e))
		calls = append(calls, j)
		simple += len(p.items)
	}
	if len(calls) > 0 {
		x.must(x.e.gear(row[0].q, row[0].q.shards[0]).simple.send(x.Context(), calls))
	}
	for _, p := range row {
		left += len(p.left)
		x.must(p.sendLeft(x.Context()))
	}
	return simple, left
}

func (x *twins) must(err error) {
	x.Helper()
	if err != nil {
		x.Fatal(err)
	}
}

// in is the jobs, for a queue.
func in(queue string, jobs []duly.Job) []duly.Job {
	jobs = slices.Clone(jobs)
	for i := range jobs {
		jobs[i].Queue = queue
	}
	return jobs
}

// work takes jobs from both queues, and ends the deliveries in the same way.
func (x *twins) work() {
	x.Helper()
	n, as := 1+x.IntN(8), pick(x, duly.Ack, duly.Ack, duly.Nack, duly.Release, duly.Bury)
	var told []string
	for _, queue := range []string{quick, bounded} {
		ds, err := x.e.Reserve(x.Context(), duly.ReserveParams{Queues: []string{queue}, Max: n, Lease: time.Minute})
		x.must(err)
		var outcomes []duly.Outcome
		text := ""
		for _, d := range ds {
			outcomes = append(outcomes, duly.Outcome{Receipt: d.Receipt, As: as})
			d.Queue, d.Receipt = "", ""
			text += fmt.Sprintf("%+v\n", d)
		}
		told = append(told, text)
		if len(outcomes) > 0 {
			_, err = x.e.Settle(x.Context(), "", outcomes)
			x.must(err)
		}
	}
	if told[0] != told[1] {
		x.Errorf("the quick queue has handed out\n%sand the bounded one\n%s", told[0], told[1])
	}
}

// compare looks whether both queues are the same in the store, but for the
// numbers of jobs that have another ID.
func (x *twins) compare() {
	x.Helper()
	was := x.stored(bounded)
	for name, got := range x.stored(quick) {
		if got != was[name] {
			x.Errorf("in %s of the quick queue stands\n%sand of the bounded one\n%s", name, got, was[name])
		}
	}
}

func (x *twins) stored(queue string) map[string]string {
	x.Helper()
	s := x.e.queues.get(duly.Q(queue).Normal()).shards[0]
	var names []string
	for _, entry := range entriesOf(x.server, s.name("alias")) {
		if id, number, _ := strings.Cut(entry, " → "); id[0] == 'i' {
			names = append(names, number, id)
		}
	}
	named := strings.NewReplacer(names...)
	all := map[string]string{}
	for _, name := range shardKeys {
		if name == "config" || name == "marker" {
			continue
		}
		var lines []string
		for _, entry := range entriesOf(x.server, s.name(name)) {
			if name != "tally" || !strings.HasPrefix(entry, "later") {
				lines = append(lines, named.Replace(entry)+"\n")
			}
		}
		slices.Sort(lines)
		all[name] = strings.Join(lines, "")
	}
	return all
}

// The due moment that the client writes into a record is the one that the script
// finds by the same clock, to the microsecond, and never a later one by a clock
// that lags.
func TestTheClientReckonsAsTheScript(t *testing.T) {
	t.Parallel()
	const now = 1_800_000_000_000_400 // microseconds
	for _, c := range []struct{ when, want int64 }{
		{0, 1_800_000_000_000},
		{1, 1_800_000_000_001},
		{600, 1_800_000_000_001},
		{601, 1_800_000_000_002},
		{-1_800_000_000_005, 1_800_000_000_005},
		{-5, 1_800_000_000_000},
	} {
		i := pushItem{when: c.when}
		if got := i.dueBy(now); got != c.want {
			t.Errorf("when %d: due at %d, want %d", c.when, got, c.want)
		}
		if got := i.dueBy(now - 900); got > c.want {
			t.Errorf("when %d: due at %d by a clock that lags, later than %d", c.when, got, c.want)
		}
	}
}
