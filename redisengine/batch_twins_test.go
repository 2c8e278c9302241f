package redisengine

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/batch"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/redisengine/internal/codec"
	"github.com/dulymq/duly/redisengine/internal/jobs"
	"github.com/dulymq/duly/redisengine/internal/store"
)

// twins are two queues that get the same operations. One queue gets calls of one item each, the
// other calls of many.
type twins struct {
	*testing.T
	*rand.Rand
	server  *redistest.Server
	e       *Engine
	clock   *clock.Fake
	ids     []string                   // IDs of pushed jobs
	held    map[string][]duly.Delivery // deliveries in flight, by queue
	past    map[string][]duly.Receipt  // settled receipts, by queue
	seen    map[string]int             // how often each result occurred
	next    int                        // number of the next body
	most    int                        // largest number of jobs in a call
	ordered bool                       // whether only IDs depend on the numbers of jobs without keys
}

const one, many = "one", "many"

var bothQueues = []string{one, many}

// TestBatchMatchesSingleCalls checks that a call of many items has the results of as many calls
// of one item, and leaves the same store. The jobs are of every kind, repeat each other's IDs,
// and share keys.
func TestBatchMatchesSingleCalls(t *testing.T) {
	t.Parallel()
	rounds := 15
	switch {
	case testing.Short():
		rounds = 10
	case os.Getenv("DULY_LONG") != "":
		rounds = 1000
	}
	usual := strings.Fields("created exists merged invalid ack nack release bury lease_lost deleted not_found " +
		"requeued large")
	for name, c := range map[string]struct {
		cfg   duly.QueueConfig
		full  bool     // whether all 254 policy indexes are in use
		query string   // appended to the engine's URL
		wants []string // results that must occur, in addition to the usual ones
	}{
		"Unbounded": {},
		"FewDead":   {cfg: duly.QueueConfig{DeadCount: 5}},
		"FewJobs":   {cfg: duly.QueueConfig{MaxJobs: 25, DeadCount: 10}, wants: []string{"full"}},
		"NoPlaces":  {full: true, wants: []string{"inline"}},
		"FewLeased": {cfg: duly.QueueConfig{MaxLeased: 7}, wants: []string{"held back"}},
		"Rate":      {cfg: duly.QueueConfig{Rate: duly.Rate{PerSecond: 2, Burst: 9}}, wants: []string{"held back"}},
		"ByEval":    {query: "&scripts=eval"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seed := rand.Uint64()
			x := newTwins(t, seed, c.cfg, c.query)
			if c.full {
				x.takePlaces()
			}
			for round := 0; round < rounds || !testing.Short() && round < 400 && x.missing(usual, c.wants) != ""; round++ {
				if x.round(); t.Failed() {
					t.Fatalf("seed %d, round %d", seed, round)
				}
			}
			report, err := x.e.Check(x.Context(), contract.CheckParams{})
			if x.must(err); len(report.Faults) > 0 {
				t.Errorf("seed %d: Check found %+v", seed, report.Faults)
			}
			if what := x.missing(usual, c.wants); what != "" && !testing.Short() {
				t.Errorf("seed %d: the result %s did not occur in %v", seed, what, x.seen)
			}
		})
	}
}

// missing returns a listed result that no job has had, or "".
func (x *twins) missing(lists ...[]string) string {
	for _, what := range slices.Concat(lists...) {
		if x.seen[what] == 0 {
			return what
		}
	}
	return ""
}

func newTwins(t *testing.T, seed uint64, cfg duly.QueueConfig, query string) *twins {
	server, prefix := redistest.Shared(t)
	c := clock.NewFake()
	x := &twins{
		T: t, Rand: rand.New(rand.NewPCG(seed, 7)), server: server, e: openOn(t, server.URL()+"?prefix="+prefix+query, c),
		clock: c,
		held:  map[string][]duly.Delivery{}, most: 40, past: map[string][]duly.Receipt{}, seen: map[string]int{},
	}
	for _, queue := range bothQueues {
		x.must(x.e.Configure(t.Context(), duly.Q(queue), cfg))
	}
	return x
}

