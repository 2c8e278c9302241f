package catalog

import (
	"slices"
	"strconv"
	"strings"

	"github.com/dulymq/duly/redisengine/internal/link"
	"github.com/dulymq/duly/redisengine/internal/store"
)

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

// DestroyCall empties one shard of a queue that is to go.
func DestroyCall(q *Queue, s *Shard) link.Call {
	if q.Topic != nil {
		return destroyTopicCall(q, s)
	}
	return link.Call{Script: store.ScriptDestroy.Script, Keys: s.of(store.ScriptDestroy), Args: []string{q.Value}}
}

// destroyTopicCall empties one shard of a topic that is to go.
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
