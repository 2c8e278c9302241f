package redisengine

import (
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/redisengine/internal/link"
	"github.com/dulymq/duly/redisengine/lua"
)

// shardKeys are the kinds of keys that every shard has, by the names that the
// scripts give them. docs/redis-layout.md explains each.
var shardKeys = [...]string{
	"config", "records", "bodies", "policies", "run", "alias", "delayed", "ready", "blocked", "leased", "dead", "done", "busy", "expiry", "marker", "tally",
}

// keyKinds are what the keys hold, by the ends of their names.
var keyKinds = map[string]link.Kind{
	"config": link.Text, "records": link.Hash, "bodies": link.Hash, "policies": link.Hash, "run": link.Hash, "alias": link.Hash, "busy": link.Hash, "tally": link.Hash,
	"delayed": link.SortedSet, "ready": link.SortedSet, "blocked": link.SortedSet, "leased": link.SortedSet, "dead": link.SortedSet, "done": link.SortedSet,
	"expiry": link.SortedSet, "marker": link.SortedSet,
	"queues": link.SortedSet, "configs": link.Hash, "birth": link.Text, "namespaces": link.SortedSet,
	"tokens": link.Hash, "hashes": link.SortedSet, "owned": link.SortedSet, "windows": link.Hash, "changes": link.Text, "placements": link.Hash, "placed": link.SortedSet,
	"libraries": link.Hash,
}

// kindOf is what a key is to hold.
func kindOf(key string) link.Kind { return keyKinds[key[strings.LastIndexByte(key, ':')+1:]] }

// script is a command of the scripts, ready to be called.
type script struct {
	*link.Script
	keys   []string
	places []int // of the keys, in shardKeys
	all    bool  // all of shardKeys, in their order
}

func load(name string) *script {
	loaded, keys := loadAny(name)
	s := &script{Script: loaded, keys: keys, all: slices.Equal(keys, shardKeys[:])}
	for _, key := range keys {
		s.places = append(s.places, slices.Index(shardKeys[:], key))
	}
	return s
}

// loadAny loads a command, with the names of its keys.
func loadAny(name string) (*link.Script, []string) {
	l := lua.Load(name)
	s := link.NewScript(l.Name, l.Source, l.ReadOnly)
	s.Takes = l.Takes
	s.Library, s.Function = functionLibrary(l.Library), l.Function
	return s, l.Keys
}

// functionLibraries are the libraries that the engine's scripts are functions of.
var functionLibraries = func() (all []*link.Library) {
	for _, l := range lua.Libraries() {
		all = append(all, &link.Library{Name: l.Name, Source: l.Source})
	}
	return all
}()

// functionLibrary is a library as the link loads it.
func functionLibrary(l *lua.Library) *link.Library {
	at := slices.IndexFunc(functionLibraries, func(f *link.Library) bool { return f.Name == l.Name })
	return functionLibraries[at]
}

// The commands.
var (
	scriptPush      = load("push")
	scriptReserve   = load("reserve")
	scriptSettle    = load("settle")
	scriptExtend    = load("extend")
	scriptStep      = load("step")
	scriptGet       = load("get")
	scriptPeek      = load("peek")
	scriptList      = load("list")
	scriptStats     = load("stats")
	scriptLook      = load("look")
	scriptDelete    = load("delete")
	scriptPromote   = load("promote")
	scriptUpdate    = load("update")
	scriptRequeue   = load("requeue")
	scriptPurge     = load("purge")
	scriptConfigure = load("configure")
	scriptDestroy   = load("destroy")
	scriptQueuePut  = load("queue_put")
	scriptQueueSet  = load("queue_set")
	scriptMark      = load("mark")

	scriptHolding    = load("holding")
	scriptOverdue    = load("overdue")
	scriptIdle       = load("idle")
	scriptCheckList  = load("check_list")
	scriptCheckPage  = load("check_page")
	scriptCheckJob   = load("check_job")
	scriptCheckEntry = load("check_entry")
	scriptCheckShard = load("check_shard")
)

// lookKeys are the keys of one shard that look reads.
var lookKeys = []string{"config", "delayed", "ready", "blocked", "leased", "expiry", "tally"}

// shard is one part of a queue. The names of all its keys begin with one hash
// tag, so they live on one node and one script may touch them.
type shard struct {
	index  int
	tag    string
	limits string // what the configuration bounds here, packed for the scripts
	// met is above 0 if it has this configuration, as far as this process knows.
	// When that turns out wrong it is the same number below 0, until it is met
	// again, with the next number.
	met atomic.Int64
	// emptied is 1 more than when a Reserve was sent that has left nothing here,
	// on the monotonic clock; 0 once somebody waits, or has it.
	emptied atomic.Int64
	gear    atomic.Pointer[gear] // nil while nobody uses it
}

// shardTag is what the names of a shard's keys begin with.
func shardTag(prefix string, ref duly.QueueRef, index int) string {
	return prefix + ":{" + ref.Namespace + "/" + ref.Name + "/" + strconv.Itoa(index) + "}:"
}

// appendKeys appends the names of a shard's keys, all of one text: whoever looks
// at every queue makes many.
func appendKeys(to []string, tag string, keys []string) []string {
	size := 0
	for _, key := range keys {
		size += len(tag) + len(key)
	}
	var b strings.Builder
	b.Grow(size)
	for _, key := range keys {
		b.WriteString(tag)
		b.WriteString(key)
	}
	rest := b.String()
	for _, key := range keys {
		n := len(tag) + len(key)
		to, rest = append(to, rest[:n]), rest[n:]
	}
	return to
}

func (s *shard) name(key string) string {
	if g := s.gear.Load(); g != nil {
		return g.name(key)
	}
	return s.tag + key
}

// of lists the keys that a script wants.
func (s *shard) of(sc *script) []string {
	g := s.gear.Load()
	if g != nil && sc.all {
		return g.names
	}
	keys := make([]string, 0, len(sc.keys))
	if g == nil {
		return appendKeys(keys, s.tag, sc.keys)
	}
	for _, k := range sc.places {
		keys = append(keys, g.names[k])
	}
	return keys
}

// The keys of a namespace and of the store.
func (e *Engine) namesKey(namespace string) string { return e.prefix + ":{" + namespace + "}:queues" }
func (e *Engine) configsKey(namespace string) string {
	return e.prefix + ":{" + namespace + "}:configs"
}
func (e *Engine) namespacesKey() string { return e.prefix + ":namespaces" }
