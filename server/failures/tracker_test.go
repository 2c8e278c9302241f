package failures

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
)

// deadSet is a set of dead jobs in shards, which List lists one after the other.
type deadSet struct {
	shards [][]duly.JobInfo
	died   int64
	calls  int
	longer int // the longest page
	clock  *clock.Fake
	// took is the time of a call.
	took time.Duration
	err  error
	// leave is called before err is returned.
	leave func()
}

func newSet(shards int) *deadSet {
	return &deadSet{shards: make([][]duly.JobInfo, shards), clock: clock.NewFake()}
}

// add adds a job that died now.
func (d *deadSet) add(shard int, err string) string {
	d.died++
	id := fmt.Sprint("job-", d.died)
	d.shards[shard] = append(d.shards[shard], duly.JobInfo{
		Job: duly.Job{ID: id, Tries: 16}, State: duly.StateDead, Attempt: 16, LastError: err, FinishedAt: d.clock.Now(),
	})
	return id
}

// remove removes jobs.
func (d *deadSet) remove(ids ...string) {
	gone := map[string]bool{}
	for _, id := range ids {
		gone[id] = true
	}
	for i := range d.shards {
		d.shards[i] = slices.DeleteFunc(d.shards[i], func(j duly.JobInfo) bool { return gone[j.ID] })
	}
}

func (d *deadSet) size() Size {
	n := 0
	for _, jobs := range d.shards {
		n += len(jobs)
	}
	return Size{Queue: "mail", Dead: int64(n), Died: d.died, Mono: d.clock.Mono()}
}

// List implements Lister. The cursor is the shard and the number of the last job, as engines have it.
func (d *deadSet) List(_ context.Context, _ duly.QueueRef, p duly.ListParams) (page duly.ListPage, err error) {
	d.calls++
	d.clock.Advance(d.took)
	if d.err != nil {
		if d.leave != nil {
			d.leave()
		}
		return page, d.err
	}
	shard, after, _ := strings.Cut(p.Cursor, ":")
	at, _ := strconv.Atoi(shard)
	last, _ := strconv.Atoi(after)
	number := func(j *duly.JobInfo) int { n, _ := strconv.Atoi(strings.TrimPrefix(j.ID, "job-")); return n }
	for ; at < len(d.shards); at, last = at+1, 0 {
		jobs := d.shards[at]
		for i := sort.Search(len(jobs), func(i int) bool { return number(&jobs[i]) > last }); i < len(jobs); i++ {
			if len(page.Jobs) == p.Limit {
				page.Next = fmt.Sprintf("%d:%d", at, last)
				d.longer = max(d.longer, len(page.Jobs))
				return page, nil
			}
			page.Jobs = append(page.Jobs, jobs[i])
			last = number(&jobs[i])
		}
	}
	d.longer = max(d.longer, len(page.Jobs))
	return page, nil
}

