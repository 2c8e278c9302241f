package lmstfy

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dulymq/duly"
	own "github.com/dulymq/duly/server/metrics"
	"github.com/dulymq/duly/server/pools"
)

// Collectors tell what the API has counted, and the sizes of queues as the
// survey sees them, under lmstfy's names.
func (a *API) Collectors(survey *own.Survey) []prometheus.Collector {
	return append(a.metrics.all(), newSizes(survey, a.pools))
}

// sizes are those of the queues.
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
		timer: desc("redis_timer_sizes", "Jobs that are delayed or being worked on."),
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
	sight, timer := s.survey.Snapshot(context.Background()), map[string]int64{}
	for _, pool := range s.pools.Names() {
		timer[pool] = 0
	}
	for _, q := range sight.Queues {
		pool := s.pools.Label(q.Queue.Namespace)
		timer[pool] += q.Stats.Sizes.Delayed + q.Stats.Sizes.Leased
		ch <- prometheus.MustNewConstMetric(s.ready, prometheus.GaugeValue, float64(q.Stats.Sizes.Ready), pool, q.Queue.Namespace, q.Queue.Name)
		ch <- prometheus.MustNewConstMetric(s.dead, prometheus.GaugeValue, float64(q.Stats.Sizes.Dead), pool, q.Queue.Namespace, q.Queue.Name)
	}
	if !sight.Complete { // else it would be a part of it
		return
	}
	for pool, n := range timer {
		ch <- prometheus.MustNewConstMetric(s.timer, prometheus.GaugeValue, float64(n), pool)
	}
}

// eachQueue walks over all queues of all namespaces.
func eachQueue(ctx context.Context, registry duly.Registry, engine duly.Inspector, f func(q duly.QueueRef) error) error {
	return each(ctx, func(p duly.PageParams) (string, error) {
		namespaces, err := registry.Namespaces(ctx, p)
		for _, namespace := range namespaces.Names {
			if err == nil {
				err = eachQueueOf(ctx, engine, namespace, f)
			}
		}
		return namespaces.Next, err
	})
}

func eachQueueOf(ctx context.Context, engine duly.Inspector, namespace string, f func(q duly.QueueRef) error) error {
	return each(ctx, func(p duly.PageParams) (string, error) {
		queues, err := engine.Queues(ctx, namespace, p)
		for _, name := range queues.Names {
			if err == nil {
				err = f(duly.QueueRef{Namespace: namespace, Name: name})
			}
		}
		return queues.Next, err
	})
}
