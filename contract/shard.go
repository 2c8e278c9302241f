package contract

import (
	"hash/crc32"

	"github.com/dulymq/duly"
)

// ShardOf returns the shard of a job with this ID, in a queue with that many shards, which is
// a power of two. It reads byte 11 of a ULID, and the CRC-32 (IEEE) of any other ID.
func ShardOf(id string, shards int) int {
	if n, ok := duly.ParseNumber(id); ok {
		return int(n.Part()) % shards
	}
	return int(crc32.ChecksumIEEE([]byte(id)) % uint32(shards))
}

// KeyShard returns the shard of the messages with a key, or of the jobs with an order key, in a topic or a
// queue with that many shards.
func KeyShard(key string, shards int) int { return int(duly.KeyPart(key)) % shards }

// MessageShard returns the shard of a message in a topic with this configuration. It returns false
// if the message may go to any shard. In that case the engine chooses one shard for the whole call.
func MessageShard(m *duly.Message, c duly.TopicConfig, delayed bool) (shard int, fixed bool) {
	switch {
	case c.Shards < 2:
		return 0, true
	case m.Key != "":
		return KeyShard(m.Key, c.Shards), true
	case m.ID == "":
		return 0, false
	// Messages with the same ID must meet in the shard that remembers the ID.
	case c.Dedupe > 0:
		return KeyShard(m.ID, c.Shards), true
	// CancelDelayed must find the message by its ID.
	case delayed:
		return ShardOf(m.ID, c.Shards), true
	}
	return 0, false
}

// DelayedShards returns the shards that can have a delayed message with this key and ID.
// There are two if the shard depends on whether the topic had a Dedupe at the Publish.
func DelayedShards(key, id string, shards int) []int {
	if key != "" {
		return []int{KeyShard(key, shards)}
	}
	first, second := ShardOf(id, shards), KeyShard(id, shards)
	if first == second {
		return []int{first}
	}
	return []int{first, second}
}

// ShardPart returns the part of a limit that shard i enforces. The parts of all shards add up to
// the limit. The part of [duly.None] is None.
func ShardPart(limit, shards, i int) int {
	if limit == duly.None {
		return duly.None
	}
	part := limit / shards
	// The first shards share the remainder, so that the parts add up to the limit.
	if i < limit%shards {
		part++
	}
	return part
}

// CheckShard returns [duly.ErrInvalid] for a valid job whose key and ID name different shards. All
// jobs of a key are in one shard, and operations by ID must find the job there. A job without an ID
// gets an ID that fits.
func CheckShard(j *duly.Job, shards int) error {
	if shards < 2 || j.ID == "" {
		return nil
	}
	key := j.ShardKey()
	if n, ok := duly.ParseNumber(j.ID); key == "" || ok && n.Part() == duly.KeyPart(key) {
		return nil
	}
	return Invalid("id", "does not fit the job's order or merge key, which decides the shard in this queue of %d shards; "+
		"leave it out, or let duly's client make it for this key", shards)
}
