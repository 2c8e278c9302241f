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
	"github.com/dulymq/duly/internal/logtest"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/redisengine"
	"github.com/dulymq/duly/test/conformance"
)

// where returns the URL of a test's engine, with a unique prefix.
type where func(t testing.TB) string

// single returns the URL of the single server, with the user that docs/redis.md requires (fault S5).
// Open fails for a user that can't use functions.
func single(t testing.TB) string {
	server, prefix := redistest.Shared(t)
	return asUser(t, server, prefix, documented(t, prefix)) + "&scripts=functions"
}

// byEval is like single for an engine without functions.
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

// openOn opens an engine with the test's clock.
func openOn(t testing.TB, at where, c duly.Clock, o enginetest.Options) *redisengine.Engine {
	return openWith(t, at, c, o, slog.New(slog.DiscardHandler))
}

// openWith is openOn with a logger.
func openWith(t testing.TB, at where, c duly.Clock, o enginetest.Options, log *slog.Logger) *redisengine.Engine {
	e, err := redisengine.Open(context.Background(), redisengine.Config{
		URL: at(t), MaxBody: o.MaxBody, MaxQueues: o.MaxQueues, Shards: o.Shards,
		Clock: c, Manual: !o.Own, Logger: log,
	})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// suite returns a function that creates an engine for each test. Its queues have the given number
// of shards.
func suite(t *testing.T, at where, shards int) enginetest.Suite {
	redistest.Need(t)
	return enginetest.Suite{Shards: shards, New: func(t testing.TB, o enginetest.Options) *enginetest.Harness {
		c, log := clock.NewFake(), new(logtest.Log)
		e := openWith(t, at, c, o, log.Logger())
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
		return &enginetest.Harness{Engine: e, Maintainer: e, Registry: e, Clock: c, Logged: log.CountLines, Quiet: quiet,
			Sharded: true}
	}}
}

// shards is the number of shards per queue in the tests with several shards.
const shards = 8

func TestConformance(t *testing.T) { suite(t, single, 1).Run(t) }

// TestConformanceByEval checks that the contract also holds for scripts sent by EVAL (C11.17).
func TestConformanceByEval(t *testing.T) {
	s := suite(t, byEval, 1)
	switch {
	case testing.Short():
		s.Subjects = []string{"Reserve", "Settle"}
	case !long():
		s.Subjects = []string{"Push", "Reserve", "Settle", "Slow", "Adapt", "OrderKey", "Merge", "Requeue", "Explain", "Keys",
			"Maintenance", "TokenLimits", "TopicReserve", "TopicSettle", "TopicOrder", "ScheduleFire", "ScheduleWake"}
	}
	s.Run(t)
}

// TestShardedConformance runs the suite with queues of eight shards on one server, which needs no
// cluster.
func TestShardedConformance(t *testing.T) {
	if !long() {
		t.Skip("runs with DULY_LONG=1; the cluster's short form has eight shards, too")
	}
	suite(t, single, shards).Run(t)
}

// TestClusterConformance runs the suite with queues of eight shards on a cluster of three nodes
// (C1.5). No call uses keys of two shards in one step, which a cluster rejects as CROSSSLOT.
func TestClusterConformance(t *testing.T) {
	s := suite(t, cluster, shards)
	switch {
	case testing.Short():
		s.Subjects = []string{"Shards", "Concurrency"}
	case !long():
		s.Subjects = []string{"Shards", "Batch", "Suspect", "Limits", "Merge", "Order", "OrderKey", "Explain", "Keys",
			"Maintenance", "Slow", "Adapt", "Concurrency"}
	}
	neverAcrossSlots(t)
	s.Run(t)
}

// neverAcrossSlots checks after the test whether a node of the shared cluster has rejected a call
// for keys of several slots.
func neverAcrossSlots(t *testing.T) {
	c, _ := redistest.SharedCluster(t)
	t.Cleanup(func() {
		for _, node := range c.Nodes() {
			if stats := node.Must("INFO", "errorstats").(string); strings.Contains(stats, "errorstat_CROSSSLOT") {
				t.Errorf("%s has rejected a call with CROSSSLOT: %s", node.Addr(), stats)
			}
		}
	})
}

// TestHTTPOverRedis runs the suite through a server on Redis (C11.32).
func TestHTTPOverRedis(t *testing.T) {
	redistest.Need(t)
	s := conformance.OnLoopback(func(t testing.TB, c duly.Clock, o enginetest.Options) conformance.Owner {
		return openOn(t, single, c, o)
	})
	create := s.New
	s.New = func(t testing.TB, o enginetest.Options) *enginetest.Harness {
		h := create(t, o)
		h.Sharded = true
		return h
	}
	switch {
	case testing.Short():
		s.Subjects = []string{"Wait", "Concurrency"}
	case !long():
		s.Subjects = []string{"Push", "Reserve", "Wait", "Settle", "Inspect", "Cancels", "Errors"}
	}
	s.Run(t)
}

func long() bool { return os.Getenv("DULY_LONG") != "" }

// TestModel has a short form, which leaves the rare transitions to the engines without a server.
func TestModel(t *testing.T) {
	t.Parallel()
	s := suite(t, single, 1)
	s.Sequences = 50
	s.Model(t)
}

func TestTopicModel(t *testing.T) {
	t.Parallel()
	s := suite(t, single, 1)
	s.Sequences = 20
	s.TopicModel(t)
}

func TestTopicModelByEval(t *testing.T) {
	t.Parallel()
	s := suite(t, byEval, 1)
	s.Sequences = 10
	s.TopicModel(t)
}

func TestClusterTopicModel(t *testing.T) {
	t.Parallel()
	s := suite(t, cluster, 1)
	s.Sequences = 10
	neverAcrossSlots(t)
	s.TopicModel(t)
}

// The engine and the model agree on random scripts with schedules.
func TestScheduleModel(t *testing.T) {
	t.Parallel()
	s := suite(t, single, 1)
	s.Sequences = 20
	s.ScheduleModel(t)
}

func TestScheduleModelByEval(t *testing.T) {
	t.Parallel()
	s := suite(t, byEval, 1)
	s.Sequences = 10
	s.ScheduleModel(t)
}

func TestClusterScheduleModel(t *testing.T) {
	t.Parallel()
	s := suite(t, cluster, 1)
	s.Sequences = 10
	neverAcrossSlots(t)
	s.ScheduleModel(t)
}

// TestClusterTopics runs the topic tests on a cluster. The tests set the number of shards
// themselves.
func TestClusterTopics(t *testing.T) {
	s := suite(t, cluster, 1)
	s.Subjects = []string{"TopicPublish", "TopicDelayed", "TopicGroup", "TopicReserve", "TopicSettle", "TopicSeek",
		"TopicShards", "TopicStats"}
	if testing.Short() {
		s.Subjects = []string{"TopicShards"}
	}
	neverAcrossSlots(t)
	s.Run(t)
}

// TestClusterSchedules runs the schedule tests on a cluster. The tests set the number of shards
// themselves.
func TestClusterSchedules(t *testing.T) {
	s := suite(t, cluster, 1)
	s.Subjects = []string{"SchedulePut", "ScheduleOperate", "ScheduleRead", "ScheduleFire", "ScheduleWake", "ScheduleShards"}
	if testing.Short() {
		s.Subjects = []string{"ScheduleShards"}
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
	t.Parallel()
	s := suite(t, cluster, shards)
	s.Sequences = 20
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
