package jobs

import (
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/redisengine/internal/catalog"
)

// A run ends after runLength calls and after runTime.
func TestRunEnds(t *testing.T) {
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
				t.Fatalf("%s: call %d is not of its run", name, i)
			}
		}
		// 200 runs draw among 256 parts: so few as 64 is beyond any chance.
		if len(parts) < 64 {
			t.Errorf("%s: 200 runs had %d parts", name, len(parts))
		}
	}
}

// Jobs that are pushed together share a shard, except in a queue whose shards
// divide a limit, or with keys, which decide.
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
		most int // different shards
	}{
		"plain":      {unlimited, duly.Job{}, 2}, // the run may end in the middle
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
		e.pushes.ends = 1 << 62 // only its length ends this run
		for range runLength {
			seen[contract.ShardOf(e.makeID(q, &test.job), 8)] = true
		}
		if len(seen) > test.most || test.most == 8 && len(seen) < 3 {
			t.Errorf("%s: the jobs went to %d shards", name, len(seen))
		}
	}
}
