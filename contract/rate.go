package contract

import (
	"math"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
)

// burst returns the size of the bucket of a rate.
func burst(r duly.Rate) float64 {
	if r.Burst > 0 {
		return float64(r.Burst)
	}
	// A bucket smaller than 1 would never have room for a delivery.
	return math.Max(1, math.Ceil(r.PerSecond))
}

// Bucket is the state of a [duly.Rate] on an engine's clock. The arithmetic uses doubles,
// in this order, so that engines in any language agree. The zero Bucket is full.
type Bucket struct {
	Taken float64 // number of tokens missing from a full bucket
	At    int64   // time in ms at which Taken was computed; the refill counts from that time
}

// Fill refills the bucket for the time up to now. If the clock was set back, it refills nothing and
// counts from the new time. A Reserve stores that bucket, so that the next Fill has a time to refill for.
func (b Bucket) Fill(r duly.Rate, now int64) Bucket {
	// The rate may have changed, and a smaller bucket can't miss more than it holds. The bound comes
	// before the refill: otherwise the refill of the excess would delay the next delivery.
	b.Taken = min(b.Taken, burst(r))
	if elapsed := now - b.At; elapsed > 0 {
		b.Taken -= float64(elapsed) * r.PerSecond / 1000
	}
	b.Taken = max(b.Taken, 0)
	b.At = now
	return b
}

// Free returns the number of whole deliveries in a bucket that Fill has returned.
func (b Bucket) Free(r duly.Rate) int {
	// The tolerance absorbs the rounding errors of many small refills.
	return int(math.Floor(burst(r) - b.Taken + 1e-9))
}

// Take removes n deliveries from the bucket.
func (b Bucket) Take(n int) Bucket {
	b.Taken += float64(n)
	return b
}

// OpensAt returns the time, in ms, from which the bucket has room for one delivery.
func (b Bucket) OpensAt(r duly.Rate) int64 {
	missing := 1 - (burst(r) - b.Taken)
	if missing <= 1e-9 {
		return b.At
	}
	// The tolerance keeps a rounding error from adding a whole millisecond.
	return b.At + int64(math.Ceil(missing*1000/r.PerSecond-1e-6))
}

// Tokens returns the number of deliveries that the rate allows at a time in ms. If it is 0, next is
// when the rate allows one. Without a rate, the number is [duly.None].
func (b Bucket) Tokens(r duly.Rate, now int64) (tokens int64, next time.Time) {
	if !r.Limited() {
		return duly.None, time.Time{}
	}
	b = b.Fill(r, now)
	if free := b.Free(r); free > 0 {
		return int64(free), time.Time{}
	}
	return 0, clock.FromMilli(min(b.OpensAt(r), duly.MaxTime.UnixMilli()))
}

// AddTokens adds the tokens of a shard, or of the queue in another pool, to the statistics. Their
// Tokens are [duly.None] before the first call.
func AddTokens(st *duly.Stats, tokens int64, next time.Time) {
	// The wire has no time beyond the year 9999.
	if next.After(duly.MaxTime) {
		next = duly.MaxTime
	}
	switch {
	case tokens == duly.None:
	case st.Tokens == duly.None:
		st.Tokens, st.NextToken = tokens, next
	case st.Tokens+tokens > 0:
		st.Tokens, st.NextToken = st.Tokens+tokens, time.Time{}
	case next.Before(st.NextToken):
		st.NextToken = next
	}
}
