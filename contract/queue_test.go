package contract_test

import (
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// C10.4, C10.5, C10.6, C10.7, C10.8: a patch changes each field that it names.
func TestConfigIsChangedFieldByField(t *testing.T) {
	t.Parallel()
	full := duly.QueueConfig{
		Shards: 4, Defaults: duly.Defaults{Tries: 2, MaxStalls: 3, Backoff: "fixed:1s", Lease: time.Minute, TTL: time.Hour, Retain: time.Hour},
		DeadAge: time.Hour, DeadCount: 5, MaxJobs: 6, MaxLeased: 7, Rate: duly.Rate{PerSecond: 8, Burst: 9},
		Adapt:    duly.Adapt{Floor: 0.5},
		Group:    duly.GroupConfig{Order: duly.OrderKeys, MaxHeld: 10, Filter: "a=1", Idle: time.Hour, Target: "q"},
		Delivery: duly.DeliverPush, Push: duly.PushConfig{URL: "https://a.example", OnDone: "target:a", OnDead: "target:b"},
	}
	base := contract.DefaultQueueConfig()
	if got := contract.PatchConfig(base, full); got != full {
		t.Errorf("all of it gives %+v", got)
	}
	if got := contract.PatchConfig(full, duly.QueueConfig{}); got != full {
		t.Errorf("nothing gives %+v", got)
	}
	if got := contract.PatchConfig(full, duly.QueueConfig{Paused: true}); got.Paused {
		t.Error("a patch pauses")
	}
	if got := contract.PatchConfig(base, duly.QueueConfig{Rate: duly.Rate{PerSecond: 2.5}}); got.Rate.Burst != 3 {
		t.Errorf("the burst of 2.5 a second is %d", got.Rate.Burst)
	}
	if got := contract.PatchConfig(full, duly.QueueConfig{Rate: duly.Rate{PerSecond: duly.None}}); got.Rate.Limited() {
		t.Error("no rate is one")
	}
	// Whatever field is added later must be changed by a patch as well.
	notPatched := []string{"Paused", "Closing", "Reopen"} // state fields, which other calls change
	v, w := reflect.ValueOf(full), reflect.ValueOf(contract.PatchConfig(base, full))
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		if slices.Contains(notPatched, name) {
			continue
		}
		if v.Field(i).IsZero() || !v.Field(i).Equal(w.Field(i)) {
			t.Errorf("%s is not changed by a patch", name)
		}
	}
}

// C10.13: the parts of a limit add up to the limit, and each shard has a part.
func TestConfigIsDividedAmongShards(t *testing.T) {
	t.Parallel()
	for _, shards := range []int{1, 2, 8, 256} {
		for _, limit := range []int{shards, shards + 1, 2*shards - 1, 1000} {
			sum, most := 0, (limit+shards-1)/shards
			for i := range shards {
				part := contract.ShardPart(limit, shards, i)
				if part < 1 || part > most || part < most-1 || i > 0 && part > contract.ShardPart(limit, shards, i-1) {
					t.Errorf("shard %d of %d has %d of %d", i, shards, part, limit)
				}
				sum += part
			}
			if sum != limit {
				t.Errorf("%d shards have %d of %d", shards, sum, limit)
			}
		}
	}
	whole := duly.QueueConfig{Shards: 4, DeadCount: duly.None, MaxJobs: 6, MaxLeased: 4, Rate: duly.Rate{PerSecond: 1, Burst: 5}}
	want := duly.QueueConfig{Shards: 4, DeadCount: duly.None, MaxJobs: 1, MaxLeased: 1, Rate: duly.Rate{PerSecond: 0.25, Burst: 1}}
	if got := contract.ConfigOfShard(whole, 3); got != want {
		t.Errorf("the last shard has %+v, want %+v", got, want)
	}
	if got := contract.ConfigOfShard(contract.DefaultQueueConfig(), 0); got != contract.DefaultQueueConfig() {
		t.Errorf("the only shard has %+v", got)
	}
	if err := contract.CheckConfig(whole); err != nil {
		t.Error(err)
	}
	small := duly.QueueConfig{Shards: 4, DeadCount: 3, MaxJobs: 3, MaxLeased: 3, Rate: duly.Rate{PerSecond: 1, Burst: 3}}
	var e *duly.Error
	if !errors.As(contract.CheckConfig(small), &e) || len(e.Fields) != 4 {
		t.Errorf("four limits that are too small are answered %v", contract.CheckConfig(small))
	}
	sharded := contract.DefaultQueueConfig()
	sharded.Shards = 8
	if got := contract.PatchConfig(sharded, duly.QueueConfig{Rate: duly.Rate{PerSecond: 2.5}}); got.Rate.Burst != 8 {
		t.Errorf("the burst of 2.5 a second on eight shards is %d", got.Rate.Burst)
	}
}

