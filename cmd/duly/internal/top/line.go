package top

import (
	"math"

	"github.com/dulymq/duly"
)

// Line is one queue as a machine reads it.
type Line struct {
	Name  string           `json:"name"`
	Sizes map[string]int64 `json:"sizes"` // by state
	// Paused and Limited say why ready jobs are not delivered.
	Paused  bool `json:"paused,omitempty"`
	Limited bool `json:"limited,omitempty"`
	// OldestReady is for how long the oldest ready job has been due.
	OldestReady string `json:"oldest_ready,omitempty"`
	// PerSecond is what has happened since the look before; absent for a queue
	// that is new since.
	PerSecond *Rates `json:"per_second,omitempty"`
}

// Rates are per second.
type Rates struct {
	Pushed    float64 `json:"pushed"`
	Delivered float64 `json:"delivered"`
	Acked     float64 `json:"acked"`
	Failed    float64 `json:"failed"`
	Stalled   float64 `json:"stalled"`
	Dead      float64 `json:"dead"`
}

// Lines are the rows in their order.
func (m *Model) Lines() (lines []Line) {
	for _, r := range m.rows() {
		line := Line{Name: r.Name, Sizes: map[string]int64{}, Paused: r.Throttle.Paused, Limited: r.limited()}
		for _, state := range duly.States {
			line.Sizes[state.String()] = *r.Stats.Sizes.Of(state)
		}
		if r.Stats.Sizes.Ready > 0 {
			line.OldestReady = duly.FormatDuration(r.Stats.OldestReady)
		}
		if r.passed > 0 {
			per := func(n int64) float64 { return math.Round(r.rate(n)*1000) / 1000 }
			g := &r.grown
			line.PerSecond = &Rates{per(g.Pushed), per(g.Delivered), per(g.Acked), per(g.Failed), per(g.Stalled), per(g.Dead)}
		}
		lines = append(lines, line)
	}
	return lines
}
