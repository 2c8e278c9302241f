package gate

import "time"

const (
	recordTime  = 10 * time.Second
	slotTime    = 500 * time.Millisecond
	recordSlots = int(recordTime / slotTime)
	leastTries  = 10
	badTenths   = 9
	badInARow   = 5
)

// record has the tries of the last ten seconds, and the last bad ones.
type record struct {
	slots [recordSlots]slot
	// bad counts the bad tries since the last good one, up to badInARow; began has
	// the times at which the last of them began.
	bad      int
	began    [badInARow]time.Duration
	next     int // in began
	lastGood time.Duration
	anyGood  bool
}

// slot counts the tries that ended in one half second.
type slot struct {
	number     int64
	ended, bad uint32
}

func (r *record) add(now, began time.Duration, good bool) {
	number := int64(now / slotTime)
	s := &r.slots[number%int64(recordSlots)]
	if s.number != number {
		*s = slot{number: number}
	}
	s.ended++
	if good {
		r.bad, r.lastGood, r.anyGood = 0, now, true
		return
	}
	s.bad++
	r.bad = min(r.bad+1, badInARow)
	r.began[r.next] = began
	r.next = (r.next + 1) % badInARow
}

// failing reports whether the tries so far close the gate.
func (r *record) failing(now time.Duration) bool {
	newest := int64(now / slotTime)
	var ended, bad uint32
	for _, s := range r.slots {
		if newest-s.number < int64(recordSlots) {
			ended += s.ended
			bad += s.bad
		}
	}
	if ended >= leastTries && bad*10 >= ended*badTenths {
		return true
	}

	if r.bad < badInARow {
		return false
	}
	for _, began := range r.began {
		if r.anyGood && began < r.lastGood {
			return false
		}
	}
	return true
}
