package aimd

import (
	"math/bits"
	"time"
)

const (
	windowTime    = 500 * time.Millisecond
	windowMost    = time.Second
	windowSamples = 10
	octaves       = 31
	steps         = 4 // steps per octave
)

// window is a histogram of the good calls in a short period.
type window struct {
	open  bool
	alone bool // whether the limit was 1 during the whole window
	from  time.Duration
	last  time.Duration // time at which the last call ended
	count int
	full  int // number of calls that ended while the limit was reached
	sum   time.Duration
	hist  [octaves * steps]uint16
}

func (w *window) begin(now time.Duration, alone bool) {
	if !w.open {
		w.open, w.alone, w.from = true, true, now
	}
	w.alone = w.alone && alone
}

func (w *window) add(now, took time.Duration, full bool) {
	w.last = now
	w.count++
	if full {
		w.full++
	}
	w.sum += took
	if h := &w.hist[step(took)]; *h < 1<<16-1 {
		*h++
	}
}

func (w *window) ended(now time.Duration, first bool) bool {
	age := now - w.from
	return first && w.count >= windowSamples || age >= windowMost || age >= windowTime && w.count >= windowSamples
}

func (w *window) mean() time.Duration { return w.sum / time.Duration(w.count) }

// p90 returns the latency that nine of ten calls did not exceed.
func (w *window) p90() time.Duration {
	seen, want := 0, (w.count*9+9)/10
	for i, n := range w.hist {
		if seen += int(n); seen >= want {
			return middle(i)
		}
	}
	return middle(len(w.hist) - 1)
}

// step returns the index of a latency in the histogram.
func step(took time.Duration) int {
	us := uint64(max(took.Microseconds(), 1))
	octave := bits.Len64(us) - 1
	within := us << 2 >> octave & (steps - 1) // the two bits after the highest one
	return min(octave*steps+int(within), octaves*steps-1)
}

// middle returns the latency in the middle of a step.
func middle(i int) time.Duration {
	octave, within := i/steps, i%steps
	eighths := time.Duration(2*(steps+within) + 1)
	return eighths << octave * time.Microsecond / 8
}
