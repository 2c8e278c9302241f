package redisengine_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/internal/redistest/resp"
	"github.com/dulymq/duly/redisengine"
	"github.com/dulymq/duly/redisengine/lua"
)

// TestNoScriptTakesLong checks that no script is slow, however many jobs exist (fault S6). The long form
// has a million jobs: ready and delayed, plain and with options. The aim is at most 10 ms, and the
// test prints the times. It fails only if in every turn a quarter of a script's calls took longer
// than 100 ms. The limit is that loose because the machine may be busy, and a third of the calls
// use the largest batch.
//
// C4.73
func TestNoScriptTakesLong(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("a short run looks for data races, and a script runs in the server's one thread")
	}
	s := newStopwatch(t)
	jobs, turns := 10_000, 4
	if long() {
		jobs, turns = 1_000_000, 100
	}
	must(t, s.e.Configure(t.Context(), duly.Q("beside"), duly.QueueConfig{}))
	s.fill(jobs)
	for range turns {
		s.useEverything()
	}
	must(t, s.e.Destroy(t.Context(), duly.Q("q")))
	s.note()
	s.report()
}

// stopwatch is a server that records the duration of its commands.
type stopwatch struct {
	*testing.T
	server *redistest.Server
	e      *redisengine.Engine
	conn   *resp.Conn
	names  map[string]string          // names of scripts, by their function
	took   map[string][]time.Duration // durations of the calls, by the script's name
	turns  int
	slow   map[string]int // number of turns in which a quarter of the calls were slow, by the script's name
	called map[string]int // number of turns in which the script was called, by its name
}

func newStopwatch(t *testing.T) *stopwatch {
	s := &stopwatch{T: t, server: redistest.Single(t, redistest.Config("slowlog-max-len 1000000")),
		names: map[string]string{}, took: map[string][]time.Duration{}, slow: map[string]int{}, called: map[string]int{}}
	s.e = open(t, s.server.URL())
	conn, err := s.server.Dial(t.Context())
	must(t, err)
	t.Cleanup(func() { conn.Close() })
	s.conn = conn
	for _, name := range lua.Names() {
		s.names[lua.Load(name).Function] = name
	}
	must(t, s.e.Configure(t.Context(), duly.Q("q"), duly.QueueConfig{}))
	return s
}

func (s *stopwatch) do(args ...any) any {
	s.Helper()
	v, err := s.conn.Do(s.Context(), args...)
	must(s, err)
	return v
}

func (s *stopwatch) push(jobs ...duly.Job) {
	s.Helper()
	for i := range jobs {
		jobs[i].Queue = "q"
	}
	rs, err := s.e.Push(s.Context(), jobs)
	must(s, err)
	for _, r := range rs {
		must(s, r.Err)
	}
}

// fill stores jobs, ready and delayed. One in ten has rules.
func (s *stopwatch) fill(n int) {
	s.Helper()
	s.do("CONFIG", "SET", "slowlog-log-slower-than", "-1")
	batch := make([]duly.Job, 1000)
	for done := 0; done < n; done += len(batch) {
		for i := range batch {
			batch[i] = duly.Job{Body: make([]byte, 100)}
			if i%2 == 0 {
				batch[i].Delay = time.Hour + time.Duration(done+i)*time.Millisecond
			}
			switch done / len(batch) % 10 {
			case 0:
				batch[i].Priority, batch[i].TTL = i%7, 24*time.Hour
			case 1:
				batch[i].OrderKey = fmt.Sprint("k", i%100)
			}
		}
		s.push(batch...)
	}
	s.do("SLOWLOG", "RESET")
	// The value is in µs. Scripts take longer and are logged. The commands inside a script are
	// mostly faster: a check makes ten for each job.
	s.do("CONFIG", "SET", "slowlog-log-slower-than", "3")
}

