package enginetest

import (
	"fmt"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/dulymq/duly"
)

// idSpec selects one of the script's IDs. The first ones are own IDs, the others are IDs that the
// client creates.
type idSpec int

func (n idSpec) of(p *pair) string {
	if n < scriptOwnIDs {
		return p.ids[n]
	}
	return p.made[n].id
}

// use sets the job's ID for a push. The first push of a made ID sets Made. With fresh, the ID is
// made again, as a client does for each new job.
func (n idSpec) use(p *pair, fresh bool, j *duly.Job) {
	if n >= scriptOwnIDs {
		if fresh {
			p.made[n] = madeID{id: p.make(n, j)}
		}
		j.Made = !p.made[n].used
		p.made[n].used = true
	}
	j.ID = n.of(p)
}

// jobSpec describes a job to push. Its times are relative to the push.
type jobSpec struct {
	At    queueSpec
	ID    idSpec
	Fresh bool
	duly.Job
	In time.Duration // the due time, counted from now; 0 means absent
}

// String formats the fields that are set.
func (spec jobSpec) String() string {
	j := &spec.Job
	var b strings.Builder
	fmt.Fprintf(&b, "%s #%d", spec.At, spec.ID)
	field := func(name string, value any, set bool) {
		if set {
			fmt.Fprintf(&b, " %s %v", name, value)
		}
	}
	field("fresh", "", spec.Fresh)
	field("due in", spec.In, spec.In != 0)
	field("delay", j.Delay, j.Delay != 0)
	field("body", string(j.Body), len(j.Body) > 0)
	field("headers", j.Headers, len(j.Headers) > 0)
	field("priority", j.Priority, j.Priority != 0)
	field("tries", j.Tries, j.Tries != 0)
	field("max stalls", j.MaxStalls, j.MaxStalls != 0)
	field("backoff", j.Backoff, j.Backoff != "")
	field("ttl", j.TTL, j.TTL != 0)
	field("lease", j.Lease, j.Lease != 0)
	field("order key", j.OrderKey, j.OrderKey != "")
	field("merge", fmt.Sprintf("%+v", j.Merge), j.Merge.Set())
	field("retain", j.Retain, j.Retain != 0)
	field("callback", j.Callback, j.Callback != "")
	field("on done", j.OnDone, j.OnDone != "")
	return "{" + b.String() + "}"
}

func (spec jobSpec) job(p *pair) duly.Job {
	j := spec.Job
	j.Queue = spec.At.ref().Name
	j.OrderKey, j.Merge.Key = p.key(j.OrderKey), p.key(j.Merge.Key)
	spec.ID.use(p, spec.Fresh, &j)
	if spec.In != 0 {
		j.Due = p.h.Clock.Now().Add(spec.In)
	}
	return j
}

// drawJob draws a job. Each of its fields is set in some of the draws.
func drawJob(t *rapid.T) jobSpec {
	spec := jobSpec{At: drawQueue(t), ID: drawID(t), Fresh: rapid.Bool().Draw(t, "fresh")}
	j := &spec.Job
	j.Body = []byte(of(t, []string{"", "x", "x", "y"}))
	j.Backoff = of(t, someBackoffs)
	// The jitter depends on the ID, and only own IDs are the same in every run.
	if spec.ID < scriptOwnIDs {
		j.Backoff = of(t, []duly.Backoff{"", "fixed:1s", "exp:1s:4s", "fixed:0s"})
	}

	j.Tries = of(t, []int{0, 1, 2, 2})
	j.MaxStalls = of(t, []int{0, 1, 1, duly.None})

	if rarely(t, 2) {
		j.OrderKey = of(t, []string{"k", "k", "l"})
	}
	if rarely(t, 2) {
		j.Merge = of(t, someMerges)
	}
	if rarely(t, 3) {
		j.Delay = of(t, someDelays)
	}
	if rarely(t, 3) {
		j.Priority = of(t, []int{1, -1})
	}
	if rarely(t, 3) {
		j.TTL = of(t, someTTLs)
	}
	if rarely(t, 3) {
		j.Retain = of(t, someRetains)
	}
	if rarely(t, 3) {
		j.Lease = of(t, someLeases)
	}
	if rarely(t, 8) {
		j.Headers = map[string]string{"Name": "v"}
	}
	if rarely(t, 8) {
		spec.In = of(t, []time.Duration{-time.Second, time.Second, 2500 * time.Microsecond})
	}

	// Only some queues may be push queues, because the other queues would refuse the job.
	if spec.At > 1 && rarely(t, 4) {
		j.Callback = of(t, someDestinations)
		j.OnDone = of(t, []string{"", duly.NoDestination, "target:t"})
	}
	if rarely(t, 16) {
		spoil(t, j)
	}
	return spec
}

var someDestinations = []string{"https://example.com/", "target:t"}

var someMerges = []duly.Merge{
	{Key: "m"}, {Key: "m", Mode: duly.MergeKeep}, {Key: "m", Mode: duly.MergeReplace}, {Key: "m", Until: duly.UntilDone},
	{Key: "m", Mode: duly.MergeReplace, MaxWait: 2 * time.Second}, {Mode: duly.MergeKeep}, {Mode: duly.MergeReplace},
	{Key: "n"},
	{Key: "m", Mode: duly.MergeReplace, MaxWait: time.Millisecond},
	{Key: "m", Mode: duly.MergeReplace, Until: duly.UntilDone},
	{Key: "m", MaxWait: time.Second},
}

// spoil sets a field beyond its bound.
func spoil(t *rapid.T, j *duly.Job) {
	switch rapid.IntRange(0, 5).Draw(t, "bound") {
	case 0:
		j.Priority = duly.MinPriority - 1
	case 1:
		j.Body = []byte("far too long")
	case 2:
		j.Delay, j.TTL = 2*time.Second, time.Second
	case 3:
		j.OrderKey = "\x00"
	case 4:
		j.Callback, j.OnDead = "ftp://example.com", "target:"
	case 5:
		j.Lease = time.Millisecond
	}
}
