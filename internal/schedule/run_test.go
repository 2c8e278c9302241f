package schedule

import (
	"encoding/binary"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
)

// tick0 is 2026-05-01T03:00:00Z.
const tick0 = int64(1_777_604_400_000)

// Rules S6.1 to S6.3. The IDs were computed by another program.
func TestRunID(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		template duly.Job
		overlap  Overlap
		want     string
	}{
		{duly.Job{}, OverlapSkip, goldenSchedule},
		{duly.Job{}, OverlapAllow, goldenSchedule},
		{duly.Job{}, OverlapOne, goldenSchedule},
		{duly.Job{}, OverlapAll, goldenSchedule},
		{duly.Job{OrderKey: "tenant-1"}, OverlapAllow, goldenOrder},
		{duly.Job{OrderKey: "tenant-1"}, OverlapSkip, goldenOrder},
		{duly.Job{Merge: duly.Merge{Key: "tenant-1"}}, OverlapAllow, goldenOrder},
		{duly.Job{Merge: duly.Merge{Key: "tenant-1"}}, OverlapSkip, goldenSchedule},
		{duly.Job{OrderKey: "tenant-1", Merge: duly.Merge{Key: "x"}}, OverlapAllow, goldenOrder},
		{duly.Job{Body: []byte("a body"), Merge: duly.Merge{Mode: duly.MergeKeep}}, OverlapAllow, goldenBody},
	} {
		r, _ := record(t, Definition{Spec: "0 3 * * *", Overlap: tt.overlap, Template: tt.template}, tick0)
		run := r.Run(tick0)
		if run.ID != tt.want {
			t.Errorf("%+v: ID %s, want %s", tt, run.ID, tt.want)
		}
		if err := contract.CheckShard(&run, 256); err != nil {
			t.Errorf("%+v: the ID does not have the shard of the key: %v", tt, err)
		}
	}
}

// The IDs of the tick 1777604400000 of default/reports/nightly.
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
					r := Record{Queue: duly.QueueRef{Namespace: namespace, Name: queue}, Definition: Definition{Name: name}}
					id := r.Run(tick).ID
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

	named := Record{Queue: duly.QueueRef{Namespace: duly.DefaultNamespace, Name: "a"}, Definition: Definition{Name: "x"}}
	if !seen[named.Run(tick0).ID] {
		t.Error("the default namespace has another ID by its name")
	}
}

// Rules S6.5 and S6.6. The offsets were computed by another program.
func TestOffset(t *testing.T) {
	t.Parallel()
	for jitter, want := range map[time.Duration]int64{
		0: 0, time.Millisecond: 0, time.Minute: 53_697, 24 * time.Hour: 25_493_697,
	} {
		r, _ := record(t, Definition{Spec: "0 3 * * *", Jitter: jitter}, tick0)
		if got := r.Offset(tick0); got != want {
			t.Errorf("jitter %s: offset %d, want %d", jitter, got, want)
		}
		if due := r.Run(tick0).Due; clock.Milli(due) != tick0+want {
			t.Errorf("jitter %s: due at %s", jitter, due)
		}
	}

	// The offsets of many ticks spread over the jitter.
	r, _ := record(t, Definition{Spec: "0 3 * * *", Jitter: time.Second}, tick0)
	var quarters [4]int
	for tick := range int64(4000) {
		quarters[r.Offset(tick)/250]++
	}
	for _, n := range quarters {
		if n < 900 || n > 1100 {
			t.Errorf("offsets of 4000 ticks by quarters of the jitter: %v", quarters)
		}
	}
}

