package link

import "strings"

// slots is the number of hash slots of a cluster.
const slots = 1 << 14

// hashTag is the part of a key that decides on its slot: what its first braces
// hold, or all of it where that is nothing.
func hashTag(key string) string {
	if _, rest, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(rest, "}"); ok && tag != "" {
			return tag
		}
	}
	return key
}

// slot is the hash slot of a key: CRC-16/XMODEM of its hash tag.
func slot(key string) uint16 {
	var crc uint16
	for _, b := range []byte(hashTag(key)) {
		crc ^= uint16(b) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return crc % slots
}
