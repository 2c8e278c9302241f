package catalog

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// layout is the version of the keys and their values. Queues of another layout fail to open. No
// release of duly has written layouts 1 and 2, so nothing converts them.
const layout = 3

// VersionSize is the length of the version that begins a configuration. A version is a number
// that rises with every change, and a random mark that is unique to this queue.
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
	// Missing means that finished jobs are not kept, as earlier versions stored it.
	Retain    time.Duration `json:"retain,omitempty"`
	DeadAge   time.Duration `json:"dead_age"`
	DeadCount int           `json:"dead_count"`
	MaxJobs   int           `json:"max_jobs"`
	MaxLeased int           `json:"max_leased"`
	Rate      float64       `json:"rate"`
	Burst     int           `json:"burst,omitempty"`
	Adapt     float64       `json:"adapt,omitempty"` // the floor; missing means that the limits do not adapt
	Topic     *storedTopic  `json:"topic,omitempty"`
	Push      *storedPush   `json:"push,omitempty"` // nil unless the queue is a push queue
}

// storedPush is the part of a stored configuration that only a push queue has. An empty text means
// that the setting is not used.
type storedPush struct {
	URL    string `json:"url,omitempty"`
	OnDone string `json:"on_done,omitempty"`
	OnDead string `json:"on_dead,omitempty"`
}

// storedTopic is the part of a stored configuration that only a topic has.
type storedTopic struct {
	Born     string        `json:"born,omitempty"` // missing in a topic that an earlier version created
	Dedupe   time.Duration `json:"dedupe"`
	Keep     time.Duration `json:"keep"`
	MaxAge   time.Duration `json:"max_age"`
	MaxCount int           `json:"max_count"`
	MaxBytes int64         `json:"max_bytes"`
	Overflow duly.Overflow `json:"overflow"`
	Groups   []storedGroup `json:"groups,omitempty"`
}

// storedGroup is a group in a stored configuration. Made is a string, because Lua would round a
// number of this size.
type storedGroup struct {
	Name    string          `json:"name"`
	Birth   string          `json:"birth"`
	Made    string          `json:"made"`
	Since   int64           `json:"since"`
	From    string          `json:"from"`
	At      []int64         `json:"at,omitempty"`
	Gone    bool            `json:"gone,omitempty"`
	Order   duly.GroupOrder `json:"order"`
	MaxHeld int             `json:"max_held"`
	Filter  duly.Filter     `json:"filter"`
	Idle    time.Duration   `json:"idle"`
	Target  string          `json:"target"`
	storedConfig
}

// storePush returns the stored form of a push queue's settings. It returns nil for a pull queue.
func storePush(c duly.QueueConfig) *storedPush {
	if c.Delivery != duly.DeliverPush {
		return nil
	}
	p := c.Push
	// Callers see NoDestination, which is stored as an empty text.
	for _, text := range []*string{&p.URL, &p.OnDone, &p.OnDead} {
		if *text == duly.NoDestination {
			*text = ""
		}
	}
	return &storedPush{p.URL, p.OnDone, p.OnDead}
}

// read sets the push settings of a configuration from the stored form.
func (p *storedPush) read(c *duly.QueueConfig) {
	if p == nil {
		return
	}
	none := duly.NoDestination
	c.Delivery = duly.DeliverPush
	c.Push = duly.PushConfig{URL: cmp.Or(p.URL, none), OnDone: cmp.Or(p.OnDone, none), OnDead: cmp.Or(p.OnDead, none)}
}

// PackConfig returns the stored form of a configuration: the version, then the JSON.
func PackConfig(version string, c duly.QueueConfig, gone bool) string {
	text, err := json.Marshal(storeConfig(c, gone))
	if err != nil {
		// Marshal can't fail for plain fields.
		panic(err)
	}
	return version + string(text)
}

func storeConfig(c duly.QueueConfig, gone bool) storedConfig {
	d := c.Defaults
	return storedConfig{
		Layout: layout, Gone: gone, Paused: c.Paused, Shards: c.Shards, Tries: d.Tries, MaxStalls: d.MaxStalls,
		Backoff: d.Backoff,
		Lease:   d.Lease, TTL: d.TTL, DeadAge: c.DeadAge, DeadCount: c.DeadCount, MaxJobs: c.MaxJobs, MaxLeased: c.MaxLeased,
		Rate: c.Rate.PerSecond, Burst: c.Rate.Burst, Retain: retainStored(d.Retain), Push: storePush(c),
		Adapt: adaptStored(c.Adapt),
	}
}

// config returns the queue configuration of the stored form.
func (s *storedConfig) config() duly.QueueConfig {
	c := duly.QueueConfig{
		Delivery: duly.DeliverPull, Shards: s.Shards, DeadAge: s.DeadAge, DeadCount: s.DeadCount, MaxJobs: s.MaxJobs,
		MaxLeased: s.MaxLeased, Paused: s.Paused,
		Rate:  duly.Rate{PerSecond: s.Rate, Burst: s.Burst},
		Adapt: duly.Adapt{Floor: cmp.Or(s.Adapt, duly.None)},
		Defaults: duly.Defaults{
			Tries: s.Tries, MaxStalls: s.MaxStalls, Backoff: s.Backoff, Lease: s.Lease, TTL: s.TTL,
			Retain: cmp.Or(s.Retain, duly.None),
		},
	}
	s.Push.read(&c)
	return c
}

// adaptStored returns the stored form of a floor: zero for none.
func adaptStored(a duly.Adapt) float64 {
	if !a.Adaptive() {
		return 0
	}
	return a.Floor
}

// retainStored returns the stored form of a default for Retain: zero for none.
func retainStored(d time.Duration) time.Duration {
	if d == duly.None {
		return 0
	}
	return d
}

