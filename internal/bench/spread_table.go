package bench

import "slices"

// SpreadTable is what a queue with several shards costs the nodes of a cluster.
type SpreadTable struct {
	Shards int `json:"shards"`
	Rounds int `json:"rounds"`
	Jobs   int `json:"jobs"` // in a round
	// Nodes hold the queue's shards.
	Nodes []NodeShards `json:"nodes"`
	// Against is the one server; empty without one.
	Against string       `json:"against,omitempty"`
	Costs   []SpreadCost `json:"costs"`
}

// NodeShards is how many shards of the queue a node holds.
type NodeShards struct {
	Node   string `json:"node"`
	Shards int    `json:"shards"`
}

// SpreadCost is what one load costs in one place: medians of all rounds, in
// microseconds of processor time per job. The jobs are those of all nodes.
type SpreadCost struct {
	Batch   int `json:"batch"`
	Callers int `json:"callers"`
	// Cluster tells the cluster from the one server.
	Cluster bool `json:"cluster"`
	Shards  int  `json:"shards"`
	// Push, Take (reserve and ack) and their Sum are those of the node for
	// which the sum is the largest.
	Push float64 `json:"busiest_push_us_per_job"`
	Take float64 `json:"busiest_take_us_per_job"`
	Sum  float64 `json:"busiest_sum_us_per_job"`
	// All is the sum over all nodes.
	All float64 `json:"all_nodes_us_per_job"`
	// ToServer is Sum by that of the one server with as many shards; 0 without one.
	ToServer float64 `json:"ratio_to_server"`
}

// medianSpread returns the median cost of a step and its ratio, of all rounds.
func medianSpread(step spreadStep, steps []spreadStep, rounds []map[spreadStep]SpreadCost) SpreadCost {
	each := func(cost func(SpreadCost) float64) float64 {
		var all []float64
		for _, round := range rounds {
			all = append(all, cost(round[step]))
		}
		return median(all)
	}
	cost := SpreadCost{
		Batch: step.load.batch, Callers: step.load.callers, Cluster: step.side.cluster, Shards: step.side.shards,
		Push: each(func(c SpreadCost) float64 { return c.Push }),
		Take: each(func(c SpreadCost) float64 { return c.Take }),
		Sum:  each(func(c SpreadCost) float64 { return c.Sum }),
		All:  each(func(c SpreadCost) float64 { return c.All }),
	}

	// The one server does the same with as many shards.
	same := slices.IndexFunc(steps, func(other spreadStep) bool {
		return other.load == step.load && !other.side.cluster && other.side.shards == steps[0].side.shards
	})
	if same < 0 {
		return cost
	}
	var ratios []float64
	for _, round := range rounds {
		if server := round[steps[same]].Sum; server > 0 {
			ratios = append(ratios, round[step].Sum/server)
		}
	}
	cost.ToServer = median(ratios)
	return cost
}
