package bench

import "slices"

// SpreadTable is the cost of a queue with several shards on the nodes of a cluster.
type SpreadTable struct {
	Shards int `json:"shards"`
	Rounds int `json:"rounds"`
	Jobs   int `json:"jobs"` // number of jobs per round
	// Nodes hold the queue's shards.
	Nodes []NodeShards `json:"nodes"`
	// Against has the costs of the single server. It is empty if none was given.
	Against string       `json:"against,omitempty"`
	Costs   []SpreadCost `json:"costs"`
}

// NodeShards is the number of the queue's shards on a node.
type NodeShards struct {
	Node   string `json:"node"`
	Shards int    `json:"shards"`
}

// SpreadCost is the cost of one load on one side: medians of all rounds, in microseconds of CPU
// time per job. The jobs of all nodes count.
type SpreadCost struct {
	Batch   int `json:"batch"`
	Callers int `json:"callers"`
	// Cluster is true for the cluster and false for the single server.
	Cluster bool `json:"cluster"`
	Shards  int  `json:"shards"`
	// Push, Take (reserve and ack) and their Sum are the costs of the node with the largest sum.
	Push float64 `json:"busiest_push_us_per_job"`
	Take float64 `json:"busiest_take_us_per_job"`
	Sum  float64 `json:"busiest_sum_us_per_job"`
	// All is the sum over all nodes.
	All float64 `json:"all_nodes_us_per_job"`
	// ToServer is Sum divided by the Sum of the single server with as many shards; or 0 without a
	// single server.
	ToServer float64 `json:"ratio_to_server"`
}

// medianSpread returns a step's median costs over all rounds, and the median of its ratio.
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

	// The ratio compares with the same load on the single server, with as many shards.
	same := slices.IndexFunc(steps, func(other spreadStep) bool {
		return other.load == step.load && !other.side.cluster && other.side.shards == steps[0].side.shards
	})
	if same < 0 {
		return cost
	}
	var ratios []float64
	for _, round := range rounds {
		// Ratios are taken within a round, when both sides ran under the same conditions.
		if server := round[steps[same]].Sum; server > 0 {
			ratios = append(ratios, round[step].Sum/server)
		}
	}
	cost.ToServer = median(ratios)
	return cost
}
