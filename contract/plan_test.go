package contract_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

var planNow = time.Date(2030, 1, 2, 3, 4, 5, 600_000_000, time.UTC)

func plan(t *testing.T, j duly.Job, d duly.Defaults) contract.Planned {
	t.Helper()
	j.Queue = "q"
	p, err := contract.PlanJob(j, &duly.QueueConfig{Defaults: d}, planNow, 0)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// C2.32, C10.4: an absent field gets the queue's default, or the contract's default if the queue
// has none.
func TestPlanTakesTheDefaults(t *testing.T) {
	t.Parallel()
	p := plan(t, duly.Job{}, duly.Defaults{})
	if p.Tries != 16 || p.MaxStalls != 8 || p.Backoff != "exp:1s:1h" || p.Lease != 30*time.Second ||
		p.TTL != duly.None || p.Retain != duly.None ||
		p.Namespace != "default" || p.PushedAt != planNow.UnixMilli() || p.DueAt != p.PushedAt || p.ExpiresAt != 0 {
		t.Errorf("a plain job is planned as %+v", p)
	}
	d := duly.Defaults{Tries: 2, MaxStalls: duly.None, Backoff: "fixed:1s", Lease: time.Minute, TTL: time.Hour}
	p = plan(t, duly.Job{}, d)
	if p.Tries != 2 || p.MaxStalls != duly.None || p.Backoff != "fixed:1s" || p.Lease != time.Minute || p.TTL != time.Hour ||
		p.ExpiresAt != planNow.Add(time.Hour).UnixMilli() {
		t.Errorf("by the queue's defaults it is planned as %+v", p)
	}
	p = plan(t, duly.Job{TTL: duly.None, MaxStalls: 3}, d)
	if p.TTL != duly.None || p.ExpiresAt != 0 || p.MaxStalls != 3 {
		t.Errorf("by its own rules it is planned as %+v", p)
	}
}

// C5.4, C2.12: a due time is never rounded down, and a due time in the past becomes now.
func TestPlanRoundsDueUp(t *testing.T) {
	t.Parallel()
	now := planNow.UnixMilli()
	for _, c := range []struct {
		job  duly.Job
		want int64
	}{
		{duly.Job{Delay: time.Nanosecond}, now + 1},
		{duly.Job{Delay: time.Millisecond}, now + 1},
		{duly.Job{Delay: time.Millisecond + 1}, now + 2},
		{duly.Job{Due: planNow}, now},
		{duly.Job{Due: planNow.Add(1)}, now + 1},
		{duly.Job{Due: planNow.Add(-time.Hour)}, now},
		{duly.Job{Due: time.Unix(0, 0)}, now},
		{duly.Job{Due: time.UnixMilli(math.MinInt64)}, now},
		{duly.Job{Due: duly.MaxTime}, duly.MaxTime.UnixMilli()},
		{duly.Job{Delay: math.MaxInt64}, now + math.MaxInt64/1_000_000 + 1},
	} {
		if p := plan(t, c.job, duly.Defaults{}); p.DueAt != c.want {
			t.Errorf("delay %d, due %s is planned for %d, want %d", c.job.Delay, c.job.Due, p.DueAt, c.want)
		}
	}
}

// C2.13, C2.23: the due time and the expiry are not after the year 9999. The due time is not after
// the expiry.
func TestPlanRefusesMomentsBeyondTheirBound(t *testing.T) {
	t.Parallel()
	late := duly.MaxTime.Add(-time.Hour)
	for _, c := range []struct {
		field string
		now   time.Time
		job   duly.Job
		def   duly.Defaults
	}{
		{"due", planNow, duly.Job{Due: duly.MaxTime.Add(1)}, duly.Defaults{}},
		{"delay", late, duly.Job{Delay: 2 * time.Hour}, duly.Defaults{}},
		{"ttl", late, duly.Job{TTL: 2 * time.Hour}, duly.Defaults{}},
		{"ttl", planNow, duly.Job{TTL: time.Second, Delay: time.Second + 1}, duly.Defaults{}},
		{"ttl", planNow, duly.Job{Delay: time.Minute}, duly.Defaults{TTL: time.Second}},
	} {
		c.job.Queue = "q"
		_, err := contract.PlanJob(c.job, &duly.QueueConfig{Defaults: c.def}, c.now, 0)
		var e *duly.Error
		if !errors.As(err, &e) || e.Code != duly.CodeInvalid || e.Fields[0].Field != c.field {
			t.Errorf("%+v is answered %v, want %s", c.job, err, c.field)
		}
	}
}

// C7.3: the merge key of a job that merges by its body is never equal to a key that a caller can
// set.
func TestPlanMergesByTheBody(t *testing.T) {
	t.Parallel()
	byBody := duly.Job{Body: []byte("b"), Merge: duly.Merge{Mode: duly.MergeKeep}}
	p := plan(t, byBody, duly.Defaults{})
	set := byBody
	set.Queue, set.Merge.Key = "q", p.MergeKey
	if err := contract.ValidateJob(&set, 0); !errors.Is(err, duly.ErrInvalid) {
		t.Errorf("the key %q can be set: %v", p.MergeKey, err)
	}
	other := byBody
	other.Body = []byte("c")
	if plan(t, other, duly.Defaults{}).MergeKey == p.MergeKey {
		t.Error("two bodies have one key")
	}
	if plan(t, byBody, duly.Defaults{}).MergeKey != p.MergeKey {
		t.Error("one body has two keys")
	}
	if m := plan(t, duly.Job{}, duly.Defaults{}); m.MergeKey != "" || m.Merge.Set() {
		t.Errorf("a job that does not merge is planned as %+v", m.Merge)
	}
}

// C6.18: the key decides the shard, and an ID of another shard is refused.
func TestKeyAndIDAgreeOnTheShard(t *testing.T) {
	t.Parallel()
	fits := duly.MakeID(&duly.Job{OrderKey: "k"})
	for _, c := range []struct {
		job    duly.Job
		shards int
		ok     bool
	}{
		{duly.Job{ID: "own", OrderKey: "k"}, 1, true},
		{duly.Job{ID: "own", OrderKey: "k"}, 2, false},
		{duly.Job{ID: "own"}, 2, true},
		{duly.Job{OrderKey: "k"}, 2, true},
		{duly.Job{ID: fits, OrderKey: "k"}, 256, true},
		{duly.Job{ID: fits, OrderKey: "k", Merge: duly.Merge{Key: "other"}}, 256, true},
		{duly.Job{ID: fits, OrderKey: "other"}, 2, false},
		{duly.Job{ID: fits, Merge: duly.Merge{Key: "k"}}, 2, true},
		{duly.Job{ID: fits, Merge: duly.Merge{Mode: duly.MergeKeep}, Body: []byte("k")}, 2, false},
		{duly.Job{ID: duly.MakeID(&duly.Job{Merge: duly.Merge{Mode: duly.MergeKeep}, Body: []byte("k")}),
			Merge: duly.Merge{Mode: duly.MergeReplace}, Body: []byte("k")}, 256, true},
	} {
		if err := contract.CheckShard(&c.job, c.shards); (err == nil) != c.ok || err != nil && !errors.Is(err, duly.ErrInvalid) {
			t.Errorf("%+v in %d shards: %v", c.job, c.shards, err)
		}
	}
}

// C4.32, C2.18, C2.19: a job is dead after its last try, or after too many stalls.
func TestJobIsExhaustedByTriesOrStalls(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		tries, maxStalls, failures, stalls int
		attempt                            int
		dead                               bool
	}{
		{1, 8, 0, 0, 1, false}, {1, 8, 1, 0, 2, true}, {3, 8, 2, 8, 3, false}, {3, 8, 3, 0, 4, true}, {3, 8, 0, 9, 1, true},
		{3, 1, 2, 1, 3, false}, {3, 1, 0, 2, 1, true},
		{3, duly.None, 1, 1, 3, false}, {3, duly.None, 1, 2, 4, true}, {3, duly.None, 0, 3, 4, true}, {1, duly.None, 0, 1, 2, true},
	} {
		j := duly.Job{Tries: c.tries, MaxStalls: c.maxStalls}
		if got := contract.Exhausted(&j, c.failures, c.stalls); got != c.dead {
			t.Errorf("%+v: dead is %t", c, got)
		}
		if got := contract.Attempt(&j, c.failures, c.stalls); got != c.attempt {
			t.Errorf("%+v: the attempt is %d", c, got)
		}
	}
}

