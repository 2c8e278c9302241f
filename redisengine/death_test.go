package redisengine_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/dulymq/duly"
)

// makesQueue is a push that makes its queue: it enters the queue into the list of
// its namespace, configures the shard and stores the job, in a call each.
var makesQueue = operation{"PushMakesQueue", func(r *damageRig) {
	if err := r.e.Destroy(r.Context(), damageQueue); err != nil {
		r.Fatal(err)
	}
	clear(r.jobs)
	clear(r.held)
}, func(r *damageRig) {
	r.try(duly.Job{Body: []byte("new-0")}, duly.Job{Body: []byte("new-1"), OrderKey: "k", TTL: time.Minute})
}, nil}

// C8: a process ends between any two calls of an operation. Each script is one
// step, and TestInterrupted ends it at each of its commands; so here the calls
// before that moment have happened, and no other. One repair mends what is left,
// and no job is lost.
//
// C4.76, C9.2
func TestDeathBetweenAnyTwoCalls(t *testing.T) {
	t.Parallel()
	x := newInterrupter(t, scriptForms[0])
	points := 0
	for _, d := range append([]operation{makesQueue}, operations...) {
		t.Run(d.name, func(t *testing.T) { points += x.dieBetween(t, d) })
	}
	t.Logf("%d points between two calls", points)
	if points < 25 {
		t.Errorf("%d points between two calls, want 25 or more", points)
	}
}

// dieBetween does the first calls of a operation alone, one more each time, and has what
// they leave mended.
func (x *interrupter) dieBetween(t *testing.T, d operation) (points int) {
	r, before, calls := x.prepare(t, d)
	for n := 1; n < len(calls); n++ {
		x.restore(t, before)
		for _, c := range calls[:n] {
			x.must(t, x.usual[c.name].with(c.args...)...)
		}
		r.Run(fmt.Sprintf("%d-%s", n, calls[n-1].name), func(t *testing.T) { r.mended(t) })
		points++
	}
	return points
}
