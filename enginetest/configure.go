package enginetest

import (
	"math"
	"time"

	"github.com/dulymq/duly"
)

func configureTests() []test {
	return []test{
		{"CreatesTheQueue", []string{"C4.62", "C4.87"}, Options{}, configureMakes},
		{"ChangesOnlyWhatItNames", []string{"C4.62", "C10.4", "C10.5", "C10.6", "C10.7", "C10.8"}, Options{},
			configureMerges},
		{"NoneRemovesBounds", []string{"C10.6", "C10.7", "C10.8", "C8.11"}, Options{OneShard: true}, configureNone},
		{"NamesBadFieldsAndChangesNothing", []string{"C13.2", "C1.4"}, Options{}, configureBad},
		{"ShardsCanNotBeChanged", []string{"C1.4", "C10.1"}, Options{}, configureShards},
		{"AppliesToLeasedJobsAtOnce", []string{"C4.62", "C10.7"}, Options{OneShard: true}, configureLive},
		{"IgnoresThePausedField", []string{"C10.3", "C4.63"}, Options{}, configurePause},
	}
}

func configureMakes(s *scene) {
	s.configure(duly.QueueConfig{MaxJobs: 5})
	s.sameIDs("the queues", s.queues(), []string{s.queue})
	want := s.usual()
	want.MaxJobs = 5
	same(s, "configuration", s.config(), want)
	s.on("other").configure(duly.QueueConfig{})
	// Configure without a field creates the queue with the defaults.
	same(s, "the number of queues", len(s.queues()), 2)
	s.push(duly.Job{})
	same(s, "configuration after a push", s.config(), want)
}

func configureMerges(s *scene) {
	all := duly.QueueConfig{
		Shards: s.usual().Shards,
		Defaults: duly.Defaults{Tries: 3, MaxStalls: 4, Backoff: "fixed:5s", Lease: time.Minute, TTL: time.Hour,
			Retain: time.Minute},
		DeadAge: 24 * time.Hour, DeadCount: 10, MaxJobs: 20, MaxLeased: 5, Rate: duly.Rate{PerSecond: 2.5, Burst: 7},
		Adapt:    duly.Adapt{Floor: duly.None},
		Delivery: duly.DeliverPull,
	}
	s.configure(all)
	same(s, "configuration", s.config(), all)

	// A zero field keeps its value.
	s.configure(duly.QueueConfig{DeadCount: 11})
	all.DeadCount = 11
	same(s, "configuration after one field", s.config(), all)

	s.configure(duly.QueueConfig{Defaults: duly.Defaults{Lease: time.Second}, Rate: duly.Rate{Burst: 3}})
	all.Defaults.Lease, all.Rate.Burst = time.Second, 3
	same(s, "configuration after two fields", s.config(), all)
	s.configure(duly.QueueConfig{})
	same(s, "configuration after none", s.config(), all)
}

func configureNone(s *scene) {
	s.configure(duly.QueueConfig{MaxJobs: 1, MaxLeased: 1, Rate: duly.Rate{PerSecond: 1, Burst: 1}, DeadAge: time.Hour,
		DeadCount: 1,
		Defaults:  duly.Defaults{MaxStalls: 1, TTL: time.Hour, Retain: time.Hour}})
	// With one job the queue is full.
	s.push(duly.Job{})
	s.refused("one more", s.try(duly.Job{}).Err, duly.CodeFull)

	s.configure(duly.QueueConfig{MaxJobs: duly.None, MaxLeased: duly.None, Rate: duly.Rate{PerSecond: duly.None},
		DeadAge:   duly.None,
		DeadCount: duly.None, Defaults: duly.Defaults{MaxStalls: duly.None, TTL: duly.None, Retain: duly.None}})
	s.pushAll(numbered(20, "j")...)
	same(s, "the jobs delivered", len(s.takeAll()), 21)

	c := s.config()
	if c.MaxJobs != duly.None || c.MaxLeased != duly.None || c.Rate.Limited() || c.DeadAge != duly.None ||
		c.DeadCount != duly.None ||
		c.Defaults.MaxStalls != duly.None || c.Defaults.TTL != duly.None ||
		c.Defaults.Retain != duly.None {
		s.Errorf("the new configuration is %+v, want it to disable every limit", c)
	}
}

