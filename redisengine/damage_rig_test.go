package redisengine_test

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/redisengine"
	"github.com/dulymq/duly/redisengine/internal/store"
)

// damageRig is a queue with jobs of every kind, for tests that damage the store. A job's body
// begins with its name. Copies of a kind are named kind-0, kind-1 and so on.
type damageRig struct {
	*testing.T
	server *redistest.Server
	prefix string
	shards int
	clock  *clock.Fake // nil means the server's clock
	e      *redisengine.Engine
	jobs   map[string]place        // locations of the pushed jobs, by name
	held   map[string]duly.Receipt // receipts of leased jobs, by kind
	next   map[string]int          // index of the next undamaged job, by kind
	gone   map[string]bool         // jobs whose record was deleted
	bodies map[string]bool         // bodies of the pushed jobs
	acked  map[string]bool
}

// place is the location of a stored job.
type place struct {
	shard  int
	number string
}

var damageQueue = duly.Q("damageRig")

func newDamaged(t *testing.T, shards, copies int) *damageRig {
	r := openDamaged(t, shards, clock.NewFake())
	r.fill(copies)
	return r
}

func openDamaged(t *testing.T, shards int, c *clock.Fake) *damageRig {
	server, prefix := redistest.Shared(t)
	return openDamagedOn(t, server, prefix, shards, c)
}

func openDamagedOn(t *testing.T, server *redistest.Server, prefix string, shards int, c *clock.Fake,
	options ...string) *damageRig {
	r := &damageRig{
		T: t, server: server, prefix: prefix, shards: shards, clock: c, jobs: map[string]place{},
		held: map[string]duly.Receipt{},
		next: map[string]int{}, gone: map[string]bool{}, bodies: map[string]bool{}, acked: map[string]bool{},
	}
	cfg := redisengine.Config{URL: r.server.URL() + "?" + strings.Join(append(options, "prefix="+r.prefix), "&"),
		Manual: true, Logger: slog.New(slog.DiscardHandler)}
	if c != nil {
		cfg.Clock = c
	}
	var err error
	if r.e, err = redisengine.Open(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.e.Close() })
	if err := r.e.Configure(t.Context(), damageQueue, duly.QueueConfig{Shards: shards}); err != nil {
		t.Fatal(err)
	}
	return r
}

// fill pushes the jobs. Some of them are delivered and settled, or stay leased.
func (r *damageRig) fill(copies int) {
	r.Helper()
	first := func(i int) []duly.Job {
		k := strconv.Itoa(i)
		return []duly.Job{
			{Body: []byte("buried-" + k)}, {Body: []byte("done-" + k), Retain: time.Hour}, {Body: []byte("taken-" + k)},
			{Body: []byte("head-" + k), OrderKey: "k" + k}, {Body: []byte("retry-" + k), OrderKey: "r" + k},
			{Body: []byte("failed-" + k)},
			{Body: []byte("stuck-" + k), OrderKey: "s" + k},
			{Body: []byte("until-" + k), Merge: duly.Merge{Key: "u" + k, Until: duly.UntilDone}},
			{Body: []byte("merging-" + k), Merge: duly.Merge{Key: "l" + k}}, {Body: []byte("kept-" + k), Retain: time.Hour},
		}
	}
	then := func(i int) []duly.Job {
		k := strconv.Itoa(i)
		return []duly.Job{
			{Body: []byte("behind-" + k), OrderKey: "k" + k}, {Body: []byte("waiting-" + k), OrderKey: "r" + k},
			{Body: []byte("held-" + k), OrderKey: "s" + k},
			{Body: []byte("plain-" + k)}, {Body: []byte("headed-" + k),
				Headers: map[string]string{"a": "b", "long": strings.Repeat("x", 200)}},
			{Body: []byte("own-" + k), ID: "own-" + k}, {Body: []byte("large-" + k + strings.Repeat(".", 9<<10))},
			{Body: []byte("brief-" + k), TTL: time.Hour}, {Body: []byte("later-" + k), Delay: time.Minute},
			{Body: []byte("merged-" + k), Merge: duly.Merge{Key: "m" + k}, Priority: 7},
		}
	}
	for i := range copies {
		r.push(first(i)...)
	}
	got := r.reserve()
	r.hold(got)
	for _, d := range got {
		switch kind(&d.Job) {
		case "buried":
			r.settle(duly.SettleRequest{Receipt: d.Receipt, As: duly.Bury, Error: "no"})
		case "done":
			r.settle(duly.SettleRequest{Receipt: d.Receipt, As: duly.Ack, Result: []byte("yes")})
			r.acked[name(&d.Job)] = true
		case "retry", "failed", "stuck":
			delay := 2 * time.Minute
			r.settle(duly.SettleRequest{Receipt: d.Receipt, As: duly.Nack, Delay: &delay, Error: "not yet"})
		}
	}
	for i := range copies {
		r.push(then(i)...)
	}
	r.locate()
}