// useEverything calls every script, with batches of one, fifty and the maximum.
func (s *stopwatch) useEverything() {
	s.Helper()
	ctx, q := s.Context(), duly.Q("q")
	for _, n := range []int{1, 50, duly.MaxBatch} {
		plain, ruled := make([]duly.Job, n), make([]duly.Job, n)
		for i := range n {
			plain[i].Body, ruled[i].Body = make([]byte, 100), make([]byte, 100)
			ruled[i].Priority, ruled[i].TTL, ruled[i].Merge = 8, time.Hour, duly.Merge{Key: fmt.Sprint("m", i)}
		}
		s.push(plain...)
		s.push(ruled...)
		s.end(n, duly.Ack)
		s.end(n, duly.Nack)
		s.end(n, duly.Bury)
		_, err := s.e.Requeue(ctx, q, duly.RequeueParams{N: n})
		must(s, err)
		_, err = s.e.Purge(ctx, q, duly.StateDelayed, n)
		must(s, err)
		for _, state := range []duly.State{duly.StateReady, duly.StateDelayed, duly.StateBlocked, duly.StateDead} {
			p := duly.ListParams{State: state, PageParams: duly.PageParams{Limit: n}}
			if state == duly.StateDelayed || state == duly.StateDead {
				p.From = time.Now()
			}
			for _, p.Newest = range []bool{false, true} {
				_, err := s.e.List(ctx, q, p)
				must(s, err)
			}
		}
	}
	for _, prefix := range []string{"", "k", "k1", strings.Repeat("k", 100)} {
		_, err := s.e.Keys(ctx, q, contract.KeysParams{Prefix: prefix, PageParams: duly.PageParams{Limit: duly.MaxBatch}})
		must(s, err)
	}
	if _, err := s.e.Holder(ctx, q, "k1"); err != nil && !errors.Is(err, duly.ErrNotFound) {
		s.Fatal(err)
	}
	id := duly.NewNumber().String()
	s.push(duly.Job{ID: id, Made: true, Delay: time.Hour})
	_, err := s.e.Get(ctx, q, id)
	must(s, err)
	delay := 2 * time.Hour
	must(s, s.e.Update(ctx, q, id, duly.Update{Delay: &delay}))
	must(s, s.e.Promote(ctx, q, id))
	must(s, s.e.Delete(ctx, q, id))
	_, err = s.e.Peek(ctx, q)
	must(s, err)
	_, err = s.e.Stats(ctx, q)
	must(s, err)
	s.explain()
	_, err = s.e.Step(ctx, q)
	must(s, err)
	must(s, s.e.Sweep(ctx))
	_, err = s.e.Survey(ctx, "", duly.PageParams{})
	must(s, err)
	_, err = s.e.Wait(ctx, duly.WaitParams{Queues: []string{"q"}})
	s.e.GiveMarkerBack(duly.Q("q"))
	must(s, err)
	must(s, s.e.Pause(ctx, q))
	must(s, s.e.Resume(ctx, q))
	must(s, s.e.Configure(ctx, q, duly.QueueConfig{Defaults: duly.Defaults{Tries: 16}, Reopen: true}))
	useSchedules(s, s.e, q)
	s.useTokens()
	if s.turns++; s.turns <= 4 {
		s.note()
		useTopics(s.T, s.e, func() {})
		s.note()
		s.damage()
		_, err = s.e.Check(ctx, contract.CheckParams{Repair: true})
		must(s, err)
	}
	s.note()
}

// explain explains the last job of each state, which has the most jobs before it.
func (s *stopwatch) explain() {
	s.Helper()
	for _, state := range []duly.State{duly.StateReady, duly.StateDelayed, duly.StateBlocked, duly.StateDead} {
		page, err := s.e.List(s.Context(), duly.Q("q"), duly.ListParams{State: state, Newest: true,
			PageParams: duly.PageParams{Limit: 1}})
		must(s, err)
		for _, j := range page.Jobs {
			_, err := s.e.Explain(s.Context(), duly.Q("q"), j.ID)
			must(s, err)
		}
	}
}

