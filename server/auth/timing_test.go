package auth

import (
	"context"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
)

// long reports whether the long tests are enabled.
func long() bool { return os.Getenv("DULY_LONG") != "" }

// Fault X6: refusing a token takes the same time, whether or not it begins like a valid one. The test
// computes Welch's t over 100 000 samples of each, without the tail that interruptions cause. Both
// kinds have a constant beginning, because the processor adapts to repeated data.
func TestRefusingTakesTheSameTime(t *testing.T) {
	if !long() {
		t.Skip("needs DULY_LONG=1, and a machine at rest")
	}
	r := newRig(t)
	begins := [2]string{NewSecret(), r.create("a", contract.RightProduce)}
	const n = 100_000
	var took [2][]float64

	for range 2 * n {
		kind := rand.IntN(2)
		guess := begins[kind][:40] + NewSecret()[40:]
		c := Credentials{Header: "Bearer " + guess}
		begin := clock.Monotonic()
		_, err := r.Check(context.Background(), c, Produce, "a")
		took[kind] = append(took[kind], float64(clock.Monotonic()-begin))
		if err == nil {
			t.Fatal("a guess was admitted")
		}
	}

	w := welch(trimmed(took[0], took[1]))
	if t.Logf("t = %.2f over %d and %d samples", w, len(took[0]), len(took[1])); math.Abs(w) >= 4.5 {
		t.Error("the duration depends on the token")
	}
}

// trimmed drops the slowest tenth of the samples.
func trimmed(a, b []float64) (x, y []float64) {
	all := slices.Sorted(slices.Values(slices.Concat(a, b)))
	most := all[len(all)*9/10]
	slow := func(s float64) bool { return s > most }
	return slices.DeleteFunc(a, slow), slices.DeleteFunc(b, slow)
}

func welch(a, b []float64) float64 {
	ma, va := moments(a)
	mb, vb := moments(b)
	return (ma - mb) / math.Sqrt(va/float64(len(a))+vb/float64(len(b)))
}

func moments(samples []float64) (mean, variance float64) {
	for _, s := range samples {
		mean += s
	}
	mean /= float64(len(samples))
	for _, s := range samples {
		variance += (s - mean) * (s - mean)
	}
	return mean, variance / float64(len(samples)-1)
}