// hold keeps the receipts of deliveries.
func (r *damageRig) hold(got []duly.Delivery) {
	for _, d := range got {
		r.held[kind(&d.Job)] = d.Receipt
	}
}

// name returns the beginning of the body.
func name(j *duly.Job) string { n, _, _ := strings.Cut(string(j.Body), "."); return n }

func kind(j *duly.Job) string { k, _, _ := strings.Cut(name(j), "-"); return k }

func (r *damageRig) push(jobs ...duly.Job) {
	r.Helper()
	for i := range jobs {
		jobs[i].Queue = damageQueue.Name
		r.bodies[string(jobs[i].Body)] = true
	}
	results, err := r.e.Push(r.Context(), jobs)
	if err != nil {
		r.Fatal(err)
	}
	for i, result := range results {
		if result.Err != nil || result.Status != duly.Created {
			r.Fatal(name(&jobs[i]), result)
		}
	}
}

// reserve reserves all deliverable jobs.
func (r *damageRig) reserve() (all []duly.Delivery) {
	r.Helper()
	for {
		got, err := r.e.Reserve(r.Context(), duly.ReserveParams{Queues: []string{damageQueue.Name}, Max: 1000})
		if err != nil {
			r.Fatal(err)
		}
		if len(got) == 0 {
			return all
		}
		all = append(all, got...)
	}
}

func (r *damageRig) settle(outcomes ...duly.SettleRequest) {
	r.Helper()
	errs, err := r.e.Settle(r.Context(), "", outcomes)
	if err != nil {
		r.Fatal(err)
	}
	for _, err := range errs {
		if err != nil {
			r.Fatal(err)
		}
	}
}

// locate finds the location of every stored job.
func (r *damageRig) locate() {
	r.Helper()
	for _, j := range r.list() {
		p := place{shard: contract.ShardOf(j.ID, r.shards)}
		if n, ok := duly.ParseNumber(j.ID); ok {
			p.number = string(n[:])
		} else {
			p.number = r.do("HGET", r.key(p.shard, "alias"), "i"+j.ID).(string)
		}
		r.jobs[name(&j.Job)] = p
	}
}

// list returns every job of every state, with its body.
func (r *damageRig) list() (all []duly.JobInfo) {
	r.Helper()
	for _, state := range duly.States {
		p := duly.ListParams{State: state, Bodies: true, PageParams: duly.PageParams{Limit: 1000}}
		for {
			page, err := r.e.List(r.Context(), damageQueue, p)
			if err != nil {
				r.Fatal(err)
			}
			all = append(all, page.Jobs...)
			if p.Cursor = page.Next; p.Cursor == "" {
				break
			}
		}
	}
	return all
}

// key returns the name of a shard's key.
func (r *damageRig) key(shard int, name string) string {
	return store.ShardTag(r.prefix, damageQueue, shard) + name
}

func (r *damageRig) do(args ...any) any {
	r.Helper()
	return r.server.Must(args...)
}

// victim is a job to be damaged.
type victim struct {
	*damageRig
	place
	name string
}

// take returns an undamaged job of a kind.
func (r *damageRig) take(kind string) victim {
	r.Helper()
	name := kind + "-" + strconv.Itoa(r.next[kind])
	r.next[kind]++
	p, ok := r.jobs[name]
	if !ok {
		r.Fatalf("there is no job %s", name)
	}
	return victim{r, p, name}
}

// on runs a command on one of the keys of the job's shard.
func (v victim) on(command, key string, args ...any) any {
	v.Helper()
	return v.do(append([]any{command, v.key(v.shard, key)}, args...)...)
}

// hash reads a field of a hash.
func (v victim) hash(key, field string) string {
	v.Helper()
	s, _ := v.on("HGET", key, field).(string)
	return s
}

// score returns the job's score in a set.
func (v victim) score(key string) string {
	v.Helper()
	s, _ := v.on("ZSCORE", key, v.number).(string)
	return s
}

// member returns the job's member of the blocked set.
func (v victim) member() string {
	v.Helper()
	for _, m := range v.on("ZRANGE", "blocked", 0, -1).([]any) {
		if strings.HasSuffix(m.(string), v.number) {
			return m.(string)
		}
	}
	v.Fatalf("%s is not blocked", v.name)
	return ""
}

