package hashslot

import (
	"math/bits"
	"strconv"
	"strings"
	"sync"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// Slots is the number of hash slots of a cluster.
const Slots = 1 << 14

// Of returns the hash slot of a key: the CRC-16/XMODEM of the key's hash tag, modulo Slots.
func Of(key string) uint16 { return sum(0, TagOf(key)) % Slots }

// TagOf returns the part of a key that decides its slot: the text in its first braces, or the whole
// key if there are no braces.
func TagOf(key string) string {
	if _, rest, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(rest, "}"); ok && tag != "" {
			return tag
		}
	}
	return key
}

// sum continues the CRC of a string with more text. The CRC of an empty string is 0.
func sum[T string | []byte](crc uint16, text T) uint16 {
	for i := range len(text) {
		crc ^= uint16(text[i]) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return crc
}

// ShardTag returns the hash tag of a shard's keys: NAMESPACE/QUEUE/0 for the first shard, and
// NAMESPACE/QUEUE/N.xxxx for each other shard. The four characters are chosen so that the tag has
// the shard's slot.
//
// The shards' slots are spaced evenly over all slots of a cluster, starting at the first shard's
// slot, for any power of two. So each of three nodes has two or three of eight shards.
func ShardTag(ref duly.QueueRef, index int) string {
	name := contract.NamespaceOr(ref.Namespace) + "/" + ref.Name + "/"
	if index == 0 {
		return name + "0"
	}
	// Reversed bits spread any number of first shards evenly.
	slot := sum(0, name+"0") + bits.Reverse16(uint16(index))>>2
	name += strconv.Itoa(index) + "."
	return name + suffixFor(name, slot)
}

// suffixFor returns the four characters that give a hash tag with this beginning the slot. A CRC
// is linear: the CRC of text+suffix is the CRC of the text followed by as many zero bytes, XOR
// the CRC of the suffix.
func suffixFor(begins string, slot uint16) string {
	zeros := sum(sum(0, begins), "\x00\x00\x00\x00")
	return string(suffixes()[(slot^zeros)%Slots][:])
}

// suffixes returns a suffix for each slot: the first text of digits and lowercase letters whose
// CRC has that slot.
var suffixes = sync.OnceValue(func() *[Slots][4]byte {
	const letters = "0123456789abcdefghijklmnopqrstuvwxyz"
	var all [Slots][4]byte
	left := len(all)
	for n := 0; left > 0; n++ {
		var s [4]byte
		for i, rest := 3, n; i >= 0; i, rest = i-1, rest/len(letters) {
			s[i] = letters[rest%len(letters)]
		}
		if to := &all[sum(0, s[:])%Slots]; to[0] == 0 {
			*to = s
			left--
		}
	}
	return &all
})