func look(t *testing.T, tracker *Tracker, sizes ...Size) *Report {
	t.Helper()
	r, err := tracker.Look(t.Context(), "shop", sizes)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// counts returns the counts of a report by pattern.
func counts(r *Report) string {
	text := make([]string, 0, len(r.Groups))
	for _, g := range r.Groups {
		text = append(text, fmt.Sprintf("%d %s", g.Count, g.Pattern))
	}
	return strings.Join(text, ", ")
}

// P8.1: 100 000 dead jobs with 40 errors and variable parts are 40 groups with exact counts, in pages of 1000 jobs.
func TestGroupsOfManyJobs(t *testing.T) {
	t.Parallel()
	d := newSet(1)
	for i := range 100_000 {
		letter := string(rune('a'+i%40%26)) + strings.Repeat("x", i%40/26)
		d.add(0, fmt.Sprintf("%s: order %d of 10.0.%d.%d failed after %dms", letter, i, i%256, i%100, i))
	}
	tracker := &Tracker{Engine: d, Clock: d.clock}
	r := look(t, tracker, d.size())
	if len(r.Groups) != 40 || r.Examined != 100_000 || r.Jobs != 100_000 || d.longer > duly.MaxBatch || d.calls > 101 {
		t.Fatalf("%d groups of %d jobs in %d calls", len(r.Groups), r.Examined, d.calls)
	}
	for _, g := range r.Groups {
		if g.Count != 2500 || r.Share(g) != "2.5 %" || len(g.Samples) != maxSamples || g.Tries() != "16" {
			t.Errorf("the group %q has %d jobs, %s, and tries %s", g.Pattern, g.Count, r.Share(g), g.Tries())
		}
	}
}

// A look calls the engine only if the queue has changed. New jobs take one call, removed ones a walk.
func TestLookCallsOnlyAfterChanges(t *testing.T) {
	t.Parallel()
	d := newSet(1)
	var ids []string
	for range 2500 {
		ids = append(ids, d.add(0, "boom"))
	}
	tracker := &Tracker{Engine: d, Clock: d.clock}
	for _, step := range []struct {
		name   string
		change func()
		calls  int
		want   string
	}{
		{"first", func() {}, 3, "2500 boom"},
		{"nothing", func() {}, 0, "2500 boom"},
		{"one died", func() { d.add(0, "bang") }, 1, "2500 boom, 1 bang"},
		{"many died", func() {
			for range 1200 {
				d.add(0, "bang")
			}
		}, 2, "2500 boom, 1201 bang"},
		{"one removed", func() { d.remove(ids[0]) }, 4, "2499 boom, 1201 bang"},
		{"one removed, one died", func() { d.remove(ids[1]); d.add(0, "crash") }, 4, "2498 boom, 1201 bang, 1 crash"},
	} {
		step.change()
		d.calls = 0
		d.clock.Advance(time.Second)
		r := look(t, tracker, d.size())
		if got := counts(r); got != step.want || d.calls != step.calls || r.Unfinished || r.Examined != d.size().Dead {
			t.Errorf("%s: %s after %d calls, want %s after %d", step.name, got, d.calls, step.want, step.calls)
		}
	}
	if r := look(t, tracker, Size{Queue: "mail"}); len(r.Groups) != 0 {
		t.Errorf("an empty queue has %s", counts(r))
	}
}

// With several shards a new job is not at the end of the list. Then the walk begins again.
func TestLookFindsNewJobsOfAllShards(t *testing.T) {
	t.Parallel()
	d := newSet(3)
	tracker := &Tracker{Engine: d, Clock: d.clock}
	for i := range 300 {
		d.add(i%3, "boom")
		if r := look(t, tracker, d.size()); r.Groups[0].Count != int64(i)+1 || r.Examined != int64(i)+1 {
			t.Fatalf("%d of %d jobs", r.Groups[0].Count, i+1)
		}
	}
}

// Statistics that are older than the walk, or newer jobs among its pages, lead to no second walk.
func TestLookAcceptsJobsThatDieMeanwhile(t *testing.T) {
	t.Parallel()
	d := newSet(1)
	d.add(0, "boom")
	old := d.size()
	d.add(0, "boom")
	tracker := &Tracker{Engine: d, Clock: d.clock}
	look(t, tracker, old)
	d.calls = 0
	if r := look(t, tracker, d.size()); d.calls != 0 || r.Examined != 2 {
		t.Errorf("%d jobs after %d calls", r.Examined, d.calls)
	}
	d.clock.Advance(time.Second)
	look(t, tracker, d.size())
	if look(t, tracker, old); d.calls != 0 {
		t.Errorf("old statistics make %d calls", d.calls)
	}
}

// A look takes limited time, and the next one continues. A queue that changes all the time is walked over for a third
// of the time.
func TestLookTakesLimitedTime(t *testing.T) {
	t.Parallel()
	d := newSet(1)
	for range 5000 {
		d.add(0, "boom")
	}
	d.took = time.Second
	tracker := &Tracker{Engine: d, Clock: d.clock}
	for _, want := range []int64{2000, 4000, 5000} {
		if r := look(t, tracker, d.size()); r.Examined != want || r.Unfinished != (want < 5000) {
			t.Fatalf("%d jobs are examined, want %d", r.Examined, want)
		}
	}

	d.remove("job-1")
	d.calls = 0
	const progress = "5000 of 5000 examined"
	if r := look(t, tracker, d.size()); d.calls != 0 || r.Examined != 5000 || r.Table("").Progress != progress {
		t.Errorf("%d calls at once", d.calls)
	}
}

// The time between two walks follows the last one. Walks that continue do not add up, and a look that ends within a
// walk makes no pause.
func TestContinuedWalksDoNotAddUp(t *testing.T) {
	t.Parallel()
	d := newSet(1)
	d.add(0, "boom")
	d.took = time.Second
	tracker := &Tracker{Engine: d, Clock: d.clock}
	for i := range int64(20) {
		if r := look(t, tracker, d.size()); r.Examined != i+1 {
			t.Fatalf("%d of %d jobs are examined", r.Examined, i+1)
		}
		d.add(0, "boom")
		d.clock.Advance(pause * time.Second)
	}

	for range 5000 {
		d.add(0, "boom")
	}
	for range 3 {
		look(t, tracker, d.size())
	}
	if r := look(t, tracker, d.size()); r.Unfinished || r.Examined != d.size().Dead {
		t.Errorf("%d of %d jobs are examined", r.Examined, d.size().Dead)
	}
}

// A caller that leaves does not end the walk of the others.
func TestLeavingKeepsTheWalk(t *testing.T) {
	t.Parallel()
	d := newSet(1)
	for range 3000 {
		d.add(0, "boom")
	}
	d.took = time.Second
	tracker := &Tracker{Engine: d, Clock: d.clock}
	look(t, tracker, d.size())
	ctx, leave := context.WithCancel(t.Context())
	d.err, d.leave = context.Canceled, leave
	if _, err := tracker.Look(ctx, "shop", []Size{d.size()}); !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
	d.err = nil
	if r := look(t, tracker, d.size()); r.Examined != 3000 || r.Unfinished {
		t.Errorf("%d jobs are examined", r.Examined)
	}
}

// A queue that was destroyed and created again may have as many dead jobs as before.
func TestLookForgetsAnEmptyQueue(t *testing.T) {
	t.Parallel()
	d := newSet(1)
	d.add(0, "boom")
	d.clock.Advance(time.Second)
	tracker := &Tracker{Engine: d, Clock: d.clock}
	look(t, tracker, d.size())
	look(t, tracker, Size{Queue: "mail"})
	if tracker.all.Load() != 1 {
		t.Error("old statistics drop the groups")
	}
	d.remove("job-1")
	d.died = 0
	d.clock.Advance(time.Second)
	if look(t, tracker, d.size()); tracker.all.Load() != 0 {
		t.Errorf("an empty queue has %d groups", tracker.all.Load())
	}
	d.add(0, "bang")
	if r := look(t, tracker, d.size()); counts(r) != "1 bang" {
		t.Errorf("the new queue has %s", counts(r))
	}
}

// A look may wait for a queue that is dropped.
func TestDroppedQueueKeepsItsTurn(t *testing.T) {
	t.Parallel()
	d := newSet(1)
	d.add(0, "boom")
	tracker := &Tracker{Engine: d, Clock: d.clock}
	look(t, tracker, d.size())
	dropped := tracker.queue(duly.QueueRef{Namespace: "shop", Name: "mail"})
	d.clock.Advance(keep)
	look(t, tracker)
	if len(tracker.queues) != 0 || len(dropped.turn) != 1 {
		t.Errorf("%d queues, %d turns", len(tracker.queues), len(dropped.turn))
	}
}

// The texts of samples are copies, so that the records of the engine leave memory.
func TestSamplesAreCopies(t *testing.T) {
	t.Parallel()
	d := newSet(1)
	id := d.add(0, "boom\nat line 7")
	r := look(t, &Tracker{Engine: d, Clock: d.clock}, d.size())
	sample, job := r.Groups[0].Samples[0], &d.shards[0][0]
	if sample.ID != id || sample.Error != "boom" || unsafe.StringData(sample.ID) == unsafe.StringData(job.ID) ||
		unsafe.StringData(sample.Error) == unsafe.StringData(job.LastError) {
		t.Errorf("the sample is %+v", sample)
	}
}

// A queue has at most 1000 groups, and the table says how many jobs are left out. All queues together have a bound too,
// and forgotten queues make room.
func TestGroupsAreBounded(t *testing.T) {
	t.Parallel()
	many := newSet(1)
	for i := range MaxGroups + 5 {
		many.add(0, "boom "+word(i))
	}
	tracker := &Tracker{Engine: many, Clock: many.clock}
	var r *Report
	for i := range maxAll/MaxGroups + 2 {
		size := many.size()
		size.Queue = fmt.Sprint("queue-", i)
		r = look(t, tracker, size)
	}
	if len(r.Groups) != 0 || r.Other != MaxGroups+5 || tracker.all.Load() != maxAll {
		t.Errorf("%d groups and %d others, %d groups in memory", len(r.Groups), r.Other, tracker.all.Load())
	}
	many.clock.Advance(keep)
	look(t, tracker)
	r = look(t, tracker, many.size())
	if table := r.Table(""); len(table.Rows) != maxRows {
		t.Errorf("the table has %d rows", len(table.Rows))
	}
	if len(r.Groups) != MaxGroups || r.Other != 5 || tracker.all.Load() != MaxGroups || len(tracker.queues) != 1 {
		t.Errorf("%d groups and %d others, %d groups in memory", len(r.Groups), r.Other, tracker.all.Load())
	}
	if notes := fmt.Sprint(r.Table("").Notes); !strings.Contains(notes, "5 jobs count as other") ||
		!strings.Contains(notes, "the largest 100 of 1000 groups") {
		t.Errorf("the notes are %s", notes)
	}
}

// word returns a word of letters for a number.
func word(n int) string {
	return strings.Map(func(r rune) rune { return r - '0' + 'k' }, strconv.Itoa(n))
}

// An error of the engine is that of the look. The walk begins again later.
func TestLookFails(t *testing.T) {
	t.Parallel()
	d := newSet(1)
	d.add(0, "boom")
	d.err = duly.ErrUnavailable
	tracker := &Tracker{Engine: d, Clock: d.clock}
	for range 2 {
		if _, err := tracker.Look(t.Context(), "shop", []Size{d.size()}); !errors.Is(err, duly.ErrUnavailable) {
			t.Errorf("the error is %v", err)
		}
	}
	d.err = nil
	if r := look(t, tracker, d.size()); counts(r) != "1 boom" || tracker.all.Load() != 1 {
		t.Errorf("later the groups are %s", counts(r))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := tracker.Look(ctx, "shop", []Size{d.size()}); !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
}

// The groups of a namespace are those of its queues together.
func TestReportMergesQueues(t *testing.T) {
	t.Parallel()
	d := newSet(1)
	first := d.clock.Now()
	d.add(0, "order 1 is gone")
	d.clock.Advance(time.Hour)
	d.add(0, "order 2 is gone")
	d.add(0, "")
	last := d.clock.Now()
	tracker := &Tracker{Engine: d, Clock: d.clock}
	var sizes []Size
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		size := d.size()
		size.Queue = name
		sizes = append(sizes, size)
	}
	r := look(t, tracker, sizes...)
	row := r.Table("").Rows[0]
	if counts(r) != "10 order <n> is gone, 5 "+NoReason || row.Where != "a, b, c and 2 more" ||
		row.Sample != "order 2 is gone" ||
		!row.First.Equal(first) || !row.Last.Equal(last) || row.Share != "66.7 %" || len(row.Samples) != maxSamples {
		t.Errorf("%s, first row %+v", counts(r), row)
	}
	if row.Spark != "M0 20v-20h3v20zM92 20v-20h3v20z" {
		t.Errorf("the spark is %s", row.Spark)
	}
	if g := r.Find(Fingerprint("order 7 is gone")); g == nil || g.Count != 10 || r.Find("none") != nil {
		t.Error("the group is not found by its fingerprint")
	}
	all, err := All(t.Context(), d, duly.Q("mail"), nil)
	if err != nil || counts(all) != "2 order <n> is gone, 1 "+NoReason || all.Jobs != 3 {
		t.Errorf("all groups are %s, %v", counts(all), err)
	}
}

// A histogram keeps every count, in any order of moments.
func TestHistogram(t *testing.T) {
	t.Parallel()
	const epoch = 1_900_000_000_000
	for _, step := range []int64{0, 1, 999, 3_600_000, -3_600_000, 86_400_000 * 30, -86_400_000 * 30} {
		var h, sum histogram
		for i := range int64(500) {
			h.add(epoch+i*i%97*step, 1)
		}
		sum.merge(&h)
		sum.merge(&h)
		n, both := uint32(0), uint32(0)
		for i := range h.counts {
			n, both = n+h.counts[i], both+sum.counts[i]
		}
		if n != 500 || both != 1000 || h.used < 1 || h.used > buckets {
			t.Errorf("steps of %d ms: %d and %d moments in %d buckets", step, n, both, h.used)
		}
		if path := h.path(epoch-97*max(step, -step), epoch+97*max(step, -step)); !strings.Contains(path, "v-20h3v20z") {
			t.Errorf("steps of %d ms have the path %q", step, path)
		}
	}
}

// A group counts 16 attempts apart.
func TestAttempts(t *testing.T) {
	t.Parallel()
	for _, order := range [][]int{{1, 100, 1}, {100, 1, -1}} {
		var g Group
		for n := order[0]; n != order[1]+order[2]; n += order[2] {
			g.attempt(n, 1)
		}
		sum := int64(0)
		for _, a := range g.Attempts {
			sum += a.Count
		}
		last := g.Attempts[len(g.Attempts)-1]
		if len(g.Attempts) != maxAttempts || last.Attempt != 16 && order[2] > 0 || g.Attempts[0].Attempt != 1 {
			t.Errorf("%d attempts from %d to %d", len(g.Attempts), g.Attempts[0].Attempt, last.Attempt)
		}
		if want := int64(max(order[0], order[1])); order[2] > 0 && sum != want || sum != 100 {
			t.Errorf("%d jobs are counted", sum)
		}
	}
}