// round applies some random operations to both queues.
func (x *twins) round() {
	x.Helper()
	all := []func(){x.push, x.take, x.settle, x.remove, x.requeue}
	for _, i := range x.Perm(len(all)) {
		all[i]()
	}

	// No job is delivered between the calls.
	if x.IntN(10) == 0 {
		for _, queue := range bothQueues {
			x.must(x.e.Pause(x.Context(), duly.Q(queue)))
		}
		x.take()
		for _, queue := range bothQueues {
			x.must(x.e.Resume(x.Context(), duly.Q(queue)))
		}
	}
	x.compare()
	x.clock.Advance(pick(x, 0, 0, 700*time.Microsecond, time.Millisecond, 300*time.Millisecond, time.Second, time.Minute))
}

// takePlaces pushes jobs with 510 different policies into each queue. A shard has an index only
// for 254 of them. The records of the other jobs contain the policy itself.
func (x *twins) takePlaces() {
	x.Helper()
	var jobs []duly.Job
	for i := range 2 * codec.PlaceInline {
		jobs = append(jobs, duly.Job{ID: fmt.Sprint("place-", i), Tries: 2000 + i, Delay: 300 * 24 * time.Hour})
	}
	for _, queue := range bothQueues {
		results, err := x.e.Push(x.Context(), in(queue, jobs))
		x.must(err)
		// One job remains, because a shard without jobs frees all its indexes.
		for i, r := range results[1:] {
			x.must(x.e.Delete(x.Context(), duly.Q(queue), jobs[i+1].ID))
			x.must(r.Err)
		}
		s := x.e.catalog.Cache.Get(duly.Q(queue).Normal()).Shards[0]
		if n := x.server.Must("HLEN", s.Name("policies")); n != int64(2*(codec.PlaceInline-1)) {
			x.Fatalf("the shard has %d entries of policies", n)
		}
	}
}

func pick[T any](x *twins, of ...T) T { return of[x.IntN(len(of))] }

func (x *twins) must(err error) {
	x.Helper()
	if err != nil {
		x.Fatal(err)
	}
}

// push pushes up to twelve jobs.
func (x *twins) push() {
	x.Helper()
	kinds := make([]duly.Job, 1+x.IntN(3))
	for i := range kinds {
		kinds[i] = x.job()
	}
	mixed := x.IntN(3) == 0
	made := x.IntN(2) == 0
	jobs := make([]duly.Job, 1+x.IntN(pick(x, 12, 12, x.most)))
	for i := range jobs {
		jobs[i] = pick(x, kinds...)
		jobs[i].Body = append(fmt.Appendf(nil, "%d ", x.next), jobs[i].Body...)
		x.next++
		// Jobs whose number the client has made come first, so that the numbers rise.
		if mixed {
			made = i < len(jobs)/2
		}
		x.name(&jobs[i], made)
	}

	var answers []duly.PushResult
	for i := range jobs {
		results, err := x.e.Push(x.Context(), in(one, jobs[i:i+1]))
		x.must(err)
		answers = append(answers, results[0])
	}
	together, err := x.e.Push(x.Context(), in(many, jobs))
	x.must(err)
	for i, want := range answers {
		x.seen[pushed(want)]++
		if got := strings.ReplaceAll(fmt.Sprint(together[i]), "default/"+many, "default/"+one); got != fmt.Sprint(want) {
			x.Errorf("job %d of %d, %+v: got %s in a batch and %v alone", i, len(jobs), jobs[i], got, want)
		}
	}
}

// pushed describes the result of a push.
func pushed(r duly.PushResult) string {
	if r.Err != nil {
		return string(duly.CodeOf(r.Err))
	}
	return r.Status.String()
}

// in returns copies of the jobs for a queue.
func in(queue string, jobs []duly.Job) []duly.Job {
	jobs = slices.Clone(jobs)
	for i := range jobs {
		jobs[i].Queue = queue
	}
	return jobs
}

