package lmstfy

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
)

// An ID is a ULID whose last four bytes are the delay in seconds, little endian. With attributes a
// digit precedes it. Its time in milliseconds and its order within the process are the same as in a
// job number of duly. So a job's ID can be its number, and jobs are delivered in the order of their
// publishes.
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

// createdAt returns the time in an ID. ok is false if the ID contains no time.
func createdAt(id string) (at time.Time, ok bool) {
	// A ULID may begin with the same digit, so the length decides.
	if len(id) == len(version)+26 && id[:len(version)] == version {
		id = id[len(version):]
	}
	n, ok := duly.ParseNumber(id)
	return clock.FromMilli(int64(binary.BigEndian.Uint64(n[:8]) >> 16)), ok
}

// elapsed returns the time since a job was published, in milliseconds. If the job was respawned
// since, its ID has the right time and its push has not.
func elapsed(id string, pushedAt, now time.Time) int64 {
	if t, ok := createdAt(id); ok && t.Before(pushedAt) {
		pushedAt = t
	}
	return max(0, now.Sub(pushedAt).Milliseconds())
}

// remaining returns the rest of a ttl in seconds, rounded as lmstfy's clients expect it. It is at
// least 1, because 0 means that the job has no ttl.
func remaining(expiresAt, now time.Time) uint32 {
	if expiresAt.IsZero() {
		return 0
	}
	left := expiresAt.Sub(now).Round(time.Second) / time.Second
	return uint32(min(max(1, left), math.MaxUint32))
}
