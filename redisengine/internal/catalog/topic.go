package catalog

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/redisengine/internal/codec"
	"github.com/dulymq/duly/redisengine/internal/link"
	"github.com/dulymq/duly/redisengine/internal/store"
)

// A topic has an entry in its namespace's list, as a queue has. Its groups are part of
// its configuration, because Publish must know every group. For the calls on a group
// there is a Queue as well, a view of its topic: its shards have the keys of the group.

// Topic is what only a topic has of a Queue.
type Topic struct {
	Config duly.TopicConfig
	// Groups are sorted by name. Those that are Gone are being destroyed.
	Groups []*Group

	mu    sync.Mutex
	views map[string]*Queue
	calls []*TopicCall // by shard, made on first use
}

// Group is a group in the configuration of its topic.
type Group struct {
	Name   string
	Birth  string // random, 16 hex digits
	Made   uint64 // the number of the configuration that made it
	Since  int64  // when that was, in ms
	From   string // where it begins: start, end, time or place
	At     []int64
	Gone   bool
	Config duly.QueueConfig
}

// View is what only the view of a group has of a Queue.
type View struct {
	Topic *Queue
	Group *Group
}

// storedTopic is the part of a stored configuration that only a topic has.
type storedTopic struct {
	Dedupe   time.Duration `json:"dedupe"`
	Keep     time.Duration `json:"keep"`
	MaxAge   time.Duration `json:"max_age"`
	MaxCount int           `json:"max_count"`
	MaxBytes int64         `json:"max_bytes"`
	Overflow duly.Overflow `json:"overflow"`
	Groups   []storedGroup `json:"groups,omitempty"`
}

// storedGroup is a group in a stored configuration. Made is a text, because Lua would
// round it.
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

// PackTopic is the configuration of a topic behind its version.
func PackTopic(version string, c duly.TopicConfig, groups []*Group, gone bool) string {
	t := &storedTopic{Dedupe: c.Dedupe, Keep: c.Keep, MaxAge: c.MaxAge, MaxCount: c.MaxCount, MaxBytes: c.MaxBytes, Overflow: c.Overflow}
	for _, g := range groups {
		group := g.Config.Group
		t.Groups = append(t.Groups, storedGroup{
			Name: g.Name, Birth: g.Birth, Made: strconv.FormatUint(g.Made, 10), Since: g.Since, From: g.From, At: g.At, Gone: g.Gone,
			Order: group.Order, MaxHeld: group.MaxHeld, Filter: group.Filter, Idle: group.Idle, Target: group.Target,
			storedConfig: storeConfig(g.Config, false),
		})
	}

	queue := duly.DefaultQueueConfig()
	queue.Shards = c.Shards
	s := storeConfig(queue, gone)
	s.Topic = t
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // plain fields
	}
	return version + string(text)
}

// isTopic reports whether a stored configuration is that of a topic.
func isTopic(value string) bool { return strings.Contains(value, `,"topic":{`) }

// readTopic reads the part of a stored configuration that only a topic has.
func (s *storedTopic) read(shards int) (*Topic, error) {
	t := &Topic{
		Config: duly.TopicConfig{
			Shards: shards, Dedupe: s.Dedupe, Keep: s.Keep, MaxAge: s.MaxAge, MaxCount: s.MaxCount, MaxBytes: s.MaxBytes, Overflow: s.Overflow,
		},
		views: map[string]*Queue{},
	}
	if err := t.Config.Validate(); err != nil {
		return nil, err
	}
	if duly.DefaultTopicConfig().With(t.Config) != t.Config {
		return nil, duly.Invalid("fields", "are missing")
	}

	for i := range s.Groups {
		g, err := s.Groups[i].read(shards)
		if err != nil {
			return nil, err
		}
		t.Groups = append(t.Groups, g)
	}
	slices.SortFunc(t.Groups, func(a, b *Group) int { return cmp.Compare(a.Name, b.Name) })
	return t, nil
}

func (s *storedGroup) read(shards int) (*Group, error) {
	made, err := strconv.ParseUint(s.Made, 10, 64)
	if err != nil {
		return nil, duly.Invalid("made", "is no number")
	}
	g := &Group{Name: s.Name, Birth: s.Birth, Made: made, Since: s.Since, From: s.From, At: s.At, Gone: s.Gone, Config: s.config()}
	g.Config.Shards, g.Config.Delivery = shards, ""
	g.Config.Group = duly.GroupConfig{Order: s.Order, MaxHeld: s.MaxHeld, Filter: s.Filter, Idle: s.Idle, Target: s.Target}
	ref := duly.QueueRef{Name: duly.GroupName("t", s.Name)}
	if err := ref.ValidateGroup(); err != nil {
		return nil, err
	}
	whole := duly.DefaultGroupConfig().With(g.Config)
	if whole.Paused = g.Config.Paused; whole != g.Config {
		return nil, duly.Invalid("fields", "are missing")
	}
	return g, g.Config.Validate()
}