// alias returns the field of a kind, i or m, that leads to the job.
func (v victim) alias(kind string) string {
	v.Helper()
	all := v.on("HGETALL", "alias").([]any)
	for i := 0; i < len(all); i += 2 {
		if all[i+1].(string) == v.number && strings.HasPrefix(all[i].(string), kind) {
			return all[i].(string)
		}
	}
	v.Fatalf("%s has no alias", v.name)
	return ""
}

// lose deletes the record: the job is lost.
func (v victim) lose() {
	v.Helper()
	v.on("HDEL", "records", v.number)
	v.gone[v.name] = true
}

func (r *damageRig) check(repair bool) contract.CheckReport {
	r.Helper()
	report, err := r.e.Check(r.Context(), contract.CheckParams{Repair: repair})
	if err != nil {
		r.Fatal(err)
	}
	return report
}

// findAndMend checks that Check finds the faults and changes nothing, and that one repair fixes
// all of them. The queue is then sound, and delivers every job.
func (r *damageRig) findAndMend(kinds ...string) {
	r.Helper()
	before := r.dump()
	report := r.check(false)
	r.want(report, false, kinds)
	for key, after := range r.dump() {
		if after != before[key] {
			r.Errorf("Check without repair has changed %s from\n%q\nto\n%q", key, before[key], after)
		}
	}
	report = r.check(true)
	r.want(report, true, kinds)
	if report.Repaired != len(report.Faults) {
		r.Errorf("%d of %d faults were repaired: %+v", report.Repaired, len(report.Faults), report.Faults)
	}
	r.sound()
	r.drain()
	r.sound()
}

// want checks that a report has faults of these kinds.
func (r *damageRig) want(report contract.CheckReport, repaired bool, kinds []string) {
	r.Helper()
	found := map[string]bool{}
	for _, f := range report.Faults {
		if f.Repaired == repaired {
			found[f.Kind] = true
		}
	}
	for _, kind := range kinds {
		if !found[kind] {
			r.Errorf("Check found %v, want %s (repaired: %t)", slices.Sorted(maps.Keys(found)), kind, repaired)
		}
	}
}

// sound checks that no faults are left.
func (r *damageRig) sound() {
	r.Helper()
	for _, f := range r.check(false).Faults {
		r.Errorf("after the repair Check found %s: job %q, %s", f.Kind, f.ID, f.Detail)
	}
}

// dump returns all stored data, by key.
func (r *damageRig) dump() map[string]string {
	r.Helper()
	all := map[string]string{}
	read := map[string][]any{"hash": {"HGETALL"}, "zset": {"ZRANGE", 0, -1, "WITHSCORES"}, "string": {"GET"},
		"none": {"TYPE"}}
	for shard := range r.shards {
		for _, name := range redisengine.ShardKeys {
			key := r.key(shard, name)
			args := read[fmt.Sprint(r.do("TYPE", key))]
			v := r.do(slices.Insert(slices.Clone(args), 1, any(key))...)
			// The fields come in no order.
			if list, ok := v.([]any); ok && args[0] == "HGETALL" {
				pairs := make([]string, 0, len(list)/2)
				for i := 0; i < len(list); i += 2 {
					pairs = append(pairs, fmt.Sprintf("%q: %q", list[i], list[i+1]))
				}
				slices.Sort(pairs)
				v = pairs
			}
			all[key] = fmt.Sprint(v)
		}
	}
	return all
}

// drain reserves and settles jobs until none is left. Every job must be delivered or dead, except
// those that were lost with their records.
func (r *damageRig) drain() {
	r.Helper()
	for range 4 {
		// The advance ends every lease and delay.
		r.clock.Advance(time.Minute)
		for _, d := range r.reserve() {
			if d.Now.Before(d.Due) {
				r.Errorf("%s was delivered at %s, but is due at %s", name(&d.Job), d.Now, d.Due)
			}
			if !r.bodies[string(d.Body)] {
				r.Errorf("a job was delivered with a body that was not pushed: %d bytes, %.20q", len(d.Body), d.Body)
			}
			r.acked[name(&d.Job)] = true
			r.settle(duly.SettleRequest{Receipt: d.Receipt, As: duly.Ack})
		}
	}
	s, err := r.e.Stats(r.Context(), damageQueue)
	if err != nil {
		r.Fatal(err)
	}
	if z := s.Sizes; z.Delayed+z.Ready+z.Blocked+z.Leased > 0 {
		r.Errorf("jobs are stuck: %+v", z)
	}
	dead := map[string]bool{}
	for _, j := range r.list() {
		if j.State == duly.StateDead {
			dead[name(&j.Job)] = true
			if j.LastError == "" {
				r.Errorf("%s is dead without a reason", name(&j.Job))
			}
		}
	}
	for name := range r.jobs {
		if !r.acked[name] && !dead[name] && !r.gone[name] {
			r.Errorf("%s was lost", name)
		}
	}
}
