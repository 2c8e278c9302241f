package redisengine

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"strconv"
	"sync"
	"time"

	"github.com/dulymq/duly"
)

// layout is the version of the keys and their values. A queue of another one is
// refused. No release of duly has written layout 1, so nothing converts it.
const layout = 2

// versionSize is the length of the version that begins a configuration: a
// number that rises with every change, and the birth mark of the queue, which
// no other queue of that name has had.
const versionSize = 16

// queue is what this process knows of a queue. It never changes: another
// configuration is another queue.
type queue struct {
	ref     duly.QueueRef
	cfg     duly.QueueConfig
	value   string // the configuration as it is stored, version first
	version string
	gone    bool // to be destroyed: what is left of it goes before it is made anew
	usual   bool // its defaults are the contract's
	shards  []*shard
}

// storedConfig is a configuration in the store. Durations are in ns.
type storedConfig struct {
	Layout    int           `json:"layout"`
	Gone      bool          `json:"gone,omitempty"`
	Paused    bool          `json:"paused,omitempty"`
	Shards    int           `json:"shards"`
	Tries     int           `json:"tries"`
	MaxStalls int           `json:"max_stalls"`
	Backoff   duly.Backoff  `json:"backoff"`
	Lease     time.Duration `json:"lease"`
	TTL       time.Duration `json:"ttl"`
	Retain    time.Duration `json:"retain,omitempty"` // missing: none, as stored by earlier versions
	DeadAge   time.Duration `json:"dead_age"`
	DeadCount int           `json:"dead_count"`
	MaxJobs   int           `json:"max_jobs"`
	MaxLeased int           `json:"max_leased"`
	Rate      float64       `json:"rate"`
	Burst     int           `json:"burst,omitempty"`
}

// packConfig is a configuration behind its version.
func packConfig(version string, c duly.QueueConfig, gone bool) string {
	d := c.Defaults
	text, err := json.Marshal(storedConfig{
		Layout: layout, Gone: gone, Paused: c.Paused, Shards: c.Shards, Tries: d.Tries, MaxStalls: d.MaxStalls, Backoff: d.Backoff,
		Lease: d.Lease, TTL: d.TTL, DeadAge: c.DeadAge, DeadCount: c.DeadCount, MaxJobs: c.MaxJobs, MaxLeased: c.MaxLeased,
		Rate: c.Rate.PerSecond, Burst: c.Rate.Burst, Retain: retainStored(d.Retain),
	})
	if err != nil {
		panic(err) // plain fields
	}
	return version + string(text)
}

// retainStored returns the stored form of a default for Retain: zero for none.
func retainStored(d time.Duration) time.Duration {
	if d == duly.None {
		return 0
	}
	return d
}

// readQueue reads a stored configuration, as this package has written it:
// nothing is missing, and nothing is beyond its bounds.
func (e *Engine) readQueue(ref duly.QueueRef, value string) (*queue, error) {
	var s storedConfig
	if numberOf(value) == 0 || json.Unmarshal([]byte(value[versionSize:]), &s) != nil {
		return nil, e.unreadable(ref, "it is cut short or damaged")
	}
	if err := checkLayout(ref, s.Layout); err != nil {
		return nil, err
	}
	q := &queue{ref: ref, value: value, version: value[:versionSize], gone: s.Gone}
	q.cfg = duly.QueueConfig{
		Shards: s.Shards, DeadAge: s.DeadAge, DeadCount: s.DeadCount, MaxJobs: s.MaxJobs, MaxLeased: s.MaxLeased, Paused: s.Paused,
		Rate:     duly.Rate{PerSecond: s.Rate, Burst: s.Burst},
		Defaults: duly.Defaults{Tries: s.Tries, MaxStalls: s.MaxStalls, Backoff: s.Backoff, Lease: s.Lease, TTL: s.TTL, Retain: cmp.Or(s.Retain, duly.None)},
	}
	if err := complete(q.cfg); err != nil {
		return nil, e.unreadable(ref, err.(*duly.Error).Message)
	}
	q.usual = q.cfg.Defaults == duly.Defaults{}.Filled()
	q.shards = make([]*shard, s.Shards)
	for i := range q.shards {
		q.shards[i] = &shard{index: i, tag: shardTag(e.prefix, ref, i), limits: packLimits(q.cfg, i)}
	}
	return q, nil
}

// checkLayout returns unsupported for a queue that another version of duly has
// stored.
func checkLayout(ref duly.QueueRef, stored int) error {
	switch {
	case stored > layout:
		return duly.Errorf(duly.CodeUnsupported, "queue %s is stored in layout %d and this version of duly reads layout %d; use a newer duly",
			ref, stored, layout)
	case stored > 0 && stored < layout: // 0 is none: the configuration is damaged
		return duly.Errorf(duly.CodeUnsupported, "queue %s is stored in layout %d and this version of duly reads layout %d; no release has written layout %d: "+
			"choose another prefix in the URL, or let the duly that wrote the queue work its jobs off and destroy it", ref, stored, layout, stored)
	}
	return nil
}

