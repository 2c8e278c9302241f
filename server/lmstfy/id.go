package lmstfy

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
)

// An ID is a ULID whose last four bytes are the delay in seconds, little
// endian; with attributes switched on, one digit stands before it. The
// milliseconds and the place in the process's order are those of a number of
// duly's, so a job's ID can be its number, and published in order is served in
// order.
const version = "1"

func newID(delay uint64, versioned bool) string {
	id := withDelay(duly.NewNumber(), uint32(delay)).String()
	if versioned {
		return version + id
	}
	return id
}

func withDelay(n duly.Number, delay uint32) duly.Number {
	binary.LittleEndian.PutUint32(n[12:], delay)
	return n
}

// madeAt is the moment that an ID tells, false where it tells none.
func madeAt(id string) (time.Time, bool) {
	if len(id) == len(version)+26 && id[:len(version)] == version {
		id = id[len(version):]
	}
	n, ok := duly.ParseNumber(id)
	return clock.FromMilli(int64(binary.BigEndian.Uint64(n[:8]) >> 16)), ok
}

// elapsed is for how long a job has been published, in milliseconds. Its ID
// knows that better than its push where it was respawned since.
func elapsed(id string, pushedAt, now time.Time) int64 {
	if t, ok := madeAt(id); ok && t.Before(pushedAt) {
		pushedAt = t
	}
	return max(0, now.Sub(pushedAt).Milliseconds())
}

// remaining is the rest of a ttl in whole seconds, to the nearest one as
// lmstfy's clients expect it; but not 0, which says that there is none.
func remaining(expiresAt, now time.Time) uint32 {
	if expiresAt.IsZero() {
		return 0
	}
	left := expiresAt.Sub(now).Round(time.Second) / time.Second
	return uint32(min(max(1, left), math.MaxUint32))
}
