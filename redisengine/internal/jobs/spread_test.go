package jobs

import (
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/redisengine/internal/catalog"
)

// TestCallsChangeTheShardInTime checks that a run ends after runLength calls and after runTime.
func TestCallsChangeTheShardInTime(t *testing.T) {
	t.Parallel()
	for name, step := range map[string]time.Duration{"by its length": 0, "by its time": runTime / 10} {
		length := runLength
		if step > 0 {
			length = 10
		}
		var r run
		parts := map[byte]int{}
		for i := range 200 * length {
			part := r.at(time.Duration(i) * step)
			if first := i % length; first == 0 {
				parts[part]++
			} else if part != r.part {
				t.Fatalf("%s: call %d is in another run", name, i)
			}
		}
		// 200 runs draw from 256 parts, so fewer than 64 different ones are impossible by chance.
		if len(parts) < 64 {
			t.Errorf("%s: 200 runs had %d parts", name, len(parts))
		}
	}
}

// TestJobsPushedTogetherShareAShard checks that jobs of one push share a shard. Exceptions are
// queues with limits, which the shards divide, and jobs with keys, which choose the shard.
//
// C6.16
func TestJobsPushedTogetherShareAShard(t *testing.T) {
	t.Parallel()
	shards := make([]*catalog.Shard, 8)
	unlimited := duly.QueueConfig{MaxJobs: duly.None, MaxLeased: duly.None}
	maxJobs, maxLeased, rate := unlimited, unlimited, unlimited
	maxJobs.MaxJobs, maxLeased.MaxLeased, rate.Rate = 800, 80, duly.Rate{PerSecond: 8}
	for name, test := range map[string]struct {
		cfg  duly.QueueConfig
		job  duly.Job
		most int // upper bound for the number of different shards
	}{
		"plain":      {unlimited, duly.Job{}, 2}, // 2 shards, because the run may end in the middle
		"max jobs":   {maxJobs, duly.Job{}, 8},
		"max leased": {maxLeased, duly.Job{}, 8},
		"rate":       {rate, duly.Job{}, 8},
		"order key":  {unlimited, duly.Job{OrderKey: "k"}, 1},
		"merge key":  {unlimited, duly.Job{Merge: duly.Merge{Key: "k"}}, 1},
	} {
		e := &Jobs{}
		q := &catalog.Queue{Config: test.cfg, Shards: shards}
		seen := map[int]bool{}
		e.pushes.at(0)
		// Only its length ends this run.
		e.pushes.ends = 1 << 62
		for range runLength {
			seen[contract.ShardOf(e.makeID(q, &test.job), 8)] = true
		}
		if len(seen) > test.most || test.most == 8 && len(seen) < 3 {
			t.Errorf("%s: the jobs went to %d shards", name, len(seen))
		}
	}
}
