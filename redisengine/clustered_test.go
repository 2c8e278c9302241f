package redisengine_test

import (
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/redisengine/internal/store"
)

// TestCheckAndSweepCoverEveryShardOfACluster checks that every shard of a cluster is polled, swept and repaired
// on its node (C4.75, C4.81).
func TestCheckAndSweepCoverEveryShardOfACluster(t *testing.T) {
	t.Parallel()
	cluster, prefix := redistest.SharedCluster(t)
	c := clock.NewFake()
	e := at(t, withPrefix(cluster.URL(), prefix), c)
	ctx := t.Context()
	const shards, jobs = 16, 100
	if err := e.Configure(ctx, damageQueue, duly.QueueConfig{Shards: shards}); err != nil {
		t.Fatal(err)
	}
	for range jobs {
		pushOne(t, e, duly.Job{Queue: damageQueue.Name, Delay: time.Minute})
	}
	lost := 0
	for i := range shards {
		key := store.ShardTag(prefix, damageQueue, i) + "delayed"
		numbers := cluster.For(key).Must("ZRANGE", key, 0, 0).([]any)
		if len(numbers) > 0 {
			cluster.For(key).Must("ZREM", key, numbers[0])
			lost++
		}
	}
	report, err := e.Check(ctx, contract.CheckParams{Repair: true})
	if err != nil || report.Jobs != jobs || len(report.Faults) != lost || report.Repaired != lost {
		t.Fatalf("the repair of %d shards returned %+v, %v", lost, report, err)
	}
	if report, err = e.Check(ctx, contract.CheckParams{}); err != nil || len(report.Faults) > 0 {
		t.Errorf("after the repair Check found %+v, %v", report.Faults, err)
	}
	c.Advance(time.Hour)
	if err := e.Sweep(ctx); err != nil {
		t.Fatal(err)
	}
	page, err := e.List(ctx, damageQueue, duly.ListParams{State: duly.StateReady,
		PageParams: duly.PageParams{Limit: 1000}})
	if err != nil || len(page.Jobs) != jobs {
		t.Errorf("%d jobs are ready, %v", len(page.Jobs), err)
	}
}
