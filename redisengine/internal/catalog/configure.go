package catalog

import (
	"slices"
	"strconv"
	"strings"

	"github.com/dulymq/duly/redisengine/internal/link"
	"github.com/dulymq/duly/redisengine/internal/store"
)

// configureCall returns the call that stores the queue's configuration in a shard.
func (e *Catalog) configureCall(q *Queue, s *Shard) link.Call {
	if q.Topic == nil {
		return link.Call{Script: store.ScriptConfigure.Script, Keys: s.of(store.ScriptConfigure),
			Args: []string{e.Clock(), q.Value, s.Limits}}
	}
	sc := store.ScriptTopicConfigure
	c := link.Call{Script: sc.Script, Keys: sc.Names(s.Tag, ""), Args: []string{e.Clock(), q.Value}}
	for _, g := range q.Topic.Groups {
		c.Keys = append(c.Keys, store.LogKeys(store.GroupKeys, "", store.GroupTag(s.Tag, g.Name))...)
		// A group that starts at a position gets one position for each shard.
		at, gone := "", "0"
		if s.Index < len(g.At) {
			at = strconv.FormatInt(g.At[s.Index], 10)
		}
		if g.Gone {
			gone = "1"
		}
		c.Args = append(c.Args, g.Name, g.Birth, strconv.FormatUint(g.Made, 10), strconv.FormatInt(g.Since, 10),
			g.fromIn(s.Index), at, gone,
			packGroup(q.Topic.Config, g.Config, s.Index))
	}
	return c
}

// fromIn returns where the group begins in a shard. A position applies to its own shard. In the
// other shards the group begins at the time of the position.
func (g *Group) fromIn(shard int) string {
	if at, ok := strings.CutPrefix(g.From, "place"); ok {
		if at == strconv.Itoa(shard) {
			return "place"
		}
		return "time"
	}
	return g.From
}

// DestroyCall returns the call that empties one shard of a queue being destroyed.
func DestroyCall(q *Queue, s *Shard) link.Call {
	if q.Topic != nil {
		return destroyTopicCall(q, s)
	}
	return link.Call{Script: store.ScriptDestroy.Script, Keys: s.of(store.ScriptDestroy), Args: []string{q.Value}}
}

// destroyTopicCall returns the call that empties one shard of a topic being destroyed.
func destroyTopicCall(q *Queue, s *Shard) link.Call {
	c := link.Call{Script: store.ScriptTopicDestroy.Script, Keys: store.LogKeys(store.TopicKeys, s.Tag, ""),
		Args: []string{q.Value}}
	for _, g := range q.Topic.Groups {
		c.Keys = append(c.Keys, store.LogKeys(store.GroupKeys, "", store.GroupTag(s.Tag, g.Name))...)
	}
	return c
}

// ListKey returns the key of the list of names that these configurations belong to.
func (e *Catalog) ListKey(namespace string, values ...string) string {
	if slices.ContainsFunc(values, isTopic) {
		return e.TopicsKey(namespace)
	}
	return e.NamesKey(namespace)
}