// C13.2: one error names every bad field.
func TestConfigNamesEveryBadField(t *testing.T) {
	t.Parallel()
	bad := duly.QueueConfig{
		Shards: 3, Defaults: duly.Defaults{Tries: -1, MaxStalls: -2, Backoff: "x", Lease: 1, TTL: -2}, DeadAge: -2, DeadCount: -2, MaxJobs: -2,
		MaxLeased: -2, Rate: duly.Rate{PerSecond: -2, Burst: -1},
	}
	var e *duly.Error
	if !errors.As(contract.ValidateConfig(bad), &e) || len(e.Fields) != 12 {
		t.Fatalf("twelve bad fields are answered %v", contract.ValidateConfig(bad))
	}
	if err := contract.ValidateConfig(contract.DefaultQueueConfig()); err != nil {
		t.Errorf("the default: %v", err)
	}
	for _, shards := range []int{1, 2, 4, 128, 256} {
		if err := contract.ValidateConfig(duly.QueueConfig{Shards: shards}); err != nil { // C1.4
			t.Errorf("%d shards: %v", shards, err)
		}
	}
}

// C4.42, C4.43: an update changes the fields that it names, or nothing if it is refused.
func TestUpdateAppliesOrRefuses(t *testing.T) {
	t.Parallel()
	p := plan(t, duly.Job{Body: []byte("old"), TTL: time.Hour, Priority: 1, Headers: map[string]string{"a": "b"}}, duly.Defaults{})
	later := planNow.Add(time.Minute)
	same := p
	if err := contract.ApplyUpdate(&duly.Update{}, &same, later); err != nil || !reflect.DeepEqual(same, p) {
		t.Errorf("an empty update gives %+v, %v", same, err)
	}
	delay, zero, priority := 10*time.Minute, time.Duration(0), 0
	changed := p
	u := duly.Update{
		Delay: &delay, Priority: &priority, Body: []byte{}, Headers: map[string]string{"C": "d"},
		TTL: duly.None, MaxStalls: duly.None,
	}
	if err := contract.ApplyUpdate(&u, &changed, later); err != nil {
		t.Fatal(err)
	}
	if changed.DueAt != later.Add(delay).UnixMilli() || changed.Priority != 0 || len(changed.Body) != 0 || changed.Headers["c"] != "d" ||
		changed.ExpiresAt != 0 || changed.TTL != duly.None || changed.MaxStalls != duly.None || changed.Tries != 16 {
		t.Errorf("it gives %+v", changed)
	}
	beyond := 2 * time.Hour
	for _, u := range []duly.Update{{Delay: &beyond}, {Due: planNow.Add(3 * time.Hour)}, {Delay: &delay, TTL: time.Minute}} {
		refused := p
		if err := contract.ApplyUpdate(&u, &refused, later); !errors.Is(err, duly.ErrInvalid) {
			t.Errorf("%+v is answered %v", u, err)
		}
	}
	overdue := p // the job is due by now, which an update of only its TTL does not change
	if err := contract.ApplyUpdate(&duly.Update{TTL: time.Minute}, &overdue, planNow.Add(30*time.Minute)); err != nil {
		t.Errorf("a ttl for a job that is due: %v", err)
	}
	if err := contract.ApplyUpdate(&duly.Update{Delay: &zero}, &overdue, later); err != nil || overdue.DueAt != later.UnixMilli() {
		t.Errorf("due now gives %d, %v", overdue.DueAt, err)
	}
}

// C7.4, C7.5, C7.6, C7.7, C7.11: which fields the waiting job has after another job was merged into
// it.
func TestMergeChangesTheWaitingJob(t *testing.T) {
	t.Parallel()
	merge := duly.Merge{Key: "m", Mode: duly.MergeReplace, MaxWait: time.Minute}
	old := plan(t, duly.Job{ID: "old", TTL: time.Hour, Body: []byte("1"), OrderKey: "k", Merge: merge}, duly.Defaults{})
	at := planNow.Add(50 * time.Second)
	job := duly.Job{
		ID: "new", Queue: "q", Body: []byte("2"), Delay: 30 * time.Second, TTL: 2 * time.Hour, OrderKey: "k", Merge: merge,
	}
	newer, err := contract.PlanJob(job, &duly.QueueConfig{}, at, 0)
	if err != nil {
		t.Fatal(err)
	}
	kept := old
	kept.Keep(&newer)
	if kept.ExpiresAt != newer.ExpiresAt || string(kept.Body) != "1" || kept.DueAt != old.DueAt {
		t.Errorf("keep gives %+v", kept)
	}
	kept.Keep(&old)
	if kept.ExpiresAt != newer.ExpiresAt {
		t.Error("keep takes the earlier expiry")
	}
	replaced := old
	replaced.Replace(&newer)
	if replaced.ID != "old" || string(replaced.Body) != "2" || replaced.ExpiresAt != newer.ExpiresAt || replaced.PushedAt != old.PushedAt ||
		replaced.DueAt != planNow.Add(time.Minute).UnixMilli() {
		t.Errorf("replace gives %+v", replaced)
	}
	back := newer
	back.ComeBack(old.DueAt, 0)
	if back.DueAt != newer.DueAt || back.ExpiresAt != newer.ExpiresAt {
		t.Error("under replace the one that comes back leaves something")
	}
	back.Merge.Mode = duly.MergeKeep
	back.ComeBack(old.DueAt, 0)
	if back.DueAt != old.DueAt || back.ExpiresAt != 0 {
		t.Errorf("it leaves %+v", back)
	}
}
