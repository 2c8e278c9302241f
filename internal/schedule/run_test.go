package schedule

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
)

// tick0 is 2026-05-01T03:00:00Z.
const tick0 = int64(1_777_604_400_000)

// Rules C17.50 to C17.52. The IDs were computed by another program.
func TestRunIDEqualsThatOfAnotherProgram(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		template duly.Job
		overlap  duly.Overlap
		want     string
	}{
		{duly.Job{}, duly.OverlapSkip, goldenSchedule},
		{duly.Job{}, duly.OverlapAllow, goldenSchedule},
		{duly.Job{}, duly.OverlapOne, goldenSchedule},
		{duly.Job{}, duly.OverlapAll, goldenSchedule},
		{duly.Job{OrderKey: "tenant-1"}, duly.OverlapAllow, goldenOrder},
		{duly.Job{OrderKey: "tenant-1"}, duly.OverlapSkip, goldenOrder},
		{duly.Job{Merge: duly.Merge{Key: "tenant-1"}}, duly.OverlapAllow, goldenOrder},
		{duly.Job{Merge: duly.Merge{Key: "tenant-1"}}, duly.OverlapSkip, goldenSchedule},
		{duly.Job{OrderKey: "tenant-1", Merge: duly.Merge{Key: "x"}}, duly.OverlapAllow, goldenOrder},
		{duly.Job{Body: []byte("a body"), Merge: duly.Merge{Mode: duly.MergeKeep}}, duly.OverlapAllow, goldenBody},
	} {
		r, _ := record(t, duly.Schedule{Spec: "0 3 * * *", Overlap: tt.overlap, Template: tt.template}, tick0)
		run := Run(r, tick0)
		if run.ID != tt.want {
			t.Errorf("%+v: ID %s, want %s", tt, run.ID, tt.want)
		}
		if err := contract.CheckShard(&run, 256); err != nil {
			t.Errorf("%+v: the ID does not have the shard of the key: %v", tt, err)
		}
	}
}

// The IDs of the runs of the tick 1777604400000 of default/reports/nightly.
const (
	goldenSchedule = "01KQGQN4W0WYZ887NV6G9C68CG"
	goldenOrder    = "01KQGQN4W0WYZ887NVZW9C68CG"
	goldenBody     = "01KQGQN4W0WYZ887NV2W9C68CG"
)

// An ID belongs to one tick of one schedule in one queue and namespace.
func TestRunIDsDiffer(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, namespace := range []string{"", "other"} {
		for _, queue := range []string{"a", "b"} {
			for _, name := range []string{"x", "y"} {
				for _, tick := range []int64{0, 1, tick0, clock.Milli(duly.MaxTime)} {
					r := contract.ScheduleRecord{Queue: duly.QueueRef{Namespace: namespace, Name: queue},
						Schedule: duly.Schedule{Name: name}}
					id := Run(&r, tick).ID
					n, ok := duly.ParseNumber(id)
					if at := int64(binary.BigEndian.Uint64(n[:8]) >> 16); !ok || at != tick {
						t.Errorf("ID %s of tick %d has the time %d", id, tick, at)
					}
					if seen[id] {
						t.Errorf("ID %s occurs twice", id)
					}
					seen[id] = true
				}
			}
		}
	}

	named := contract.ScheduleRecord{Queue: duly.QueueRef{Namespace: duly.DefaultNamespace, Name: "a"},
		Schedule: duly.Schedule{Name: "x"}}
	if !seen[Run(&named, tick0).ID] {
		t.Error("the default namespace has another ID by its name")
	}
}

// Rules C17.54 and C17.55. The offsets were computed by another program.
func TestOffsetEqualsThatOfAnotherProgram(t *testing.T) {
	t.Parallel()
	for jitter, want := range map[time.Duration]int64{
		0: 0, time.Millisecond: 0, time.Minute: 53_697, 24 * time.Hour: 25_493_697,
	} {
		r, _ := record(t, duly.Schedule{Spec: "0 3 * * *", Jitter: jitter}, tick0)
		if got := Offset(r, tick0); got != want {
			t.Errorf("jitter %s: offset %d, want %d", jitter, got, want)
		}
		if due := Run(r, tick0).Due; clock.Milli(due) != tick0+want {
			t.Errorf("jitter %s: due at %s", jitter, due)
		}
	}

	// The offsets of many ticks spread over the jitter.
	r, _ := record(t, duly.Schedule{Spec: "0 3 * * *", Jitter: time.Second}, tick0)
	var quarters [4]int
	for tick := range int64(4000) {
		quarters[Offset(r, tick)/250]++
	}
	for _, n := range quarters {
		if n < 900 || n > 1100 {
			t.Errorf("offsets of 4000 ticks by quarters of the jitter: %v", quarters)
		}
	}
}

// Rules C17.57 to C17.60.
func TestRunHasTheHeadersOfItsTick(t *testing.T) {
	t.Parallel()
	template := duly.Job{Headers: map[string]string{"trace": "1"}, Body: []byte("b"), Priority: 3}
	r, _ := record(t, duly.Schedule{Spec: "0 3 * * *", Template: template}, tick0)
	a, b := Run(r, tick0), Run(r, tick0+day+7)
	contract.SetPrevious(&a, 0)
	contract.SetPrevious(&b, tick0)

	if len(template.Headers) != 1 || len(a.Headers) != 3 || len(b.Headers) != 4 {
		t.Errorf("template %v, runs %v and %v", template.Headers, a.Headers, b.Headers)
	}
	for name, want := range map[string]string{
		"trace": "1", "duly-schedule": "nightly", "duly-tick": "2026-05-02T03:00:00.007Z",
		"duly-previous": "2026-05-01T03:00:00.000Z",
	} {
		if b.Headers[name] != want {
			t.Errorf("header %s is %q, want %q", name, b.Headers[name], want)
		}
	}
	if b.Queue != "reports" || b.Namespace != duly.DefaultNamespace || string(b.Body) != "b" || b.Priority != 3 || b.Made {
		t.Errorf("run %+v", b)
	}
	if err := contract.ValidateJob(&b, 0); err != nil {
		t.Error(err)
	}
}

// Rule C17.120: the first tick is after the later of now and last.
func TestFirstTickIsAfterNowAndLast(t *testing.T) {
	t.Parallel()
	_, timing := record(t, duly.Schedule{Spec: "0 3 * * *"}, 0)
	for _, tt := range []struct{ now, last, want int64 }{
		{tick0 - 1, 0, tick0}, {tick0, 0, tick0 + day}, {tick0 - 1, tick0, tick0 + day}, {tick0 - 5*day, tick0, tick0 + day},
	} {
		if got := First(timing, tt.now, tt.last); got != tt.want {
			t.Errorf("%+v: %d", tt, got)
		}
	}
}

func BenchmarkRun(b *testing.B) {
	r, _ := record(b, duly.Schedule{Spec: "0 3 * * *", Jitter: time.Minute}, tick0)
	for b.Loop() {
		Run(r, tick0)
	}
}