// Base returns the topic of a view, and any other queue itself.
func (q *Queue) Base() *Queue {
	if q.View != nil {
		return q.View.Topic
	}
	return q
}

// pack is the queue's configuration behind another version.
func (q *Queue) pack(version string, gone bool) string {
	if q.Topic != nil {
		return PackTopic(version, q.Topic.Config, q.Topic.Groups, gone)
	}
	return PackConfig(version, q.Config, gone)
}

// Find returns a group of the topic, nil for none.
func (t *Topic) Find(name string) *Group {
	i, found := slices.BinarySearchFunc(t.Groups, name, func(g *Group, name string) int { return cmp.Compare(g.Name, name) })
	if !found || t.Groups[i].Gone {
		return nil
	}
	return t.Groups[i]
}

// Names lists the groups of the topic.
func (t *Topic) Names() (names []string) {
	for _, g := range t.Groups {
		if !g.Gone {
			names = append(names, g.Name)
		}
	}
	return names
}

// Group returns the view of a group, nil for none.
func (q *Queue) Group(name string) *Queue {
	if q == nil || q.Topic == nil || q.Tomb {
		return nil
	}
	t := q.Topic
	t.mu.Lock()
	defer t.mu.Unlock()
	if v := t.views[name]; v != nil {
		return v
	}
	g := t.Find(name)
	if g == nil {
		return nil
	}

	v := &Queue{
		Ref: duly.QueueRef{Namespace: q.Ref.Namespace, Name: duly.GroupName(q.Ref.Name, name)}, Config: g.Config, Value: q.Value, Version: q.Version,
		View: &View{q, g}, Shards: make([]*Shard, len(q.Shards)),
	}
	for i, s := range q.Shards {
		v.Shards[i] = &Shard{Index: i, Tag: store.GroupTag(s.Tag, name), Base: s.Tag, Limits: packGroup(t.Config, g.Config, i)}
	}
	t.views[name] = v
	return v
}

// packGroup is one shard's part of what the configuration bounds for a group, as
// include/group_head.lua reads it.
func packGroup(t duly.TopicConfig, c duly.QueueConfig, i int) string {
	var w codec.Packer
	w.Array(22)
	packQueueLimits(&w, c, i)
	w.Integer(int64(max(1, duly.ShardPart(c.Group.MaxHeld, c.Shards, i))))
	w.Bool(c.Group.Order == duly.OrderKeys)
	packFilter(&w, c.Group.Filter)
	w.Integer(int64(c.Defaults.Tries))
	w.Integer(int64(c.Defaults.MaxStalls))
	w.Text(codec.ShortBackoff(c.Defaults.Backoff))
	w.Integer(codec.Micros(c.Defaults.Lease))
	w.Integer(codec.MillisOrNone(c.Group.Idle))
	packRetention(&w, t, i, c.Group.Idle != duly.None)
	return string(w)
}

// packFilter packs names and values in turn, and false for no filter.
func packFilter(w *codec.Packer, f duly.Filter) {
	conditions, err := f.Conditions()
	if err != nil || len(conditions) == 0 { // it was validated
		w.No()
		return
	}
	w.Array(2 * len(conditions))
	for _, c := range conditions {
		w.Text(c.Name)
		w.Text(c.Value)
	}
}

// packRetention packs what include/log.lua reads by bind_retention.
func packRetention(w *codec.Packer, t duly.TopicConfig, i int, idle bool) {
	w.Integer(codec.MillisOrNone(t.Keep))
	w.Integer(codec.MillisOrNone(t.MaxAge))
	w.Integer(int64(duly.ShardPart(t.MaxCount, t.Shards, i)))
	w.Integer(int64(duly.ShardPart(int(t.MaxBytes), t.Shards, i)))
	w.Bool(t.Overflow == duly.OverflowDrop)
	w.Bool(idle || t.Keep > 0 || t.MaxAge > 0 || t.MaxCount > 0 || t.MaxBytes > 0)
}

// TopicCall is what the calls on a topic's shard need of its groups.
type TopicCall struct {
	Limits string   // what the configuration bounds, packed
	Groups string   // the names of the groups that Publish wakes, packed
	Keys   []string // the topic's keys, and the markers of these groups
}

