package enginetest

import (
	"github.com/dulymq/duly"
)

// With several shards the scripts still use few IDs and keys. Most of their jobs are in two
// adjacent shards. The first of them has one more of each limit than the second. The last own ID and
// jobs that merge by their bodies may be in other shards.

// scriptByte is the shard byte of the first of the two shards. Its shard is the last one with one
// more of a limit. Every script key hashes to it.
const scriptByte = 0x5b

// scriptKeys maps the keys of the scripts to keys that hash to scriptByte.
var scriptKeys = func() map[string]string {
	keys := map[string]string{}
	for _, key := range []string{"k", "l", "m", "n"} {
		keys[key] = keyWithByte(key, scriptByte)
	}
	return keys
}()

func (p *pair) sharded() bool { return p.h.Shards > 1 }

// key returns the key to push for a key of a script.
func (p *pair) key(key string) string {
	if alias, ok := scriptKeys[key]; ok && p.sharded() {
		return alias
	}
	return key
}

// name chooses the IDs of the script.
func (p *pair) name() {
	p.ids = []string{"a", "b", "c"}
	for n := range p.ids[:scriptOwnIDs-1] {
		// A job with a key needs an ID of the key's shard.
		if p.sharded() {
			p.ids[n] = p.make(0, &duly.Job{})
		}
	}
	for n := range idSpec(scriptIDs) {
		p.made = append(p.made, madeID{id: p.make(n, &duly.Job{})})
	}
}

// make returns an ID as duly's client would create it for the job.
func (p *pair) make(n idSpec, j *duly.Job) string {
	id := duly.MakeID(j)
	// Without a key the ID decides the shard, so the IDs alternate between the two shards.
	if p.sharded() && j.OrderKey == "" && !j.Merge.Set() {
		number, _ := duly.ParseNumber(id)
		number[shardByte] = scriptByte + byte(n%2)
		return number.String()
	}
	return id
}

// reopenShards opens the queues of a script with several shards, before the clock goes back. A
// Reserve notes only in the shards that it visits that a closing has passed, and it begins at a
// random shard. Later, such a closing would count again in some of the other shards.
func (p *pair) reopenShards() {
	if !p.sharded() {
		return
	}
	for i := range scriptQueues {
		at, exists := queueSpec(i), false
		p.both("config before a step back", func(s side) (string, error) {
			_, err := s.in(at.ref().Namespace).Config(p.ctx, at.ref())
			exists = err == nil
			return "", err
		})
		if exists {
			configureOp{At: at, Patch: duly.QueueConfig{Reopen: true}}.play(p)
		}
	}
}

// limits scales the limits of a script so that each shard has the script's limit or one less. With
// a limit of 1 some shards would get no part, except of the burst.
func (p *pair) limits(c duly.QueueConfig) duly.QueueConfig {
	if !p.adapts {
		c.Adapt = duly.Adapt{}
	}
	if !p.sharded() {
		return c
	}
	for _, limit := range []*int{&c.MaxJobs, &c.MaxLeased, &c.DeadCount} {
		if *limit > 0 {
			*limit = (*limit-1)*p.h.Shards + p.h.Shards/2
		}
	}
	if c.Rate.PerSecond > 0 {
		c.Rate.PerSecond *= float64(p.h.Shards)
	}
	c.Rate.Burst *= p.h.Shards
	return c
}
