package redisengine_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/dulymq/duly"
)

// makesQueue is a push that creates its queue. It makes three calls: one adds the queue to the list
// of its namespace, one configures the shard, and one stores the job.
var makesQueue = operation{"PushMakesQueue", func(r *damageRig) {
	if err := r.e.Destroy(r.Context(), damageQueue); err != nil {
		r.Fatal(err)
	}
	clear(r.jobs)
	clear(r.held)
}, func(r *damageRig) {
	r.try(duly.Job{Body: []byte("new-0")}, duly.Job{Body: []byte("new-1"), OrderKey: "k", TTL: time.Minute})
}, nil}

// TestDeathBetweenAnyTwoCalls stops an operation between any two of its calls, as if the process
// died there (fault C8). All calls before the stop have run completely. One repair then fixes the
// store, and no job is lost. TestRepairAfterInterruptedScripts stops single scripts at each of
// their commands.
//
// C4.76, C9.2
func TestDeathBetweenAnyTwoCalls(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("a short run looks for data races, and a script runs in the server's one thread")
	}
	x := newInterrupter(t, scriptForms[0])
	points := 0
	die := func(name string, begin func(t *testing.T, x *interrupter) trial) {
		t.Run(name, func(t *testing.T) {
			x.must(t, "FLUSHALL")
			points += x.dieBetween(begin(t, x))
		})
	}
	for _, d := range append([]operation{makesQueue}, operations...) {
		die(d.name, d.begin)
	}
	for _, o := range topicOperations {
		die("Topic"+o.name, o.begin)
	}
	t.Logf("%d points between two calls", points)
	if points < 25 {
		t.Errorf("%d points between two calls, want 25 or more", points)
	}
}

// dieBetween runs the first calls of an operation, one call more each time, and repairs the store
// after each run.
func (x *interrupter) dieBetween(o trial) (points int) {
	before := x.snapshot(o.t)
	calls := x.listen(o.t, o.do)
	for n := 1; n < len(calls); n++ {
		x.restore(o.t, before)
		for _, c := range calls[:n] {
			x.must(o.t, x.usual[c.name].with(c.args...)...)
		}
		o.t.Run(fmt.Sprintf("%d-%s", n, calls[n-1].name), o.mended)
		points++
	}
	return points
}