// Rules S6.8 to S6.11.
func TestHeadersOfRun(t *testing.T) {
	t.Parallel()
	template := duly.Job{Headers: map[string]string{"trace": "1"}, Body: []byte("b"), Priority: 3}
	r, _ := record(t, Definition{Spec: "0 3 * * *", Template: template}, tick0)
	a, b := r.Run(tick0), r.Run(tick0+day+7)
	SetPrevious(&a, 0)
	SetPrevious(&b, tick0)

	if len(template.Headers) != 1 || len(a.Headers) != 3 || len(b.Headers) != 4 {
		t.Errorf("template %v, runs %v and %v", template.Headers, a.Headers, b.Headers)
	}
	for name, want := range map[string]string{
		"trace": "1", "duly-schedule": "nightly", "duly-tick": "2026-05-02T03:00:00.007Z", "duly-previous": "2026-05-01T03:00:00.000Z",
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

// Rule S7.
func TestShard(t *testing.T) {
	t.Parallel()
	if Key("nightly") != "schedule:nightly" {
		t.Errorf("key %s", Key("nightly"))
	}
	for _, shards := range []int{1, 2, 16, 256} {
		used := map[int]bool{}
		for i := range 1000 {
			name := "s" + string(rune('a'+i%26)) + string(rune('a'+i/26%26)) + string(rune('a'+i/676))
			shard := Shard(name, shards)
			if shard != contract.KeyShard("schedule:"+name, shards) || shard >= shards {
				t.Fatalf("%s is in shard %d of %d", name, shard, shards)
			}
			used[shard] = true

			r := Record{Queue: duly.Q("q"), Definition: Definition{Name: name}}
			for _, r.Overlap = range overlaps {
				if got := contract.ShardOf(r.Run(tick0).ID, shards); got != shard {
					t.Fatalf("%s is in shard %d of %d, its run in %d", name, shard, shards, got)
				}
				if err := r.CheckShard(shards); err != nil {
					t.Fatal(err)
				}
			}
		}
		if len(used) < shards*9/10 {
			t.Errorf("1000 schedules use %d of %d shards", len(used), shards)
		}
	}
}

// Rule S7.5: a key of another shard is invalid, and the error names both shards.
func TestKeyOfAnotherShard(t *testing.T) {
	t.Parallel()
	own := Shard("nightly", 4)
	key := func(in bool) string {
		for i := 0; ; i++ {
			if k := strings.Repeat("k", i+1); (contract.KeyShard(k, 4) == own) == in {
				return k
			}
		}
	}
	merge := func(key string) duly.Job { return duly.Job{Merge: duly.Merge{Key: key}} }
	for _, tt := range []struct {
		overlap  Overlap
		template duly.Job
		field    string
	}{
		{OverlapSkip, duly.Job{OrderKey: key(true)}, ""},
		{OverlapSkip, duly.Job{OrderKey: key(false)}, "template.order_key"},
		{OverlapOne, duly.Job{OrderKey: key(false)}, "template.order_key"},
		{OverlapAllow, duly.Job{OrderKey: key(false)}, "template.order_key"},
		{OverlapAllow, merge(key(false)), "template.merge"},
		{OverlapAllow, merge(key(true)), ""},
		{OverlapAllow, duly.Job{OrderKey: key(true), Merge: merge(key(false)).Merge}, ""},
	} {
		d := Definition{Name: "nightly", Overlap: tt.overlap, Template: tt.template}
		err := d.CheckShard(4)
		if tt.field == "" {
			if err != nil {
				t.Errorf("%+v: %v", tt, err)
			}
			continue
		}
		if !errors.Is(err, duly.ErrInvalid) || !strings.Contains(err.Error(), tt.field) || strings.Count(err.Error(), "shard ") < 2 {
			t.Errorf("%+v: %v", tt, err)
		}
		if err := d.CheckShard(1); err != nil {
			t.Errorf("%+v in one shard: %v", tt, err)
		}
	}
}

// The bad inputs of rules S3, S4 and S1.6 are invalid, and one error names each field.
func TestInvalidTiming(t *testing.T) {
	t.Parallel()
	at := func(text string) time.Time {
		m, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	for _, tt := range []struct {
		d    Definition
		says []string
	}{
		{Definition{Spec: "60 * * * *", Zone: "Local"}, []string{"spec minute", "0 to 59", "zone is \"Local\""}},
		{Definition{Spec: "@reboot", Zone: "Mars/Phobos"}, []string{"spec is \"@reboot\"", "zone is \"Mars/Phobos\""}},
		{Definition{Spec: "@daily", Zone: "../etc/passwd"}, []string{"zone is \"../etc/passwd\""}},
		{Definition{Spec: "@daily", Start: at("2026-05-01T00:00:00Z"), End: at("2026-05-01T00:00:00Z")}, []string{"start is 2026-05-01", "before end"}},
		{Definition{Spec: "@daily", Start: at("2026-05-01T00:00:00.0001Z")}, []string{"start", "whole millisecond"}},
		{Definition{Spec: "@daily", Start: at("1969-12-31T00:00:00Z")}, []string{"start", "between 1970"}},
		{Definition{Spec: "@daily", End: duly.MaxTime.Add(time.Hour)}, []string{"end", "9999-12-31"}},
	} {
		_, err := tt.d.Timing()
		if !errors.Is(err, duly.ErrInvalid) {
			t.Errorf("%+v: %v, want invalid", tt.d, err)
			continue
		}
		for _, s := range tt.says {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("%+v: %v, want it to say %q", tt.d, err, s)
			}
		}
	}

	for _, d := range []Definition{{Spec: "0 0 30 2 *"}, {Spec: "@daily", End: at("2026-05-01T00:00:00Z")}} {
		timing, err := d.Timing()
		if err != nil {
			t.Fatal(err)
		}
		if err := CheckTicks(timing, at("2026-05-01T00:00:00Z")); !errors.Is(err, duly.ErrInvalid) {
			t.Errorf("%+v: %v, want invalid", d, err)
		}
		if First(timing, tick0, 0) != 0 {
			t.Errorf("%+v has a tick", d)
		}
	}
}

// Rule S12.4: the first tick is after the later of now and last.
func TestFirst(t *testing.T) {
	t.Parallel()
	_, timing := record(t, Definition{Spec: "0 3 * * *"}, 0)
	for _, tt := range []struct{ now, last, want int64 }{
		{tick0 - 1, 0, tick0}, {tick0, 0, tick0 + day}, {tick0 - 1, tick0, tick0 + day}, {tick0 - 5*day, tick0, tick0 + day},
	} {
		if got := First(timing, tt.now, tt.last); got != tt.want {
			t.Errorf("%+v: %d", tt, got)
		}
	}
}

func BenchmarkRun(b *testing.B) {
	r, _ := record(b, Definition{Spec: "0 3 * * *", Jitter: time.Minute}, tick0)
	for b.Loop() {
		r.Run(tick0)
	}
}
