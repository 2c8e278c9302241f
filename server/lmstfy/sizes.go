package lmstfy

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	own "github.com/dulymq/duly/server/metrics"
	"github.com/dulymq/duly/server/pools"
)

// Collectors returns the metrics of the API and the sizes of queues in the survey, under lmstfy's
// names.
func (a *API) Collectors(survey *own.Survey) []prometheus.Collector {
	return append(a.metrics.all(), newSizes(survey, a.pools))
}

// sizes collects the sizes of the queues.
type sizes struct {
	survey             *own.Survey
	pools              *pools.Pools
	ready, dead, timer *prometheus.Desc
}

func newSizes(survey *own.Survey, in *pools.Pools) *sizes {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(metricPrefix+name, help, append([]string{"pool"}, labels...), nil)
	}
	return &sizes{
		survey: survey, pools: in,
		ready: desc("redis_queue_sizes", "Jobs that can be consumed now.", "namespace", "queue"),
		dead:  desc("redis_deadletter_sizes", "Dead jobs.", "namespace", "queue"),
		timer: desc("redis_timer_sizes", "Jobs that are delayed or leased."),
	}
}

// Describe implements prometheus.Collector.
func (s *sizes) Describe(ch chan<- *prometheus.Desc) {
	ch <- s.ready
	ch <- s.dead
	ch <- s.timer
}

// Collect implements prometheus.Collector.
func (s *sizes) Collect(ch chan<- prometheus.Metric) {
	survey, timer := s.survey.Snapshot(context.Background()), map[string]int64{}
	for _, pool := range s.pools.Names() {
		// A pool without queues is reported with the size 0.
		timer[pool] = 0
	}
	for _, q := range survey.Queues {
		pool := s.pools.Label(q.Queue.Namespace)
		timer[pool] += q.Stats.Sizes.Delayed + q.Stats.Sizes.Leased
		gauge := func(desc *prometheus.Desc, n int64) {
			ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(n),
				pool, q.Queue.Namespace, q.Queue.Name)
		}
		gauge(s.ready, q.Stats.Sizes.Ready)
		gauge(s.dead, q.Stats.Sizes.Dead)
	}

	if !survey.Complete { // in an incomplete survey the sums would be too small
		return
	}
	for pool, n := range timer {
		ch <- prometheus.MustNewConstMetric(s.timer, prometheus.GaugeValue, float64(n), pool)
	}
}

// eachQueue calls f for all queues of all namespaces.
func eachQueue(
	ctx context.Context, registry contract.Registry, engine contract.Inspector, f func(q duly.QueueRef) error,
) error {
	return eachPage(ctx, func(p duly.PageParams) (string, error) {
		namespaces, err := registry.Namespaces(ctx, p)
		for _, namespace := range namespaces.Names {
			if err == nil {
				err = eachQueueOf(ctx, engine, namespace, f)
			}
		}
		return namespaces.Next, err
	})
}

func eachQueueOf(ctx context.Context, engine contract.Inspector, namespace string, f func(q duly.QueueRef) error) error {
	return eachPage(ctx, func(p duly.PageParams) (string, error) {
		queues, err := engine.Queues(ctx, namespace, p)
		for _, name := range queues.Names {
			if err == nil {
				err = f(duly.QueueRef{Namespace: namespace, Name: name})
			}
		}
		return queues.Next, err
	})
}