// C4.22: an error text is cut between characters and is UTF-8 without NUL.
func TestErrorTextIsCut(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "", "a": "a", "a\x00b": "a?b", "a\xffb": "a?b", "a\xff\xfeb": "a?b",
		strings.Repeat("x", 4096): strings.Repeat("x", 4096), strings.Repeat("x", 4097): strings.Repeat("x", 4096),
		strings.Repeat("ä", 3000): strings.Repeat("ä", 2048), "x" + strings.Repeat("ä", 3000): "x" + strings.Repeat("ä", 2047),
		strings.Repeat("🐰", 2000): strings.Repeat("🐰", 1024), "xyz" + strings.Repeat("🐰", 2000): "xyz" + strings.Repeat("🐰", 1023),
	} {
		if got := contract.CutError(text); got != want {
			t.Errorf("%.20q of %d bytes is kept as %.20q of %d, want %d", text, len(text), got, len(got), len(want))
		}
	}
}

func FuzzCutError(f *testing.F) {
	f.Add("a\xff\x00" + strings.Repeat("ä", 3000))
	f.Fuzz(func(t *testing.T, text string) {
		got := contract.CutError(text)
		if len(got) > duly.MaxErrorText || !utf8.ValidString(got) || strings.Contains(got, "\x00") {
			t.Fatalf("%.40q is kept as %.40q", text, got)
		}
		if utf8.ValidString(text) && len(text) <= duly.MaxErrorText && !strings.Contains(text, "\x00") && got != text {
			t.Fatalf("%.40q is kept as %.40q", text, got)
		}
		if again := contract.CutError(got); again != got {
			t.Fatalf("cut twice, %.40q becomes %.40q", got, again)
		}
	})
}