// complete looks whether a configuration has all its fields, and each within its
// bounds.
func complete(c duly.QueueConfig) error {
	if err := c.Validate(); err != nil {
		return err
	}
	whole := duly.DefaultQueueConfig().With(c)
	if whole.Paused = c.Paused; whole != c {
		return duly.Invalid("fields", "are missing")
	}
	return c.CheckParts()
}

func (e *Engine) unreadable(ref duly.QueueRef, why string) error {
	return duly.Errorf(duly.CodeCorrupt, "the configuration of queue %s can't be read (%s): something else has written to the key %s, or to the queue's shards; run duly check --repair",
		ref, why, e.configsKey(ref.Namespace))
}

// packLimits is one shard's part of what a configuration bounds, as
// include/limits.lua reads it.
func packLimits(c duly.QueueConfig, i int) string {
	def := duly.DefaultQueueConfig()
	if !c.Paused && c.MaxJobs == duly.None && c.MaxLeased == duly.None && !c.Rate.Limited() && c.DeadAge == def.DeadAge && c.DeadCount == def.DeadCount && c.Shards == 1 {
		return ""
	}
	part := c.OfShard(i)
	var w packer
	w.array(8)
	paused := int64(0)
	if c.Paused {
		paused = 1
	}
	w.integer(paused)
	w.integer(int64(part.MaxJobs))
	w.integer(int64(part.MaxLeased))
	rate := strconv.Itoa(duly.None)
	if c.Rate.Limited() {
		rate = strconv.FormatFloat(part.Rate.PerSecond, 'g', -1, 64)
	}
	w.text(rate)
	w.integer(int64(part.Rate.Burst))
	w.integer(millisOrNone(c.DeadAge))
	w.integer(int64(part.DeadCount))
	w.integer(int64(duly.ShardPart(duly.MaxDone, c.Shards, i)))
	return string(w)
}

// numberOf is the number that begins a configuration or a version; 0 for what is
// none: it counts microseconds, and those of the year 9999 are below 2^58.
func numberOf(value string) uint64 {
	if len(value) < versionSize {
		return 0
	}
	n := binary.BigEndian.Uint64([]byte(value[:8]))
	if n >= 1<<58 {
		return 0
	}
	return n
}

// nextVersion is a version after was, and after others that were found; ""
// begins a queue's life. It goes by the wall clock of whoever changes the
// configuration, and rises in any case.
func (e *Engine) nextVersion(was string, others ...string) string {
	number, birth := uint64(e.local().Now().UnixMicro()), make([]byte, 8)
	for _, other := range append(others, was) {
		number = max(number, numberOf(other)+1)
	}
	if was == "" {
		rand.Read(birth)
	} else {
		copy(birth, was[8:versionSize])
	}
	return string(binary.BigEndian.AppendUint64(nil, number)) + string(birth)
}

// justEmptied tells, once, whether Reserves of the last moments have left
// nothing in any shard. Whatever has become deliverable since then stands in a
// marker, or somebody was told: who waits now need not look.
func (q *queue) justEmptied(now time.Duration) bool {
	all := true
	for _, s := range q.shards {
		at := s.emptied.Swap(0)
		all = all && at > 0 && now-time.Duration(at-1) < recheck
	}
	return all
}

// queues remembers the queues that this process has met.
type queues struct {
	mu    sync.RWMutex
	known map[duly.QueueRef]*queue
	used  map[duly.QueueRef]*queue // those of them that may have gear
}

func (s *queues) get(ref duly.QueueRef) *queue {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.known[ref]
}

// put remembers a queue, and gives back the one that is remembered: the same
// one for the same configuration, so that calls of many meet in its lanes.
func (s *queues) put(q *queue) *queue {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.known[q.ref]; old != nil && old.value == q.value {
		return old
	}
	s.known[q.ref] = q
	delete(s.used, q.ref)
	return q
}

// forget drops what was known before the server was asked, nil for nothing:
// the queue may have been made while the answer was on its way.
func (s *queues) forget(was *queue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if was != nil && s.known[was.ref] == was {
		delete(s.known, was.ref)
		delete(s.used, was.ref)
	}
}

// find is the queue, or nil if there is none.
func (e *Engine) find(ctx context.Context, ref duly.QueueRef) (*queue, error) {
	if q := e.queues.get(ref); q != nil {
		return q, nil
	}
	q, err := e.reread(ctx, ref)
	if q == nil || q.gone {
		return nil, err
	}
	return q, nil
}

// reread asks the namespace's list for the queue; nil if it is not there.
func (e *Engine) reread(ctx context.Context, ref duly.QueueRef) (*queue, error) {
	was := e.queues.get(ref)
	value, err := e.askQueue(ctx, ref)
	if err != nil {
		return nil, err
	}
	if value == "" {
		e.queues.forget(was)
		return nil, nil
	}
	if was != nil && was.value == value {
		return e.remember(was), nil
	}
	q, err := e.readQueue(ref, value)
	if err != nil {
		return nil, err
	}
	if q.gone {
		e.queues.forget(was)
		return q, nil
	}
	return e.remember(q), nil
}

// remember takes over a configuration that the list has, for calls and for
// whoever waits, perhaps since before the queue was known.
func (e *Engine) remember(q *queue) *queue {
	q = e.queues.put(q)
	e.hub.reconfigured(q)
	return q
}
