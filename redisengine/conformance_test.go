package redisengine_test

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/enginetest"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/goroutines"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/redisengine"
	"github.com/dulymq/duly/test/conformance"
)

// where is the place of a test's engine: a URL with a prefix of its own.
type where func(t testing.TB) string

// single is the one server, as the user that docs/redis.md asks for (S5). A user
// who can't use functions is refused.
func single(t testing.TB) string {
	server, prefix := redistest.Shared(t)
	return asUser(t, server, prefix, documented(t, prefix)) + "&scripts=functions"
}

// byEval is single for an engine that uses no functions.
func byEval(t testing.TB) string {
	server, prefix := redistest.Shared(t)
	return asUser(t, server, prefix, documented(t, prefix)) + "&scripts=eval"
}

func cluster(t testing.TB) string {
	c, prefix := redistest.SharedCluster(t)
	return c.URL() + "&scripts=functions&prefix=" + prefix
}

func clusterByEval(t testing.TB) string {
	c, prefix := redistest.SharedCluster(t)
	return c.URL() + "&scripts=eval&prefix=" + prefix
}

// openOn opens an engine that goes by the test's clock.
func openOn(t testing.TB, at where, c duly.Clock, o enginetest.Options) *redisengine.Engine {
	e, err := redisengine.Open(context.Background(), redisengine.Config{
		URL: at(t), MaxBody: o.MaxBody, MaxQueues: o.MaxQueues, Shards: o.Shards,
		Clock: c, Manual: !o.Own, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// suite makes an engine for every test, whose queues have that many shards.
func suite(t *testing.T, at where, shards int) enginetest.Suite {
	redistest.Need(t)
	return enginetest.Suite{Shards: shards, New: func(t testing.TB, o enginetest.Options) *enginetest.Harness {
		c := clock.NewFake()
		e := openOn(t, at, c, o)
		t.Cleanup(func() {
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		})
		root := goroutines.Own()
		quiet := func() {
			for {
				for goroutines.Busy(root) {
					redisengine.Pause()
				}
				e.Quiet()
				if !goroutines.Busy(root) {
					return
				}
			}
		}
		return &enginetest.Harness{Engine: e, Maintainer: e, Registry: e, Clock: c, Quiet: quiet, Sharded: true}
	}}
}

// shards is how many parts queues have where they have several.
const shards = 8

func TestConformance(t *testing.T) { suite(t, single, 1).Run(t) }

// C11.17: the contract holds for scripts that are sent by EVAL, too.
func TestConformanceByEval(t *testing.T) {
	s := suite(t, byEval, 1)
	switch {
	case testing.Short():
		s.Subjects = []string{"Reserve", "Settle"}
	case !long():
		s.Subjects = []string{"Push", "Reserve", "Settle", "OrderKey", "Merge", "Requeue", "Maintenance", "TokenLimits", "TopicReserve", "TopicSettle", "TopicOrder"}
	}
	s.Run(t)
}

// Queues of eight shards on one server: what does not hang on a cluster.
func TestShardedConformance(t *testing.T) {
	if !long() {
		t.Skip("runs with DULY_LONG=1; the cluster's short form has eight shards, too")
	}
	suite(t, single, shards).Run(t)
}

// C1.5: queues of eight shards on a cluster of three. Nothing ever asks for keys
// of two shards in one step, which a cluster refuses as CROSSSLOT.
func TestClusterConformance(t *testing.T) {
	s := suite(t, cluster, shards)
	switch {
	case testing.Short():
		s.Subjects = []string{"Shards", "Concurrency"}
	case !long():
		s.Subjects = []string{"Shards", "Batch", "Suspect", "Limits", "Merge", "Order", "OrderKey", "Maintenance", "Concurrency"}
	}
	neverAcrossSlots(t)
	s.Run(t)
}

// neverAcrossSlots looks at the end of the test whether a node of the shared
// cluster has refused a call for keys of several slots.
func neverAcrossSlots(t *testing.T) {
	c, _ := redistest.SharedCluster(t)
	t.Cleanup(func() {
		for _, node := range c.Nodes() {
			if stats := node.Must("INFO", "errorstats").(string); strings.Contains(stats, "errorstat_CROSSSLOT") {
				t.Errorf("%s has answered CROSSSLOT: %s", node.Addr(), stats)
			}
		}
	})
}

// C11.32: the same suite through a server that stands on Redis.
func TestHTTPOverRedis(t *testing.T) {
	redistest.Need(t)
	s := conformance.OnLoopback(func(t testing.TB, c duly.Clock, o enginetest.Options) conformance.Owner {
		return openOn(t, single, c, o)
	})
	switch {
	case testing.Short():
		s.Subjects = []string{"Wait", "Concurrency"}
	case !long():
		s.Subjects = []string{"Push", "Reserve", "Wait", "Settle", "Inspect", "Cancels", "Errors"}
	}
	s.Run(t)
}

func long() bool { return os.Getenv("DULY_LONG") != "" }

// The short form leaves the rare transitions to the engines that need no server.
func TestModel(t *testing.T) {
	s := suite(t, single, 1)
	s.Sequences = 150
	s.Model(t)
}

func TestTopicModel(t *testing.T) {
	s := suite(t, single, 1)
	s.Sequences = 40
	s.TopicModel(t)
}

func TestTopicModelByEval(t *testing.T) {
	s := suite(t, byEval, 1)
	s.Sequences = 10
	s.TopicModel(t)
}

func TestClusterTopicModel(t *testing.T) {
	s := suite(t, cluster, 1)
	s.Sequences = 10
	neverAcrossSlots(t)
	s.TopicModel(t)
}

// Topics on a cluster. Their tests say themselves how many shards a topic has.
func TestClusterTopics(t *testing.T) {
	s := suite(t, cluster, 1)
	s.Subjects = []string{"TopicPublish", "TopicDelayed", "TopicGroup", "TopicReserve", "TopicSettle", "TopicSeek", "TopicShards", "TopicStats"}
	if testing.Short() {
		s.Subjects = []string{"TopicShards"}
	}
	neverAcrossSlots(t)
	s.Run(t)
}

func TestModelByEval(t *testing.T) {
	if !long() {
		t.Skip("runs with DULY_LONG=1; the short form of the conformance suite sends scripts by EVAL, too")
	}
	suite(t, byEval, 1).Model(t)
}

func TestShardedModel(t *testing.T) {
	if !long() {
		t.Skip("runs with DULY_LONG=1; the cluster's short form has eight shards, too")
	}
	suite(t, single, shards).Model(t)
}

func TestClusterModel(t *testing.T) {
	s := suite(t, cluster, shards)
	s.Sequences = 60
	if testing.Short() {
		s.Sequences = 15
	}
	neverAcrossSlots(t)
	s.Model(t)
}

func TestClusterModelByEval(t *testing.T) {
	if !long() {
		t.Skip("runs with DULY_LONG=1; the short form of the conformance suite sends scripts by EVAL, too")
	}
	neverAcrossSlots(t)
	suite(t, clusterByEval, shards).Model(t)
}