// TopicCall returns what the calls on a shard of a topic need.
func (q *Queue) TopicCall(s *Shard) *TopicCall {
	t := q.Topic
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.calls == nil {
		t.calls = make([]*TopicCall, len(q.Shards))
	}
	if c := t.calls[s.Index]; c != nil {
		return c
	}

	c := &TopicCall{Keys: store.LogKeys(store.TopicKeys, s.Tag, "")}
	var limits, names codec.Packer
	limits.Array(7)
	limits.Integer(codec.MillisOrNone(t.Config.Dedupe))
	packRetention(&limits, t.Config, s.Index, false)
	var woken []string
	for _, g := range t.Groups {
		if !g.Gone && !g.Config.Paused {
			woken = append(woken, g.Name)
			c.Keys = append(c.Keys, store.GroupTag(s.Tag, g.Name)+"marker")
		}
	}
	names.Array(len(woken))
	for _, name := range woken {
		names.Text(name)
	}
	c.Limits, c.Groups = string(limits), string(names)
	t.calls[s.Index] = c
	return c
}

// configureCall gives a shard the configuration of its queue.
func (e *Catalog) configureCall(q *Queue, s *Shard) link.Call {
	if q.Topic == nil {
		return link.Call{Script: store.ScriptConfigure.Script, Keys: s.of(store.ScriptConfigure), Args: []string{e.Clock(), q.Value, s.Limits}}
	}
	sc := store.ScriptTopicConfigure
	c := link.Call{Script: sc.Script, Keys: sc.Names(s.Tag, ""), Args: []string{e.Clock(), q.Value}}
	for _, g := range q.Topic.Groups {
		c.Keys = append(c.Keys, store.LogKeys(store.GroupKeys, "", store.GroupTag(s.Tag, g.Name))...)
		at, gone := "", "0"
		if s.Index < len(g.At) {
			at = strconv.FormatInt(g.At[s.Index], 10)
		}
		if g.Gone {
			gone = "1"
		}
		c.Args = append(c.Args, g.Name, g.Birth, strconv.FormatUint(g.Made, 10), strconv.FormatInt(g.Since, 10), g.fromIn(s.Index), at, gone,
			packGroup(q.Topic.Config, g.Config, s.Index))
	}
	return c
}

// fromIn is where the group begins in a shard. A position is a place in its own shard,
// and a time in the others.
func (g *Group) fromIn(shard int) string {
	if at, ok := strings.CutPrefix(g.From, "place"); ok {
		if at == strconv.Itoa(shard) {
			return "place"
		}
		return "time"
	}
	return g.From
}

// destroyCall empties one shard of a topic that is to go.
func destroyTopicCall(q *Queue, s *Shard) link.Call {
	c := link.Call{Script: store.ScriptTopicDestroy.Script, Keys: store.LogKeys(store.TopicKeys, s.Tag, ""), Args: []string{q.Value}}
	for _, g := range q.Topic.Groups {
		c.Keys = append(c.Keys, store.LogKeys(store.GroupKeys, "", store.GroupTag(s.Tag, g.Name))...)
	}
	return c
}

// ListKey is the list that has the names of what a configuration is for.
func (e *Catalog) ListKey(namespace string, values ...string) string {
	if slices.ContainsFunc(values, isTopic) {
		return e.TopicsKey(namespace)
	}
	return e.NamesKey(namespace)
}

// CreateTopic finds a topic or creates it. It returns a queue of that name as well.
func (e *Catalog) CreateTopic(ctx context.Context, ref duly.QueueRef, cfg duly.TopicConfig) (*Queue, error) {
	return e.create(ctx, ref, func(version string) string { return PackTopic(version, cfg, nil, false) })
}

// TopicConfig returns the configuration of a topic that was never configured.
func (e *Catalog) TopicConfig() duly.TopicConfig {
	c := duly.DefaultTopicConfig()
	c.Shards = e.Settings.Shards
	return c
}

// NewGroup returns a group that the configuration with this version makes.
func NewGroup(name, version string, cfg duly.QueueConfig, now time.Time) *Group {
	birth := hex.EncodeToString([]byte(newMark()))
	return &Group{Name: name, Birth: birth, Made: numberOf(version), Since: clock.Milli(now), Config: cfg}
}

// ReplaceTopic stores another configuration of a topic in place of the one that was
// read, and returns nil if that one is no longer there. The script is ScriptQueuePut or
// ScriptQueueSet.
func (e *Catalog) ReplaceTopic(ctx context.Context, sc *store.Script, q *Queue, version string, cfg duly.TopicConfig, groups []*Group) (*Queue, error) {
	return e.Put(ctx, sc, q.Ref, q.Value, PackTopic(version, cfg, groups, false))
}

// CallTopic runs a script on a shard of a topic. Clock and version come first.
func (e *Catalog) CallTopic(ctx context.Context, q *Queue, s *Shard, sc *store.LogScript, args ...string) (Reply, error) {
	return e.run(ctx, q, s, link.Call{Script: sc.Script, Keys: sc.Names(s.Tag, ""), Args: args})
}

// StepTopic moves a shard of a topic forward by the clock, without its groups.
func (e *Catalog) StepTopic(ctx context.Context, q *Queue, s *Shard) (more bool, err error) {
	c := q.TopicCall(s)
	r, err := e.run(ctx, q, s, link.Call{Script: store.ScriptTopicStep.Script, Keys: c.Keys, Args: []string{c.Limits, c.Groups}})
	return err == nil && codec.Integer(&r.Rest[0]) == 1, err
}

