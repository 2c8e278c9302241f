package store

import (
	"strings"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/hashslot"
)

// ShardKeys has the kinds of keys of every shard, by their names in the scripts.
// docs/redis-layout.md explains each kind.
var ShardKeys = [...]string{
	"config", "records", "bodies", "policies", "run", "alias", "delayed", "ready", "blocked", "leased", "dead",
	"done", "busy", "expiry", "marker", "tally", "schedules", "ticks",
}

// ShardTag returns the beginning of the names of a shard's keys: the prefix and the shard's hash
// tag.
func ShardTag(prefix string, ref duly.QueueRef, index int) string {
	return prefix + ":{" + hashslot.ShardTag(ref, index) + "}:"
}

// AppendKeys appends the names of a shard's keys. They share one text, because a sweep needs many
// of them.
func AppendKeys(to []string, tag string, keys []string) []string {
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

// NamesKey returns the key of a namespace's list of queues.
func (e *Store) NamesKey(namespace string) string { return e.Prefix + ":{" + namespace + "}:queues" }

// ConfigsKey returns the key of the configurations of a namespace's queues.
func (e *Store) ConfigsKey(namespace string) string {
	return e.Prefix + ":{" + namespace + "}:configs"
}

// NamespacesKey returns the key of the list of namespaces.
func (e *Store) NamespacesKey() string { return e.Prefix + ":namespaces" }

// TokenKey returns the key for a name in the scripts. A namespace called tokens has the same hash
// tag, but keys with other names.
func (e *Store) TokenKey(name string) string { return e.Prefix + ":{tokens}:" + name }