// useTokens calls the scripts that read no jobs.
func (s *stopwatch) useTokens() {
	s.Helper()
	ctx, hash := s.Context(), [32]byte{1}
	must(s, s.e.PutToken(ctx, contract.Token{Hash: hash, Namespace: "ns", Rights: contract.RightConsume}))
	must(s, s.e.LimitToken(ctx, hash, contract.Limits{Consume: 2, Per: time.Minute}))
	begin, err := s.e.Spend(ctx, hash, contract.RightConsume)
	must(s, err)
	must(s, s.e.GiveBack(ctx, hash, contract.RightConsume, begin))
	_, err = s.e.Tokens(ctx, "", duly.PageParams{})
	must(s, err)
	must(s, s.e.DeleteToken(ctx, hash))
	must(s, s.e.PutPlacement(ctx, contract.Placement{Namespace: "ns", Pool: "p", Phase: contract.Placed,
		Version: int64(s.turns)}))
	_, err = s.e.Placements(ctx, duly.PageParams{})
	must(s, err)
	must(s, s.e.PutTarget(ctx, contract.Target{Namespace: "ns", Name: "t"}))
	_, err = s.e.Targets(ctx, "ns", duly.PageParams{})
	must(s, err)
	must(s, s.e.DeleteTarget(ctx, "ns", "t"))
	must(s, s.e.Configure(ctx, duly.Q("pushed"), duly.QueueConfig{Delivery: duly.DeliverPush}))
}

// damage makes a fault for each of Check's scripts: a member without a job, an order key of a
// missing job, a queue without its name, a tick without its schedule.
func (s *stopwatch) damage() {
	s.Helper()
	s.do("ZADD", "duly:{default/q/0}:dead", 1, strings.Repeat("x", 16))
	s.do("HSET", "duly:{default/q/0}:busy", "nobody", strings.Repeat("x", 16))
	s.do("ZREM", "duly:{default}:queues", "q")
	s.do("ZADD", "duly:{default/q/0}:ticks", 1, "nobody")
}

// end reserves jobs, extends their leases, and settles them.
func (s *stopwatch) end(n int, as duly.Settlement) {
	s.Helper()
	ds, err := s.e.Reserve(s.Context(), duly.ReserveParams{Queues: []string{"q"}, Max: n, Lease: time.Hour})
	if err != nil || len(ds) != n {
		s.Fatalf("reserved %d of %d jobs, %v", len(ds), n, err)
	}
	outcomes, receipts := make([]duly.SettleRequest, n), make([]duly.Receipt, n)
	for i, d := range ds {
		outcomes[i], receipts[i] = duly.SettleRequest{Receipt: d.Receipt, As: as}, d.Receipt
	}
	errs, err := s.e.Extend(s.Context(), "", receipts, 2*time.Hour)
	must(s, errors.Join(append(errs, err)...))
	errs, err = s.e.Settle(s.Context(), "", outcomes)
	must(s, errors.Join(append(errs, err)...))
}

// note reads the durations that the server has logged.
func (s *stopwatch) note() {
	s.Helper()
	calls, long := map[string]int{}, map[string]int{}
	for _, line := range s.do("SLOWLOG", "GET", "-1").([]any) {
		entry := line.([]any)
		args := entry[3].([]any)
		if name := fmt.Sprint(args[0]); len(args) > 1 && strings.HasPrefix(strings.ToUpper(name), "FCALL") {
			name = s.names[fmt.Sprint(args[1])]
			took := time.Duration(entry[2].(int64)) * time.Microsecond
			s.took[name] = append(s.took[name], took)
			calls[name]++
			if took > 100*time.Millisecond { // ten times the aim of 10 ms
				long[name]++
			}
		}
	}
	for name, n := range calls {
		s.called[name]++
		if 4*long[name] >= n {
			s.slow[name]++
		}
	}
	s.do("SLOWLOG", "RESET")
}

func (s *stopwatch) report() {
	s.Helper()
	var names []string
	for _, name := range lua.Names() {
		list := s.took[name]
		if len(list) == 0 {
			s.Errorf("the script %s was not called", name)
			continue
		}
		names = append(names, figures(name, list))
		if s.called[name] >= 3 && s.slow[name] == s.called[name] {
			s.Errorf("a quarter of the calls of script %s took longer than 100ms in each of %d turns", name, s.called[name])
		}
	}
	s.Logf("on %s:\n%s", s.server.Addr(), strings.Join(names, "\n"))
}

// figures sorts durations and formats their distribution.
func figures(name string, list []time.Duration) string {
	slices.Sort(list)
	return fmt.Sprintf("%-12s %7d calls, p50 %8v, p99 %8v, max %8v", name, len(list), list[len(list)/2],
		list[len(list)*99/100], list[len(list)-1])
}