// CallGroup runs a script on a shard of a group. Clock, version, limits and the group's
// name come first. A script that answers "behind" is repeated: one that only reads after
// a step.
func (e *Catalog) CallGroup(ctx context.Context, q *Queue, s *Shard, sc *store.LogScript, args ...string) (Reply, error) {
	for {
		r, err := e.CallGroupOnce(ctx, q, s, sc, false, args...)
		if err != nil || r.Word != "behind" {
			return r, err
		}
		if sc.ReadOnly {
			if _, err := e.CallGroupOnce(ctx, q, s, store.ScriptGroupStep, false, "0"); err != nil {
				return r, err
			}
		}
	}
}

// CallGroupOnce is CallGroup without repeats. once is that of [link.Call].
func (e *Catalog) CallGroupOnce(ctx context.Context, q *Queue, s *Shard, sc *store.LogScript, once bool, args ...string) (Reply, error) {
	return e.run(ctx, q, s, link.Call{Script: sc.Script, Keys: sc.Names(s.Base, s.Tag), Args: append([]string{s.Limits, q.View.Group.Name}, args...), Once: once})
}

// WriteGroup is Write for a group.
func (e *Catalog) WriteGroup(ctx context.Context, q *Queue, s *Shard, sc *store.LogScript, args ...string) (r Reply, durable, err error) {
	all := append([]string{e.Clock(), q.Version, s.Limits, q.View.Group.Name}, args...)
	for {
		r, durable, err = e.write(ctx, s, link.Call{Script: sc.Script, Keys: sc.Names(s.Base, s.Tag), Args: slices.Clone(all)})
		if err != nil || r.Word != "behind" {
			return r, durable, err
		}
	}
}

// WriteTopic is Write for a topic, by a script that wakes its groups.
func (e *Catalog) WriteTopic(ctx context.Context, q *Queue, s *Shard, sc *store.LogScript, waited bool, args ...string) (r Reply, durable, err error) {
	c := q.TopicCall(s)
	all := append([]string{e.Clock(), q.Version, c.Limits, c.Groups}, args...)
	return e.write(ctx, s, link.Call{Script: sc.Script, Keys: c.Keys, Args: all, Waited: waited})
}

// StepShard makes one step in a shard of a queue or a group. It returns the clock and
// the end of the first lease, 0 for none, in ms.
func (e *Catalog) StepShard(ctx context.Context, q *Queue, s *Shard) (more bool, now, first int64, err error) {
	if q.View != nil {
		return e.StepGroup(ctx, q, s, true)
	}
	r, err := e.Call(ctx, q, s, store.ScriptStep, s.Limits)
	return readStep(r, err)
}

// StepGroup is StepShard for a group. Without trim it leaves the log as it is.
func (e *Catalog) StepGroup(ctx context.Context, q *Queue, s *Shard, trim bool) (more bool, now, first int64, err error) {
	kind := "2"
	if trim {
		kind = "1"
	}
	for {
		r, err := e.CallGroupOnce(ctx, q, s, store.ScriptGroupStep, false, kind)
		if err != nil || r.Word != "behind" {
			return readStep(r, err)
		}
	}
}

func readStep(r Reply, err error) (more bool, now, first int64, _ error) {
	if err != nil {
		return false, 0, 0, err
	}
	return codec.Integer(&r.Rest[0]) == 1, codec.Integer(&r.Rest[1]), codec.Integer(&r.Rest[2]), nil
}

// WithGroup does something with a group that must be there, as With does.
func (e *Catalog) WithGroup(ctx context.Context, ref duly.QueueRef, f func(q *Queue) error) error {
	return e.With(ctx, ref, func(q *Queue) error {
		if q == nil {
			return e.Unknown(ctx, ref)
		}
		return f(q)
	})
}

// WithTopic does something with a topic that must be there.
func (e *Catalog) WithTopic(ctx context.Context, ref duly.QueueRef, f func(q *Queue) error) error {
	return e.with(ctx, ref, func(q *Queue) error {
		if q == nil || q.Topic == nil {
			return duly.NoTopic(ref)
		}
		return f(q)
	})
}

// Unknown returns the error for a group that is not known.
func (e *Catalog) Unknown(ctx context.Context, ref duly.QueueRef) error {
	topic, _, _ := ref.Group()
	q, err := e.Find(ctx, topic)
	switch {
	case err != nil:
		return err
	case q == nil || q.Topic == nil:
		return duly.NoTopic(topic)
	}
	return duly.NoGroup(ref)
}

// known are the views that are in use.
func (t *Topic) known() []*Queue {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Values(t.views))
}
