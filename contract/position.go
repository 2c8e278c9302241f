package contract

import (
	"encoding/binary"
	"hash/crc32"
	"time"

	"github.com/dulymq/duly"
)

// MaxOrdinal is the largest ordinal of a message.
const MaxOrdinal = 1<<40 - 1

// PositionParts are the parts of a position.
type PositionParts struct {
	// Millis is the entry time in ms since 1970.
	Millis int64
	// Ordinal is the sequence number of the message in its shard, from 1.
	Ordinal uint64
	Shard   int
	// Topic is the checksum of the topic's name, see [TopicChecksum].
	Topic uint32
}

// TopicChecksum returns the CRC-32 (IEEE) of "NAMESPACE/TOPIC".
func TopicChecksum(topic duly.QueueRef) uint32 {
	// Each receipt of a group is checked with it. crc32.ChecksumIEEE would allocate its argument.
	crc := ^uint32(0)
	for _, part := range [...]string{NamespaceOr(topic.Namespace), "/", topic.Name} {
		for i := range len(part) {
			crc = crc32.IEEETable[byte(crc)^part[i]] ^ crc>>8
		}
	}
	return ^crc
}

// Position returns the position with these parts.
func (p PositionParts) Position() (n duly.Position) {
	binary.BigEndian.PutUint64(n[:8], uint64(p.Millis)<<16|p.Ordinal>>24&0xffff)
	binary.BigEndian.PutUint32(n[7:11], uint32(p.Ordinal))
	n[6] = byte(p.Ordinal >> 32)
	// Byte 11 names the shard in every number, see duly.Number.Part.
	n[11] = byte(p.Shard)
	binary.BigEndian.PutUint32(n[12:], p.Topic)
	return n
}

// PositionPartsOf splits a position into its parts. It accepts any number: compare Topic
// with [TopicChecksum] to learn whether the number is a position of that topic.
func PositionPartsOf(n duly.Position) PositionParts {
	return PositionParts{
		Millis:  int64(binary.BigEndian.Uint64(n[:8]) >> 16),
		Ordinal: uint64(n[6])<<32 | uint64(binary.BigEndian.Uint32(n[7:11])),
		Shard:   int(n.Part()),
		Topic:   binary.BigEndian.Uint32(n[12:]),
	}
}

// EnteredAt returns the entry time that a position carries.
func (p PositionParts) EnteredAt() time.Time { return time.UnixMilli(p.Millis).UTC() }
