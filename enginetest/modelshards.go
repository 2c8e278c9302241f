package enginetest

import (
	"github.com/dulymq/duly"
)

// On queues of several shards the scripts' world stays as small: what they push
// meets in two neighbouring shards, one of which has one more of each limit.
// Only the last own ID, and what merges by its body, go where they say
// themselves.

// scriptLot is the shard byte of the first of the two; its shard is the last
// that has one more of a limit. Every key has it.
const scriptLot = 0x5b

// scriptKeys are the keys by what the scripts call them.
var scriptKeys = func() map[string]string {
	keys := map[string]string{}
	for _, key := range []string{"k", "l", "m", "n"} {
		keys[key] = keyOfLot(key, scriptLot)
	}
	return keys
}()

func (p *pair) sharded() bool { return p.h.Shards > 1 }

// key is a key as it is pushed.
func (p *pair) key(key string) string {
	if form, ok := scriptKeys[key]; ok && p.sharded() {
		return form
	}
	return key
}

// name chooses the IDs.
func (p *pair) name() {
	p.ids = []string{"a", "b", "c"}
	for n := range p.ids[:scriptOwnIDs-1] {
		if p.sharded() { // else no job with a key could have them
			p.ids[n] = p.make(0, &duly.Job{})
		}
	}
	for n := range idSpec(scriptIDs) {
		p.made = append(p.made, madeID{id: p.make(n, &duly.Job{})})
	}
}

// make is an ID that duly's client would have made for the job.
func (p *pair) make(n idSpec, j *duly.Job) string {
	id := duly.MakeID(j)
	if p.sharded() && j.OrderKey == "" && !j.Merge.Set() {
		number, _ := duly.ParseNumber(id)
		number[shardByte] = scriptLot + byte(n%2)
		return number.String()
	}
	return id
}

// limits are such that the shards have the scripts' limits, or one less. A limit
// of 1 is then too small, but for the burst.
func (p *pair) limits(c duly.QueueConfig) duly.QueueConfig {
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
