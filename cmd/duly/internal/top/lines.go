package top

import (
	"math"
	"time"

	"github.com/dulymq/duly"
)

// Line is the JSON of one queue.
type Line struct {
	Name  string           `json:"name"`
	Sizes map[string]int64 `json:"sizes"` // sizes by state
	// Paused and Limited are reasons why ready jobs are not delivered.
	Paused  bool `json:"paused,omitempty"`
	Limited bool `json:"limited,omitempty"`
	// Closed is how long a release with slow keeps the queue closed.
	Closed string `json:"closed,omitempty"`
	// Factor is the lowest share of its limits that a shard enforces. It is absent if the limits do
	// not adapt. Probing is the number of shards in probing.
	Factor  float64 `json:"factor,omitempty"`
	Probing int     `json:"probing,omitempty"`
	// Tokens is how many deliveries the rate allows now. It is absent if the queue has no rate.
	// NextTokenIn is the time until the rate allows the next delivery if Tokens is 0.
	Tokens      *int64 `json:"tokens,omitempty"`
	NextTokenIn string `json:"next_token_in,omitempty"`
	// OldestReady is how long the oldest ready job has been due.
	OldestReady string `json:"oldest_ready,omitempty"`
	// PerSecond has the rates since the previous sample. The field is absent for a new queue.
	PerSecond *Rates `json:"per_second,omitempty"`
}

// Rates are the rates of a queue, per second.
type Rates struct {
	Pushed    float64 `json:"pushed"`
	Delivered float64 `json:"delivered"`
	Acked     float64 `json:"acked"`
	Failed    float64 `json:"failed"`
	Stalled   float64 `json:"stalled"`
	Dead      float64 `json:"dead"`
}

// Lines returns the queues in the order of the view.
func (m *Model) Lines() (lines []Line) {
	for _, r := range m.rows() {
		line := Line{
			Name: r.Name, Sizes: map[string]int64{}, Paused: r.Throttle.Paused, Limited: r.limited(),
			Factor: r.Stats.Factor, Probing: r.Stats.Probing,
		}
		for _, state := range duly.States {
			line.Sizes[state.String()] = *r.Stats.Sizes.Of(state)
		}

		if r.closed > 0 {
			line.Closed = duly.FormatDuration(r.closed)
		}

		if tokens := r.Stats.Tokens; r.Throttle.Rate.Limited() && tokens != duly.None {
			line.Tokens = &tokens
		}
		if r.empty {
			line.NextTokenIn = duly.FormatDuration(r.wait.Round(time.Millisecond))
		}

		// Without ready jobs the age has no meaning.
		if r.Stats.Sizes.Ready > 0 {
			line.OldestReady = duly.FormatDuration(r.Stats.OldestReady)
		}

		// The first sample has no sample before, so it has no rates.
		if r.elapsed > 0 {
			// Three digits are enough, and keep the lines short.
			per := func(n int64) float64 { return math.Round(r.rate(n)*1000) / 1000 }
			g := &r.delta
			line.PerSecond = &Rates{
				per(g.Pushed), per(g.Delivered), per(g.Acked), per(g.Failed), per(g.Stalled), per(g.Dead),
			}
		}
		lines = append(lines, line)
	}
	return lines
}

// HostLine is the JSON of one host of HTTP push.
type HostLine struct {
	Host string `json:"host"`
	// State is open, closed or probing.
	State string `json:"state"`
	// Closed is how long the host will stay closed.
	Closed   string `json:"closed,omitempty"`
	Limit    int    `json:"limit"`
	InFlight int    `json:"in_flight"`
	HeldBack int    `json:"held_back"`
	Usual    string `json:"usual,omitempty"`
}

// HostLines returns the hosts in the order of the view.
func (m *Model) HostLines() (lines []HostLine) {
	for _, h := range m.hosts() {
		line := HostLine{Host: h.Host, State: hostState(&h), Limit: h.Limit, InFlight: h.InFlight, HeldBack: h.HeldBack}
		if h.Closed > 0 {
			line.Closed = duly.FormatDuration(h.Closed)
		}
		if h.Usual > 0 {
			line.Usual = duly.FormatDuration(h.Usual)
		}
		lines = append(lines, line)
	}
	return lines
}