// PackTopic returns the configuration of a topic behind its version. born is [Topic.Born].
func PackTopic(version, born string, c duly.TopicConfig, groups []*Group, gone bool) string {
	t := &storedTopic{
		Born: born, Dedupe: c.Dedupe, Keep: c.Keep, MaxAge: c.MaxAge, MaxCount: c.MaxCount, MaxBytes: c.MaxBytes,
		Overflow: c.Overflow,
	}
	for _, g := range groups {
		group := g.Config.Group
		t.Groups = append(t.Groups, storedGroup{
			Name: g.Name, Birth: g.Birth, Made: strconv.FormatUint(g.Made, 10), Since: g.Since, From: g.From, At: g.At,
			Gone:  g.Gone,
			Order: group.Order, MaxHeld: group.MaxHeld, Filter: group.Filter, Idle: group.Idle, Target: group.Target,
			storedConfig: storeConfig(g.Config, false),
		})
	}

	// A topic is stored as a queue with default settings, so shared code can read it.
	queue := contract.DefaultQueueConfig()
	queue.Shards = c.Shards
	s := storeConfig(queue, gone)
	s.Topic = t
	text, err := json.Marshal(s)
	if err != nil {
		// Marshal can't fail for plain fields.
		panic(err)
	}
	return version + string(text)
}

// read parses the part of a stored configuration that only a topic has.
func (s *storedTopic) read(shards int) (*Topic, error) {
	t := &Topic{
		Born: s.Born,
		Config: duly.TopicConfig{
			Shards: shards, Dedupe: s.Dedupe, Keep: s.Keep, MaxAge: s.MaxAge, MaxCount: s.MaxCount, MaxBytes: s.MaxBytes,
			Overflow: s.Overflow,
		},
		views: map[string]*Queue{},
	}
	if err := contract.ValidateTopicConfig(t.Config); err != nil {
		return nil, err
	}
	// Filling in defaults changes it only if a field was missing.
	if contract.PatchTopicConfig(contract.DefaultTopicConfig(), t.Config) != t.Config {
		return nil, contract.Invalid("fields", "are missing")
	}

	for i := range s.Groups {
		g, err := s.Groups[i].read(shards)
		if err != nil {
			return nil, err
		}
		t.Groups = append(t.Groups, g)
	}
	// Find searches by halves.
	slices.SortFunc(t.Groups, func(a, b *Group) int { return cmp.Compare(a.Name, b.Name) })
	return t, nil
}

func (s *storedGroup) read(shards int) (*Group, error) {
	made, err := strconv.ParseUint(s.Made, 10, 64)
	if err != nil {
		return nil, contract.Invalid("made", "is not a number")
	}
	g := &Group{Name: s.Name, Birth: s.Birth, Made: made, Since: s.Since, From: s.From, At: s.At, Gone: s.Gone,
		Config: s.config()}
	g.Config.Shards, g.Config.Delivery = shards, ""
	g.Config.Group = duly.GroupConfig{Order: s.Order, MaxHeld: s.MaxHeld, Filter: s.Filter, Idle: s.Idle, Target: s.Target}
	// Only the name of the group is validated, so any valid name of a topic will do.
	ref := duly.QueueRef{Name: duly.GroupName("t", s.Name)}
	if err := contract.ValidateGroup(ref); err != nil {
		return nil, err
	}
	whole := contract.PatchConfig(contract.DefaultGroupConfig(), g.Config)
	// PatchConfig ignores Paused, so it is copied before comparing.
	if whole.Paused = g.Config.Paused; whole != g.Config {
		return nil, contract.Invalid("fields", "are missing")
	}
	return g, contract.ValidateConfig(g.Config)
}

// pack returns the queue's stored configuration with another version.
func (q *Queue) pack(version string, gone bool) string {
	if q.Topic != nil {
		return PackTopic(version, q.Topic.Born, q.Topic.Config, q.Topic.Groups, gone)
	}
	return PackConfig(version, q.Config, gone)
}

// checkLayout returns an unsupported error for a queue that another version of duly has stored in
// a different layout.
func checkLayout(ref duly.QueueRef, stored int) error {
	switch {
	case stored > layout:
		return contract.Errorf(duly.CodeUnsupported,
			"queue %s is stored in layout %d and this version of duly reads layout %d; use a newer duly",
			ref, stored, layout)
	// 0 means that the configuration is damaged, which the caller reports.
	case stored > 0 && stored < layout:
		return contract.Errorf(duly.CodeUnsupported,
			"queue %s is stored in layout %d and this version of duly reads layout %d; no release has written layout %d: "+
				"choose another prefix in the URL, or let the duly that wrote the queue work its jobs off and destroy it",
			ref, stored, layout, stored)
	}
	return nil
}

// complete returns an error unless a configuration has all its fields, each within its bounds.
func complete(c duly.QueueConfig) error {
	if err := contract.ValidateConfig(c); err != nil {
		return err
	}
	whole := contract.PatchConfig(contract.DefaultQueueConfig(), c)
	// PatchConfig ignores Paused, so it is copied before comparing.
	if whole.Paused = c.Paused; whole != c {
		return contract.Invalid("fields", "are missing")
	}
	return contract.CheckConfig(c)
}

// numberOf returns the number that begins a configuration or a version, or 0 if there is none. It
// counts microseconds: those of the year 9999 are below 2^58.
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

// isTopic reports whether a stored configuration belongs to a topic.
func isTopic(value string) bool { return strings.Contains(value, `,"topic":{`) }

// isPush reports whether a stored configuration belongs to a push queue.
func isPush(value string) bool {
	return strings.Contains(value, `,"push":{`) && !strings.Contains(value, `,"gone":true`)
}
