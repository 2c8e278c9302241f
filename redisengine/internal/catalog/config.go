package catalog

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"strconv"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/redisengine/internal/codec"
)

// layout is the version of the keys and their values. A queue of another one is
// refused. No release of duly has written layout 1, so nothing converts it.
const layout = 2

// VersionSize is the length of the version that begins a configuration: a number
// that rises with every change, and a random mark that no other queue of that name
// has had.
const VersionSize = 16

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
	Topic     *storedTopic  `json:"topic,omitempty"`
	Push      *storedPush   `json:"push,omitempty"` // of a push queue
}

// storedPush is what only a push queue has. Empty is none.
type storedPush struct {
	URL    string `json:"url,omitempty"`
	OnDone string `json:"on_done,omitempty"`
	OnDead string `json:"on_dead,omitempty"`
}

// storePush is the stored form of a push queue's part; nil for a pull queue.
func storePush(c duly.QueueConfig) *storedPush {
	if c.Delivery != duly.DeliverPush {
		return nil
	}
	p := c.Push
	for _, text := range []*string{&p.URL, &p.OnDone, &p.OnDead} {
		if *text == duly.NoDestination {
			*text = ""
		}
	}
	return &storedPush{p.URL, p.OnDone, p.OnDead}
}

// read adds to a configuration what is stored of a push queue.
func (p *storedPush) read(c *duly.QueueConfig) {
	if p == nil {
		return
	}
	none := duly.NoDestination
	c.Delivery = duly.DeliverPush
	c.Push = duly.PushConfig{URL: cmp.Or(p.URL, none), OnDone: cmp.Or(p.OnDone, none), OnDead: cmp.Or(p.OnDead, none)}
}

// PackConfig is a configuration behind its version.
func PackConfig(version string, c duly.QueueConfig, gone bool) string {
	text, err := json.Marshal(storeConfig(c, gone))
	if err != nil {
		panic(err) // plain fields
	}
	return version + string(text)
}

func storeConfig(c duly.QueueConfig, gone bool) storedConfig {
	d := c.Defaults
	return storedConfig{
		Layout: layout, Gone: gone, Paused: c.Paused, Shards: c.Shards, Tries: d.Tries, MaxStalls: d.MaxStalls, Backoff: d.Backoff,
		Lease: d.Lease, TTL: d.TTL, DeadAge: c.DeadAge, DeadCount: c.DeadCount, MaxJobs: c.MaxJobs, MaxLeased: c.MaxLeased,
		Rate: c.Rate.PerSecond, Burst: c.Rate.Burst, Retain: retainStored(d.Retain), Push: storePush(c),
	}
}

// config is the configuration that is stored.
func (s *storedConfig) config() duly.QueueConfig {
	c := duly.QueueConfig{
		Delivery: duly.DeliverPull, Shards: s.Shards, DeadAge: s.DeadAge, DeadCount: s.DeadCount, MaxJobs: s.MaxJobs, MaxLeased: s.MaxLeased, Paused: s.Paused,
		Rate:     duly.Rate{PerSecond: s.Rate, Burst: s.Burst},
		Defaults: duly.Defaults{Tries: s.Tries, MaxStalls: s.MaxStalls, Backoff: s.Backoff, Lease: s.Lease, TTL: s.TTL, Retain: cmp.Or(s.Retain, duly.None)},
	}
	s.Push.read(&c)
	return c
}

// retainStored returns the stored form of a default for Retain: zero for none.
func retainStored(d time.Duration) time.Duration {
	if d == duly.None {
		return 0
	}
	return d
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
	return c.CheckWhole()
}

// packLimits is one shard's part of what a configuration bounds, as
// include/limits.lua reads it.
func packLimits(c duly.QueueConfig, i int) string {
	def := duly.DefaultQueueConfig()
	if !c.Paused && c.MaxJobs == duly.None && c.MaxLeased == duly.None && !c.Rate.Limited() && c.DeadAge == def.DeadAge && c.DeadCount == def.DeadCount && c.Shards == 1 {
		return ""
	}

	var w codec.Packer
	w.Array(8)
	packQueueLimits(&w, c, i)
	return string(w)
}

// packQueueLimits packs what include/limits.lua reads.
func packQueueLimits(w *codec.Packer, c duly.QueueConfig, i int) {
	part := c.OfShard(i)
	paused := int64(0)
	if c.Paused {
		paused = 1
	}

	w.Integer(paused)
	w.Integer(int64(part.MaxJobs))
	w.Integer(int64(part.MaxLeased))
	rate := strconv.Itoa(duly.None)
	if c.Rate.Limited() {
		rate = strconv.FormatFloat(part.Rate.PerSecond, 'g', -1, 64)
	}

	w.Text(rate)
	w.Integer(int64(part.Rate.Burst))
	w.Integer(codec.MillisOrNone(c.DeadAge))
	w.Integer(int64(part.DeadCount))
	w.Integer(int64(duly.ShardPart(duly.MaxDone, c.Shards, i)))
}

// numberOf is the number that begins a configuration or a version; 0 for what is
// none: it counts microseconds, and those of the year 9999 are below 2^58.
func numberOf(value string) uint64 {
	if len(value) < VersionSize {
		return 0
	}
	n := binary.BigEndian.Uint64([]byte(value[:8]))
	if n >= 1<<58 {
		return 0
	}
	return n
}
