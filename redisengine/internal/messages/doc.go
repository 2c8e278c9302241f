// Package messages reads and writes the messages of topics as the scripts store them: values in the
// log, places, and answers of scripts about the messages of a group.
//
// A place is a message's ordinal in five bytes and its entry time in six. It is the part of a
// position that a shard stores. docs/redis-layout.md describes the values.
package messages
