package link

import (
	"testing"

	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/eventually"
	"github.com/dulymq/duly/internal/redistest"
)

// TestEvictionIsLoggedEveryMinute checks that the log warns every minute about an accepted server
// that drops keys, until it no longer does (fault D5).
//
// C9.9
func TestEvictionIsLoggedEveryMinute(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t, redistest.MaxMemory("100mb", "allkeys-lru"))
	o, err := ParseURL(s.URL() + "?eviction=warn")
	if err != nil {
		t.Fatal(err)
	}
	now := clock.NewFake()
	o.Clock = now
	log, text := newLog()
	l, err := Open(t.Context(), o, log)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	minute := func(before, after int) {
		t.Helper()
		rests := func() bool { return now.Timers() == 1 }
		eventually.True(t, "the link waits for the next minute", rests)
		now.Advance(evictionEvery - 1)
		if n := text.Count("allkeys-lru"); n != before {
			t.Errorf("got %d warnings before the minute is over; want %d", n, before)
		}
		now.Advance(1)
		eventually.True(t, "the link waits for the minute after it", rests)
		if n := text.Count("allkeys-lru"); n != after {
			t.Errorf("got %d warnings after the minute; want %d", n, after)
		}
	}
	minute(1, 2)
	minute(2, 3)
	s.Must("CONFIG", "SET", "maxmemory-policy", "noeviction")
	minute(3, 3)
}
