package bench

import "slices"

// Basis is the kind of the costs in a [LifeTable].
type Basis string

// These are the kinds of cost that a table can show.
const (
	ServerCPU  Basis = "server_cpu"  // processor time of the server behind the engine
	ProcessCPU Basis = "process_cpu" // processor time of this process, including the engine
	Elapsed    Basis = "time"        // elapsed time divided by the number of jobs
)

// LifeTable has the costs of jobs of each kind from push to ack.
type LifeTable struct {
	Basis   Basis      `json:"basis"`
	Rounds  int        `json:"rounds"`
	Callers int        `json:"callers"`
	Cut     int        `json:"cut_by_time"` // number of pushes that ended at the time limit
	Costs   []LifeCost `json:"costs"`
}

// LifeCost is the median cost of one kind in calls of one batch size, in microseconds per job. A
// ratio is the median of the rounds' ratios, or 0 if there is nothing to compare with.
type LifeCost struct {
	Kind    Kind    `json:"kind"`
	Batch   int     `json:"batch"`
	Jobs    int     `json:"jobs"` // number of jobs in a round
	Push    float64 `json:"push_us_per_job"`
	Reserve float64 `json:"reserve_us_per_job"`
	Ack     float64 `json:"ack_us_per_job"`
	Sum     float64 `json:"sum_us_per_job"`
	ToPlain float64 `json:"ratio_to_plain"`
	ToBare  float64 `json:"ratio_to_bare"`
}

// medianCost returns the median cost of a step, and its ratios, over all rounds.
func medianCost(step lifeStep, rounds []map[lifeStep]LifeCost) LifeCost {
	each := func(cost func(LifeCost) float64) float64 {
		var all []float64
		for _, round := range rounds {
			all = append(all, cost(round[step]))
		}
		return median(all)
	}

	ratio := func(to Kind) float64 {
		var all []float64
		for _, round := range rounds {
			if other := round[lifeStep{to, step.batch}].Sum; other > 0 {
				all = append(all, round[step].Sum/other)
			}
		}
		return median(all)
	}

	return LifeCost{
		Kind: step.kind, Batch: step.batch,
		Push:    each(func(c LifeCost) float64 { return c.Push }),
		Reserve: each(func(c LifeCost) float64 { return c.Reserve }),
		Ack:     each(func(c LifeCost) float64 { return c.Ack }),
		Sum:     each(func(c LifeCost) float64 { return c.Sum }),
		ToPlain: ratio(Plain), ToBare: ratio(Bare),
	}
}

// median returns the middle value, or the smaller of the two middle values.
func median(all []float64) float64 {
	if len(all) == 0 {
		return 0
	}
	all = slices.Sorted(slices.Values(all))
	return all[(len(all)-1)/2]
}
