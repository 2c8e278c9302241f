package lmstfy

import (
	"testing"
	"time"

	"github.com/dulymq/duly"
)

// An ID has lmstfy's form: 48 bits of milliseconds, six random bytes and the delay, after the
// digit of jobs with attributes.
func TestIDsHaveLmstfysForm(t *testing.T) {
	t.Parallel()
	// The time is 1700000000000 ms.
	n := duly.Number{0x01, 0x8b, 0xcf, 0xe5, 0x68, 0x00, 1, 2, 3, 4, 5, 6, 0xff, 0xff, 0xff, 0xff}

	for delay, want := range map[uint32]string{
		0: "01HF7YAT00041061050R000000", 10: "01HF7YAT00041061050R500000",
		86400: "01HF7YAT00041061050T052080", 4294967295: "01HF7YAT00041061050VZZZZZZ",
	} {
		id := withDelay(n, delay).String()
		if id != want {
			t.Errorf("delay %d: %s, want %s", delay, id, want)
		}
		for _, id := range []string{id, version + id} {
			if at, ok := createdAt(id); !ok || at.UnixMilli() != 1700000000000 {
				t.Errorf("%s was made at %s", id, at)
			}
		}
	}

	for _, id := range []string{"", "order:1", "201HF7YAT00041061050R500000", "01HF7YAT00041061050R50000",
		"01hf7yat00041061050r500000"} {
		if _, ok := createdAt(id); ok {
			t.Errorf("%q has a time", id)
		}
	}
	if id := newID(10, true); len(id) != 27 || id[:1] != version {
		t.Errorf("%s", id)
	}
}

// The IDs of one process are unique and increasing, because engines serve jobs in that order.
func TestIDsIncrease(t *testing.T) {
	t.Parallel()
	last := ""
	for i := range 10_000 {
		id := newID(uint64(i%3), false)
		if id <= last {
			t.Fatalf("%s comes after %s", id, last)
		}
		last = id
	}
}

func TestTimesAreRoundedAsClientsExpect(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1700000000000)

	for left, want := range map[time.Duration]uint32{
		10 * time.Second: 10, 9900 * time.Millisecond: 10, 9501 * time.Millisecond: 10, 9499 * time.Millisecond: 9,
		time.Second: 1, 400 * time.Millisecond: 1, time.Millisecond: 1, 0: 1, -time.Hour: 1,
		4294967295 * time.Second: 4294967295, 1<<63 - 1: 4294967295,
	} {
		if got := remaining(now.Add(left), now); got != want {
			t.Errorf("%s is reported as %d, want %d", left, got, want)
		}
	}

	if remaining(time.Time{}, now) != 0 {
		t.Error("no ttl is not 0")
	}
	if got := elapsed("01HF7YAT00041061050R000000", now.Add(time.Hour), now.Add(-time.Second)); got != 0 {
		t.Errorf("elapsed before it was made: %d", got)
	}
	if lease(0) != duly.MinLease || lease(1) != time.Second || lease(4294967295) != duly.MaxLease {
		t.Error("leases are not within the contract's bounds")
	}
}
