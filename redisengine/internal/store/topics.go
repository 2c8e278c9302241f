package store

import (
	"slices"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/redisengine/internal/link"
)

// TopicKeys has the kinds of keys of every shard of a topic. GroupKeys has the kinds of keys that
// each group adds in every shard. docs/redis-layout.md explains each kind.
var (
	TopicKeys = []string{"config", "log", "heads", "delayed", "entries", "records", "ids", "seen"}
	GroupKeys = []string{
		"marker", "ranges", "firsts", "blocks", "leased", "ready", "waiting", "blocked", "held", "run", "busy",
		"dead", "copies", "tally", "consumers",
	}
)

// GroupTag returns the beginning of the names of a group's keys in a shard. tag is the topic's in
// that shard.
func GroupTag(tag, group string) string { return tag + "@" + group + ":" }

// TopicsKey returns the key of a namespace's list of topics.
func (e *Store) TopicsKey(namespace string) string { return e.Prefix + ":{" + namespace + "}:topics" }

// LogScript is a command on a topic or on a group.
type LogScript struct {
	*link.Script
	Keys []string
}

func loadLog(name string) *LogScript {
	s, keys := LoadAny(name)
	return &LogScript{s, keys}
}

// Names returns the script's keys in a shard of a topic, given the tags of the topic and of the
// group.
func (s *LogScript) Names(topic, group string) []string { return LogKeys(s.Keys, topic, group) }

// LogKeys returns the keys with the given kinds: those of a topic's shard, and those of a group in
// it.
func LogKeys(kinds []string, topic, group string) []string {
	names := make([]string, len(kinds))
	for i, kind := range kinds {
		if slices.Contains(TopicKeys, kind) {
			names[i] = topic + kind
		} else {
			names[i] = group + kind
		}
	}
	return names
}

// These are the commands on topics and groups.
var (
	ScriptTopicPublish   = loadLog("topic_publish")
	ScriptTopicRead      = loadLog("topic_read")
	ScriptTopicStep      = loadLog("topic_step")
	ScriptTopicStats     = loadLog("topic_stats")
	ScriptTopicDelayed   = loadLog("topic_delayed")
	ScriptTopicMessage   = loadLog("topic_message")
	ScriptTopicCancel    = loadLog("topic_cancel")
	ScriptTopicConfigure = loadLog("topic_configure")
	ScriptTopicDestroy   = loadLog("topic_destroy")
	ScriptTopicCheck     = loadLog("topic_check")
	ScriptGroupReserve   = loadLog("group_reserve")
	ScriptGroupSettle    = loadLog("group_settle")
	ScriptGroupExtend    = loadLog("group_extend")
	ScriptGroupStep      = loadLog("group_step")
	ScriptGroupLook      = loadLog("group_look")
	ScriptGroupSeek      = loadLog("group_seek")
	ScriptGroupList      = loadLog("group_list")
	ScriptGroupGet       = loadLog("group_get")
	ScriptGroupStats     = loadLog("group_stats")
	ScriptGroupDelete    = loadLog("group_delete")
	ScriptGroupPurge     = loadLog("group_purge")
	ScriptGroupRequeue   = loadLog("group_requeue")
	ScriptGroupCheck     = loadLog("group_check")
	ScriptGroupSlow      = loadLog("group_slow")
)

// InvalidTopic reports whether a topic can't have this name.
func InvalidTopic(name string) bool { return contract.ValidateTopic(duly.QueueRef{Name: name}) != nil }

// LookKeys are the keys of a group that the group_look script reads.
var LookKeys = []string{"config", "log", "heads", "entries", "ready", "waiting", "blocked", "ranges", "leased", "tally"}