// job returns a job of a random kind, whose TTL may be invalid because it is too short.
func (x *twins) job() (j duly.Job) {
	if x.IntN(3) > 0 {
		j.Priority, j.Tries, j.MaxStalls = pick(x, 0, 5, -700), pick(x, 0, 1, 2), pick(x, 0, duly.None, 1)
		j.TTL = pick(x, 0, 0, time.Second, 1500*time.Microsecond, time.Millisecond, 300*time.Millisecond, time.Hour)
		j.Lease, j.Retain = pick(x, 0, 0, time.Second), pick(x, 0, 0, time.Hour, 2*time.Second)
		j.Backoff = pick(x, "", duly.Fixed(0), "exp:1s:5s")
	}
	// The shard soon has more policies than it can index.
	if x.IntN(4) == 0 {
		j.Tries = 3 + x.IntN(1000)
	}
	switch x.IntN(8) {
	case 0:
		j.Delay = pick(x, time.Second, 700*time.Microsecond, time.Nanosecond)
	case 1:
		j.Due = x.clock.Now().Add(pick(x, -time.Hour, time.Millisecond, 2*time.Second))
	case 2:
		j.Headers = map[string]string{"name": "value"}
	case 3:
		j.Body = make([]byte, codec.BigBody-10+x.IntN(14))
		x.seen["large"]++
	}
	switch x.IntN(4) {
	case 0:
		j.OrderKey = pick(x, "a", "b")
	case 1:
		j.Merge = duly.Merge{
			Key: pick(x, "a", "b"), Mode: pick(x, "", duly.MergeKeep, duly.MergeReplace), Until: pick(x, "", duly.UntilDone),
		}
		if j.Merge.Mode == duly.MergeReplace {
			j.Merge.MaxWait = pick(x, 0, time.Second)
		}
		if x.IntN(3) == 0 {
			j.OrderKey = "a"
		}
	}
	return j
}

// name gives the job an ID: a new number from its client, or a caller's ID, which may have been
// used before. All jobs of a call have the same kind, because their numbers must rise in both
// queues.
func (x *twins) name(j *duly.Job, made bool) {
	switch {
	case made:
		j.ID, j.Made = duly.MakeID(j), true
	case len(x.ids) > 0 && x.IntN(3) == 0:
		j.ID = pick(x, x.ids[max(0, len(x.ids)-20):]...)
	case x.IntN(4) == 0: // the ID has the form of a job number
		j.ID = duly.MakeID(j)
	default:
		j.ID = fmt.Sprint("own-", x.IntN(60))
	}
	x.ids = append(x.ids, j.ID)
}

// take reserves up to eight jobs.
func (x *twins) take() {
	x.Helper()
	n, lease := x.IntN(pick(x, 9, x.most)), pick(x, 0, time.Second)
	taken := map[string][]string{}
	for queue, most := range map[string]int{one: 1, many: n} {
		for len(taken[queue]) < n {
			ds, err := x.e.Reserve(x.Context(), duly.ReserveParams{Queues: []string{queue},
				Max: min(most, n-len(taken[queue])), Lease: lease})
			if x.must(err); len(ds) == 0 {
				break
			}
			x.held[queue] = append(x.held[queue], ds...)
			for _, d := range ds {
				d.Queue, d.Receipt = "", ""
				taken[queue] = append(taken[queue], fmt.Sprintf("%+v", d))
			}
		}
	}
	if len(taken[one]) < n {
		x.seen["held back"]++
	}
	if !slices.Equal(taken[one], taken[many]) {
		x.Errorf("single calls reserved\n%s\nand a batch reserved\n%s", strings.Join(taken[one], "\n"),
			strings.Join(taken[many], "\n"))
	}
}

