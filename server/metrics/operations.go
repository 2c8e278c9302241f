package metrics

import "github.com/prometheus/client_golang/prometheus"

// Operations is a collector of the bulk operations of a server. Both functions are called for each scrape.
type Operations struct {
	// States calls do with the number of operations in each state, also with zeros.
	States func(do func(state string, n int))
	// Jobs calls do with the number of jobs of each kind of operation and each outcome.
	Jobs func(do func(kind, outcome string, n int64))
}

// Describe implements prometheus.Collector.
func (Operations) Describe(ch chan<- *prometheus.Desc) {
	ch <- operationStates.desc
	ch <- operationJobs.desc
}

// Collect implements prometheus.Collector.
func (o Operations) Collect(ch chan<- prometheus.Metric) {
	o.States(func(state string, n int) { gaugeValue(ch, operationStates, float64(n), state) })
	o.Jobs(func(kind, outcome string, n int64) { counterValue(ch, operationJobs, n, kind, outcome) })
}
