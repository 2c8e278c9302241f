package worker

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/dulymq/duly"
)

// serve delivers up to n jobs like an engine: it empties the queues one after the other.
func serve(o order, backlog map[string]int, n int) (got []duly.Delivery) {
	asked := o.next()
	for _, q := range asked {
		for ; backlog[q] > 0 && len(got) < n; backlog[q]-- {
			got = append(got, duly.Delivery{Job: duly.Job{Queue: q}})
		}
	}
	o.record(asked, got)
	return got
}

// ordered returns a weighted order of queues with these weights, and the names of the queues.
func ordered(weights ...int) (order, []string) {
	var routes []*route
	var names []string
	for i, weight := range weights {
		r := &route{queue: fmt.Sprintf("q%d", i), weight: max(weight, 1)}
		routes, names = append(routes, r), append(names, r.queue)
	}
	return newOrder(routes, false), names
}

// No queue waits until the backlog of another queue is empty.
func TestQueuesOfOneWeightShareEqually(t *testing.T) {
	t.Parallel()
	o, names := ordered(0, 0, 0)
	backlog := map[string]int{"q0": 10_000, "q1": 10_000, "q2": 10_000}
	for range 300 {
		serve(o, backlog, 10)
	}
	for _, q := range names {
		if served := 10_000 - backlog[q]; served != 1000 {
			t.Errorf("%s was served %d times, want 1000", q, served)
		}
	}
}

func TestStrictOrderServesOneQueueAfterTheOther(t *testing.T) {
	t.Parallel()
	names := []string{"q0", "q1", "q2"}
	o := newOrder([]*route{{queue: "q0"}, {queue: "q1"}, {queue: "q2"}}, true)
	backlog := map[string]int{"q1": 100, "q2": 100}
	for range 10 {
		for _, d := range serve(o, backlog, 10) {
			if d.Queue != "q1" {
				t.Fatalf("%s was served while q1 had jobs", d.Queue)
			}
		}
		if !slices.Equal(o.next(), names) {
			t.Fatalf("order is %v", o.next())
		}
	}
	if d := serve(o, backlog, 10); len(d) != 10 || d[0].Queue != "q2" {
		t.Errorf("after q1 was empty: %v", d)
	}
}

func TestWeightsShareABacklogInProportion(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		weights := make([]int, 2+rnd.IntN(6))
		for i := range weights {
			weights[i] = 1 + rnd.IntN(10)
		}
		o, names := ordered(weights...)
		backlog, served, total, sum := map[string]int{}, map[string]int{}, 0, 0
		for i, q := range names {
			backlog[q], sum = 1_000_000, sum+weights[i]
		}

		for total < 10_000 {
			got := serve(o, backlog, 1+rnd.IntN(64))
			for i := range got {
				served[got[i].Queue]++
			}
			total += len(got)
		}
		for i, q := range names {
			want := float64(total) * float64(weights[i]) / float64(sum)
			if diff := math.Abs(float64(served[q]) - want); diff > 2*64*float64(len(names)) {
				t.Errorf("seed %d: %s with weight %d of %d was served %d times, want %.0f",
					seed, q, weights[i], sum, served[q], want)
			}
		}
	}
}

func TestWeightOneIsServedOnceInFour(t *testing.T) {
	t.Parallel()
	o, _ := ordered(3, 0)
	backlog := map[string]int{"q0": 1 << 20, "q1": 1 << 20}
	for range 1000 {
		serve(o, backlog, 4)
	}
	if a, b := 1<<20-backlog["q0"], 1<<20-backlog["q1"]; a+b != 4000 || a < 2990 || a > 3010 {
		t.Errorf("served %d and %d, want 3000 and 1000", a, b)
	}
}

func TestEmptyQueueSavesNoTurns(t *testing.T) {
	t.Parallel()
	o, _ := ordered(1, 1)
	backlog := map[string]int{"q0": 1 << 20}
	for range 1000 {
		serve(o, backlog, 10)
	}
	backlog["q1"] = 1 << 20 // q1 was empty for a long time before
	var burst int
	for d := serve(o, backlog, 10); len(d) > 0 && d[0].Queue == "q1"; d = serve(o, backlog, 10) {
		burst += len(d)
	}
	if burst == 0 || burst > 20 {
		t.Errorf("the formerly empty queue got %d jobs in a row, want 10 or 20", burst)
	}
}

func TestHeavyQueueDoesNotStarveALightOne(t *testing.T) {
	t.Parallel()
	o, names := ordered(1000, 1)
	backlog := map[string]int{names[0]: 1 << 20, names[1]: 10}
	for range 200 {
		serve(o, backlog, 100)
	}
	if backlog[names[1]] != 0 {
		t.Errorf("%d jobs of the light queue still wait, want 0", backlog[names[1]])
	}
}