// settle settles some of the deliveries, some of them twice, and keeps others.
func (x *twins) settle() {
	x.Helper()
	var at []int
	for i := range x.held[one] {
		if x.IntN(3) > 0 {
			at = append(at, i)
		}
	}
	if len(at) == 0 || len(x.held[one]) != len(x.held[many]) {
		return
	}
	at = append(at, pick(x, at...), x.IntN(len(x.held[one])))
	// Acks without a result have a shorter form.
	plain := x.IntN(3) == 0
	ends := make([]duly.SettleRequest, len(at))
	for i := range ends {
		o := duly.SettleRequest{As: pick(x, duly.Ack, duly.Ack, duly.Nack, duly.Release, duly.Bury)}
		if o.As == duly.Ack && x.IntN(3) == 0 {
			o.Result = []byte("result")
		}
		if delay := pick(x, 0, time.Second, -1); delay >= 0 && (o.As == duly.Nack || o.As == duly.Release) {
			o.Delay = &delay
		}
		if o.As == duly.Nack || o.As == duly.Bury {
			o.Error = pick(x, "", "error")
		}
		if plain {
			o = duly.SettleRequest{As: duly.Ack}
		}
		ends[i] = o
	}

	var stale []int
	for range x.IntN(3) * min(1, len(x.past[one])) {
		stale = append(stale, x.IntN(len(x.past[one])))
	}
	perm := x.Perm(len(ends) + len(stale))
	for range stale {
		ends = append(ends, duly.SettleRequest{As: duly.Ack})
	}
	ordered := make([]duly.SettleRequest, len(ends))
	for i, k := range perm {
		ordered[i] = ends[k]
	}
	codes := map[string][]string{}
	for _, queue := range bothQueues {
		outcomes := slices.Clone(ordered)
		for i, k := range perm {
			if k < len(at) {
				outcomes[i].Receipt = x.held[queue][at[k]].Receipt
			} else {
				outcomes[i].Receipt = x.past[queue][stale[k-len(at)]]
			}
		}
		size := 1
		if queue == many {
			size = len(outcomes)
		}
		for part := range slices.Chunk(outcomes, size) {
			errs, err := x.e.Settle(x.Context(), "", part)
			x.must(err)
			for _, err := range errs {
				codes[queue] = append(codes[queue], string(duly.CodeOf(err)))
			}
		}
		for _, i := range at {
			x.past[queue] = append(x.past[queue], x.held[queue][i].Receipt)
		}
		x.past[queue] = x.past[queue][max(0, len(x.past[queue])-40):]
		x.held[queue] = without(x.held[queue], at)
	}
	for i, code := range codes[one] {
		if x.seen[code]++; code == "" {
			x.seen[ordered[i].As.String()]++
		}
	}
	if !slices.Equal(codes[one], codes[many]) {
		x.Errorf("%+v of %v: single calls returned %q, one batch returned %q", ordered, at, codes[one], codes[many])
	}
}

// without returns the deliveries except those at some indexes.
func without(ds []duly.Delivery, at []int) (left []duly.Delivery) {
	for i, d := range ds {
		if !slices.Contains(at, i) {
			left = append(left, d)
		}
	}
	return left
}

// remove deletes some of the jobs, some of them twice.
func (x *twins) remove() {
	x.Helper()
	if len(x.ids) == 0 {
		return
	}
	ids := make([]string, x.IntN(4))
	for i := range ids {
		ids[i] = pick(x, x.ids[max(0, len(x.ids)-40):]...)
	}
	var alone, together []string
	for _, id := range ids {
		err := x.e.Delete(x.Context(), duly.Q(one), id)
		if err != nil && !errors.Is(err, duly.ErrNotFound) {
			x.Fatal(err)
		}
		alone = append(alone, string(duly.CodeOf(err)))
	}
	for _, lost := range x.deleteTogether(many, ids) {
		together = append(together, map[bool]string{true: string(duly.CodeNotFound)}[lost])
	}
	for _, code := range alone {
		x.seen[map[bool]string{true: "deleted", false: code}[code == ""]]++
	}
	if !slices.Equal(alone, together) {
		x.Errorf("deletes of %q returned %q alone and %q in a batch", ids, alone, together)
	}
}

