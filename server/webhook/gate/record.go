package gate

import "time"

const (
	historyTime  = 10 * time.Second
	slotTime     = 500 * time.Millisecond
	historySlots = int(historyTime / slotTime)
	minTries     = 10
	badTenths    = 9
	badInARow    = 5
)

// tryHistory has the tries of the last ten seconds, and the last bad tries.
type tryHistory struct {
	slots [historySlots]slot
	// bad is the number of bad tries since the last good one, up to badInARow. began has the start
	// times of the last bad tries.
	bad      int
	began    [badInARow]time.Duration
	next     int // next index in began
	lastGood time.Duration
	anyGood  bool
}

// slot counts the tries that ended within one half second.
type slot struct {
	number     int64
	ended, bad uint32
}

// add adds a try that ends now.
func (r *tryHistory) add(now, began time.Duration, good bool) {
	number := int64(now / slotTime)
	s := &r.slots[number%int64(historySlots)]
	// The slot is of an earlier round.
	if s.number != number {
		*s = slot{number: number}
	}
	s.ended++
	if good {
		// A good answer ends the row.
		r.bad, r.lastGood, r.anyGood = 0, now, true
		return
	}
	s.bad++
	r.bad = min(r.bad+1, badInARow)
	r.began[r.next] = began
	r.next = (r.next + 1) % badInARow
}

// failing reports whether the gate closes because of these tries.
func (r *tryHistory) failing(now time.Duration) bool {
	newest := int64(now / slotTime)
	var ended, bad uint32
	for _, s := range r.slots {
		if newest-s.number < int64(historySlots) {
			ended += s.ended
			bad += s.bad
		}
	}
	// A few tries are not enough for a rate, so only the number of bad ones in a row decides.
	if ended >= minTries && bad*10 >= ended*badTenths {
		return true
	}

	if r.bad < badInARow {
		return false
	}
	for _, began := range r.began {
		// A slow try that began before the last good answer proves nothing.
		if r.anyGood && began < r.lastGood {
			return false
		}
	}
	return true
}
