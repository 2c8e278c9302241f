package contract

import (
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
)

// ValidateUpdate returns an error with every bad field, like [ValidateJob].
func ValidateUpdate(u *duly.Update, maxBody int) error {
	var f BadFields
	checkBody(&f, u.Body, maxBody)
	checkHeaders(&f, u.Headers)
	checkSchedule(&f, u.Delay, u.Due)
	checkRules(&f, "", rules{u.Priority, u.Tries, u.MaxStalls, u.Backoff, u.TTL, u.Lease, u.Retain})
	return f.Err()
}

// ApplyUpdate changes a stored job by a valid update. It returns [duly.ErrInvalid] if the job would
// be due after its TTL has ended. In that case the engine must not store the job.
func ApplyUpdate(u *duly.Update, p *Planned, now time.Time) error {
	if u.Delay != nil {
		p.DueAt = DueIn(*u.Delay, now)
	} else if !u.Due.IsZero() {
		p.DueAt = dueAt(0, u.Due, now)
	}

	if u.Priority != nil {
		p.Priority = *u.Priority
	}
	if u.Body != nil {
		p.Body = u.Body
	}
	if u.Headers != nil {
		p.Headers = lowerHeaders(u.Headers)
	}

	// Zero means unchanged, because none of these fields can be zero.
	set(&p.Tries, u.Tries)
	set(&p.MaxStalls, u.MaxStalls)
	set(&p.Backoff, u.Backoff)
	set(&p.Lease, u.Lease)
	set(&p.Retain, u.Retain)

	if u.TTL != 0 {
		p.TTL, p.ExpiresAt = u.TTL, 0
		// None only removes the expiry, so there is no new one to compute.
		if u.TTL > 0 {
			p.ExpiresAt = clock.CeilMilli(now.Add(u.TTL))
		}
	}

	// Only a new due time or expiry can contradict the other one.
	if u.Delay == nil && u.Due.IsZero() && u.TTL == 0 {
		return nil
	}
	return p.checkExpiry(false)
}