// deleteTogether deletes jobs in one script call. It reports, for each ID, whether no job had it.
func (x *twins) deleteTogether(queue string, ids []string) []bool {
	x.Helper()
	lost := make([]bool, len(ids))
	var calls []*jobs.Batched
	for i, id := range ids {
		calls = append(calls, &jobs.Batched{Call: batch.Call{Items: 1},
			CallArgs: codec.CallArgs{Args: []string{codec.Alias(id)}},
			Apply:    func(r jobs.BatchReply) { lost[i] = len(r.Lost) > 0 }})
	}
	if len(calls) > 0 {
		q := x.e.catalog.Cache.Get(duly.Q(queue).Normal())
		x.must(x.e.calls.Batchers(q, q.Shards[0]).Remove.Send(x.Context(), began(x.Context(), calls)))
	}
	return lost
}

// requeue requeues some jobs. Most of them are not dead.
func (x *twins) requeue() {
	x.Helper()
	if len(x.ids) == 0 || x.IntN(2) == 0 {
		return
	}
	p := duly.RequeueParams{Tries: pick(x, 0, 5), TTL: pick(x, 0, time.Hour)}
	for range 1 + x.IntN(30) {
		p.IDs = append(p.IDs, pick(x, x.ids...))
	}
	together, err := x.e.Requeue(x.Context(), duly.Q(many), p)
	x.must(err)
	for i, id := range p.IDs {
		single := p
		single.IDs = []string{id}
		alone, err := x.e.Requeue(x.Context(), duly.Q(one), single)
		if x.must(err); alone[0].Err == nil {
			x.seen["requeued"]++
		}
		want := strings.ReplaceAll(fmt.Sprintf("%+v", alone[0]), "default/"+one, "default/"+many)
		if got := fmt.Sprintf("%+v", together[i]); got != want {
			x.Errorf("a requeue of %s returned %s alone and %s in a batch", id, want, got)
		}
	}
}

// compare checks that both queues have the same data in the store, except for the numbers of jobs
// with another ID.
func (x *twins) compare() {
	x.Helper()
	was := x.stored(one)
	for name, got := range x.stored(many) {
		if got != was[name] {
			x.Errorf("the queues differ in %s\n%s", name, lineDiff(was[name], got))
		}
	}
}

// stored returns the data of a queue. A job with an alias is listed under it.
func (x *twins) stored(queue string) map[string]string {
	x.Helper()
	s := x.e.catalog.Cache.Get(duly.Q(queue).Normal()).Shards[0]
	var names []string
	for _, entry := range entriesOf(x.server, s.Name("alias")) {
		name, number, _ := strings.Cut(entry, " → ")
		if name[0] == 'i' || strings.HasPrefix(name, "6e") && len(name) == 34 {
			names = append(names, number, name)
		}
	}
	named := strings.NewReplacer(names...)
	all := map[string]string{}
	for _, entry := range entriesOf(x.server, s.Name("records")) {
		_, record, _ := strings.Cut(entry, " → ")
		if strings.HasPrefix(record[12:], "ff") {
			x.seen["inline"]++
		}
	}
	for _, name := range store.ShardKeys {
		if name == "config" || name == "marker" {
			continue
		}
		var lines []string
		for _, entry := range entriesOf(x.server, s.Name(name)) {
			// The order of additions changes the last digits of the bucket.
			if name != "tally" || !strings.HasPrefix(entry, "later") && !strings.HasPrefix(entry, "bucket_taken") {
				lines = append(lines, named.Replace(entry)+"\n")
			}
		}
		slices.Sort(lines)
		all[name] = strings.Join(lines, "")
	}
	return all
}

// lineDiff returns the lines that only one of two texts has, shortened. It marks lines of a with +1,
// and lines of b with -1.
func lineDiff(a, b string) string {
	in := map[string]int{}
	for _, l := range strings.Split(a, "\n") {
		in[l]++
	}
	for _, l := range strings.Split(b, "\n") {
		in[l]--
	}
	var out []string
	for l, n := range in {
		if n != 0 {
			out = append(out, fmt.Sprintf("%+d %.120s", n, l))
		}
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}
