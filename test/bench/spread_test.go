package bench

import (
	"strings"
	"testing"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/bench/redisgauge"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/redisengine"
)

// TestGaugeFindsTheShardsOfTheEngine checks that the gauge computes the node of each shard as the
// engine does. The gauge computes it from the names of the keys.
func TestGaugeFindsTheShardsOfTheEngine(t *testing.T) {
	t.Parallel()
	cluster, prefix := redistest.SharedCluster(t)
	e := onRedis(t, redisengine.Config{URL: cluster.URL() + "&prefix=" + prefix})
	q := duly.QueueRef{Namespace: duly.DefaultNamespace, Name: "spread"}
	if err := e.Configure(t.Context(), q, duly.QueueConfig{Shards: 8}); err != nil {
		t.Fatal(err)
	}
	jobs := make([]duly.Job, 500) // enough to fill every shard
	for i := range jobs {
		jobs[i] = duly.Job{ID: duly.NewNumber().String(), Made: true, Namespace: q.Namespace, Queue: q.Name}
	}
	if _, err := e.Push(t.Context(), jobs); err != nil {
		t.Fatal(err)
	}

	gauge, err := redisgauge.Open(t.Context(), cluster.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer gauge.Close()
	held, err := gauge.Shards(t.Context(), q, 8)
	if err != nil {
		t.Fatal(err)
	}

	for i, node := range gauge.Nodes() {
		if n := shardsOn(t, cluster, node.Name, prefix); n != held[i] {
			t.Errorf("%s holds %d shards, the gauge says %d", node.Name, n, held[i])
		}
	}
}

// shardsOn counts the shards whose records are on a node.
func shardsOn(t *testing.T, cluster *redistest.Cluster, addr, prefix string) (n int) {
	t.Helper()
	for _, node := range cluster.Nodes() {
		if node.Addr() != addr {
			continue
		}
		keys, _ := node.Must("KEYS", prefix+":*}:records").([]any)
		for _, key := range keys {
			if name, _ := key.(string); strings.Contains(name, "/spread/") {
				n++
			}
		}
	}
	return n
}
