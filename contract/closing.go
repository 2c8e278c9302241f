package contract

import (
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
)

// maxReason is the length of the reason of a closing in bytes.
const maxReason = 200

// MaxReleases is the number of deliveries of a job that may end in a release with Slow. The next
// one is a nack, so that no job waits without end.
const MaxReleases = 1000

// Closing is the closing of a shard in the form that an engine stores. The zero Closing is open.
type Closing struct {
	Until  int64 // end of the closing in ms, on the engine's clock
	Reason string
}

// Extend returns the closing after a release with Slow. The later end wins, with its reason.
func (c Closing) Extend(slow time.Duration, reason string, now time.Time) Closing {
	// After a step back of the clock, the old end must not win by its distance.
	c = c.Clip(clock.Milli(now))
	if until := clock.CeilMilli(now.Add(slow)); slow > 0 && until > c.Until {
		return Closing{until, CutReason(reason)}
	}
	return c
}

// CutReason returns a string in the form that engines store for a closing: valid UTF-8 without NUL,
// with at most 200 bytes.
func CutReason(text string) string { return cutText(text, maxReason) }

// Clip returns the closing as it is at a time, in ms. It is the zero Closing if it has ended. If
// the clock was set back, the closing lasts at most [duly.MaxSlow] from that time. An engine stores
// the result in each Reserve.
func (c Closing) Clip(now int64) Closing {
	if c.Until <= now {
		return Closing{}
	}
	c.Until = min(c.Until, now+clock.Millis(duly.MaxSlow))
	return c
}

// Info returns the closing in the form that callers get.
func (c Closing) Info() duly.Closing {
	return duly.Closing{Until: clock.FromMilli(c.Until), Reason: c.Reason}
}

// LaterClosing returns the closing that ends later. The shards of a queue have a closing each.
func LaterClosing(a, b duly.Closing) duly.Closing {
	if b.Until.After(a.Until) {
		return b
	}
	return a
}

// BoundSlow limits releases with Slow. For a job that has had [MaxReleases] releases it returns a
// nack instead of the request. It returns every other request unchanged. delivery is the number of
// the delivery, from 1.
func BoundSlow(r duly.SettleRequest, delivery uint64, failures, stalls int) duly.SettleRequest {
	// Each earlier delivery has ended in a failure, a stall or a release.
	releases := int64(delivery) - 1 - int64(failures) - int64(stalls)
	if r.As == duly.Release && r.Slow != nil && releases >= MaxReleases {
		r.As, r.Slow = duly.Nack, nil
	}
	return r
}