func configureBad(s *scene) {
	s.configure(duly.QueueConfig{MaxJobs: 5})
	for _, b := range []struct {
		field string
		patch duly.QueueConfig
	}{
		{"shards", duly.QueueConfig{Shards: 3}},
		{"shards", duly.QueueConfig{Shards: 512}},
		{"shards", duly.QueueConfig{Shards: -1}},
		{"defaults.tries", duly.QueueConfig{Defaults: duly.Defaults{Tries: duly.MaxTries + 1}}},
		{"defaults.max_stalls", duly.QueueConfig{Defaults: duly.Defaults{MaxStalls: -2}}},
		{"defaults.backoff", duly.QueueConfig{Defaults: duly.Defaults{Backoff: "never"}}},
		{"defaults.lease", duly.QueueConfig{Defaults: duly.Defaults{Lease: time.Millisecond}}},
		{"defaults.ttl", duly.QueueConfig{Defaults: duly.Defaults{TTL: -time.Hour}}},
		{"defaults.retain", duly.QueueConfig{Defaults: duly.Defaults{Retain: -time.Hour}}},
		{"dead_age", duly.QueueConfig{DeadAge: -time.Hour}},
		{"dead_count", duly.QueueConfig{DeadCount: -2}},
		{"max_jobs", duly.QueueConfig{MaxJobs: duly.MaxJobsBound + 1}},
		{"max_leased", duly.QueueConfig{MaxLeased: -2}},
		{"rate", duly.QueueConfig{Rate: duly.Rate{PerSecond: duly.MaxRate + 1}}},
		{"rate", duly.QueueConfig{Rate: duly.Rate{PerSecond: -0.5}}},
		{"rate", duly.QueueConfig{Rate: duly.Rate{PerSecond: math.NaN()}}},
		{"rate", duly.QueueConfig{Rate: duly.Rate{PerSecond: math.Inf(1)}}},
		{"burst", duly.QueueConfig{Rate: duly.Rate{PerSecond: 1, Burst: duly.MaxBurst + 1}}},
	} {
		if b.patch.MaxJobs == 0 {
			b.patch.MaxJobs = 9 // a valid field, which must not be stored together with the bad one
		}
		s.unchanged("a bad "+b.field, func() {
			s.names("configure", s.Engine.Configure(s.ctx, s.ref(), b.patch), duly.CodeInvalid, b.field)
		})
	}
	s.names("configure of a bad name", s.Engine.Configure(s.ctx, duly.Q("a/b"), duly.QueueConfig{}), duly.CodeInvalid,
		"queue")
	same(s, "the number of queues", len(s.queues()), 1)
}

// configureShards works for engines with one shard and with many. A number of shards that was set
// stays. Setting one that the engine can't have returns an error.
func configureShards(s *scene) {
	s.push(duly.Job{})
	usual := s.usual().Shards
	same(s, "the shards of a queue that was pushed to", s.config().Shards, usual)
	// Setting the current number changes nothing, so it succeeds.
	s.configure(duly.QueueConfig{Shards: usual})
	if err := s.Engine.Configure(s.ctx, s.ref(), duly.QueueConfig{Shards: 4}); err == nil {
		s.Error("the shards of a queue were changed")
	} else if code := duly.CodeOf(err); code != duly.CodeUnsupported && code != duly.CodeInvalid &&
		code != duly.CodeConflict {
		s.Errorf("changing the shards returns %v, want unsupported, invalid or conflict", err)
	}
	same(s, "the shards afterwards", s.config().Shards, usual)

	// A new queue may have shards if the engine supports them.
	err := s.Engine.Configure(s.ctx, duly.Q("sharded"), duly.QueueConfig{Shards: 4})
	switch duly.CodeOf(err) {
	case "":
		same(s, "the shards that were set", s.on("sharded").config().Shards, 4)
	case duly.CodeUnsupported:
		same(s, "the number of queues", len(s.queues()), 1)
	default:
		s.Errorf("configuring four shards returns %v, want no error or unsupported", err)
	}
}

func configureLive(s *scene) {
	s.pushAll(numbered(5, "j")...)
	same(s, "the jobs delivered", len(s.reserve(3)), 3)
	s.configure(duly.QueueConfig{MaxLeased: 2}) // below the number of jobs that are leased now
	s.nothing("more is leased than the new limit allows")
	s.configure(duly.QueueConfig{MaxLeased: 4})
	same(s, "the jobs delivered", len(s.takeAll()), 1)
}

func configurePause(s *scene) {
	s.push(duly.Job{})
	// Only Pause and Resume change the paused state.
	s.configure(duly.QueueConfig{Paused: true})
	same(s, "paused", s.config().Paused, false)
	s.take()
}
