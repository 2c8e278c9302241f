package route

import (
	"context"
	"sync"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
)

// shareOfRest limits what an owner holds: at most three times the memory that it leaves free for
// the other owners at its level.
const shareOfRest = 3

// beyondTime is how long the call beyond the budget may depend on its caller's
// speed while an owner with more room waits.
const beyondTime = 5 * time.Second

// tickEvery is the interval at which a budget with waiting calls checks for a
// slow one to cut.
const tickEvery = 100 * time.Millisecond

// budget is memory that several calls share. The package comment describes who gets how much of it.
// There is one budget for requests and one for answers.
type budget struct {
	mu      sync.Mutex
	size    int64
	all     account
	waiting []*waiter // waiting calls in order of arrival
	slow    map[*share]struct{}
	beyond  *share // the one call that is served outside the budget
	began   time.Duration
	cutting *share // a call that was cut and has not returned its memory yet
	now     func() time.Duration
	timer   duly.Timer
	armed   bool
	spare   []*account // unused accounts, kept for reuse
}

// maxSpare is the largest number of unused accounts that a budget keeps for reuse. Most calls are
// the only calls of their account, so accounts come and go.
const maxSpare = 64

// account is the memory of one owner: the whole budget, a namespace or a token.
type account struct {
	parent   *account
	name     string
	children map[string]*account
	held     int64
	users    int // number of children and shares
	waiting  int // number of waiting calls of this account, without those of its children
}

// share is the memory of one call. A share whose owner is set is ready for use.
type share struct {
	owner    owner
	account  *account
	held     int64
	beyond   bool          // whether held is outside the budget
	cut      func()        // ends the call early; must not block
	slow     time.Duration // time from which the call may be cut
	released bool          // whether release was called, so that the share is no longer used
}

// owner names the accounts of a share from the top, see [Call.owner].
type owner struct {
	names [3]string
	n     int
}

func owned(names ...string) (o owner) {
	o.n = copy(o.names[:], names)
	return o
}

// waiter is a call that waits for n bytes.
type waiter struct {
	n     int64
	share *share
	done  chan struct{} // closed when the memory was granted
}

func newBudget(size int64) *budget {
	b := &budget{size: size, slow: map[*share]struct{}{}, now: clock.Monotonic}
	b.all.children = map[string]*account{}
	return b
}

// try takes n more bytes if they are free now, and reports whether it did.
func (b *budget) try(s *share, n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()

	b.openLocked(s)
	if !b.fitsLocked(s, n) {
		return false
	}
	b.addLocked(s, n)
	return true
}

// take takes n more bytes, and waits until they are free. A waiting call does not depend on its
// caller's speed, so it is not cut. release must be called at the end, even after an error.
func (b *budget) take(ctx context.Context, s *share, n int64) error {
	w := &waiter{n: n, share: s, done: make(chan struct{})}
	b.mu.Lock()
	b.openLocked(s)
	if b.fitsLocked(s, n) {
		b.addLocked(s, n)
		close(w.done)
	} else {
		// A waiting call depends on the budget and not on its caller.
		delete(b.slow, s)
		s.account.waiting++
		b.waiting = append(b.waiting, w)
		b.serveLocked()
	}
	b.mu.Unlock()

	select {
	case <-w.done:
		return nil
	case <-ctx.Done():
		b.cancel(w)
		return ctx.Err()
	}
}

// cancel removes a call that no longer waits. Memory that was granted at the same
// moment stays with its share.
func (b *budget) cancel(w *waiter) {
	b.mu.Lock()
	defer b.mu.Unlock()

	for i, other := range b.waiting {
		if other == w {
			b.removeLocked(i)
			b.serveLocked() // the next waiting call of the account may fit now
			return
		}
	}
}

// set sets the memory of a share to n bytes at once. The bytes count even if they exceed the
// budget. Other calls then wait until enough is free.
func (b *budget) set(s *share, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()

	b.openLocked(s)
	b.addLocked(s, n-s.held)
	// With its new size, the call outside the budget may fit into it again.
	if s.beyond && n <= b.roomLocked(s.account) {
		s.beyond, b.beyond = false, nil
		s.account.add(n)
	}
	b.serveLocked()
}

// slowAt marks a call that depends on its caller's speed: from the given time on, the call may be
// cut.
func (b *budget) slowAt(s *share, at time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()

	if !s.released {
		s.slow = at
		b.slow[s] = struct{}{}
	}
}

// busy marks a call that no longer depends on its caller's speed.
func (b *budget) busy(s *share) {
	b.mu.Lock()
	defer b.mu.Unlock()

	delete(b.slow, s)
}

// release returns all memory of a share.
func (b *budget) release(s *share) {
	b.mu.Lock()
	defer b.mu.Unlock()

	if s.account != nil {
		b.addLocked(s, -s.held)
		b.closeLocked(s.account)
	}
	delete(b.slow, s)
	if b.beyond == s {
		b.beyond = nil
	}
	if b.cutting == s {
		b.cutting = nil
	}
	// A late slowAt must find that the share is released.
	*s = share{released: true}
	b.serveLocked()
}

// openLocked finds or creates the account of a share.
func (b *budget) openLocked(s *share) {
	if s.account != nil {
		return
	}
	a := &b.all
	for _, name := range s.owner.names[:s.owner.n] {
		child := a.children[name]
		if child == nil {
			child = b.accountLocked()
			child.parent, child.name = a, name
			a.children[name] = child
			a.users++
		}
		a = child
	}
	a.users++
	s.account = a
}

// accountLocked returns a new account.
func (b *budget) accountLocked() *account {
	last := len(b.spare) - 1
	if last < 0 {
		return &account{children: map[string]*account{}}
	}
	a := b.spare[last]
	b.spare = b.spare[:last]
	return a
}

// closeLocked ends a use of the account and forgets accounts without users.
func (b *budget) closeLocked(a *account) {
	// An account without users may be the last user of its parent.
	for a.users--; a.users == 0 && a.parent != nil; a.users-- {
		parent := a.parent
		delete(parent.children, a.name)
		if len(b.spare) < maxSpare {
			*a = account{children: a.children} // keeps the empty map of children
			b.spare = append(b.spare, a)
		}
		a = parent
	}
}

// add counts n bytes for the account and all accounts above it.
func (a *account) add(n int64) {
	for ; a != nil; a = a.parent {
		a.held += n
	}
}

func (b *budget) addLocked(s *share, n int64) {
	s.held += n
	if !s.beyond {
		s.account.add(n)
	}
}

// roomLocked returns how much an account may still take. The account at the top may take the free
// memory. An account below may take x more bytes if held + x is at most shareOfRest times the room
// that then remains for its parent.
func (b *budget) roomLocked(a *account) int64 {
	if a.parent == nil {
		return b.size - a.held
	}
	return (shareOfRest*b.roomLocked(a.parent) - a.held) / (shareOfRest + 1)
}

// fitsLocked reports whether a share may have n bytes at once. Calls of one
// account are served in order of arrival.
func (b *budget) fitsLocked(s *share, n int64) bool {
	return s.beyond || s.account.waiting == 0 && n <= b.roomLocked(s.account)
}

// serveLocked grants what fits, then serves one call outside the budget, then cuts a slow call
// if calls still wait.
func (b *budget) serveLocked() {
	b.grantLocked()
	if b.beyond == nil && len(b.waiting) > 0 {
		b.beyondLocked()
		b.grantLocked()
	}

	if len(b.waiting) == 0 {
		return
	}
	b.cutLocked()
	if !b.armed {
		b.armed = true
		b.armLocked()
	}
}

// grantLocked serves the first waiting calls of every account that fit.
func (b *budget) grantLocked() {
	var blocked map[*account]bool
	for i := 0; i < len(b.waiting); {
		w := b.waiting[i]
		a := w.share.account
		// A smaller call must not overtake an earlier call of its account.
		if blocked[a] || w.n > b.roomLocked(a) {
			if blocked == nil {
				blocked = map[*account]bool{}
			}
			blocked[a] = true
			i++
			continue
		}
		b.removeLocked(i)
		b.addLocked(w.share, w.n)
		close(w.done)
	}
}

func (b *budget) removeLocked(i int) {
	b.waiting[i].share.account.waiting--
	b.waiting = append(b.waiting[:i], b.waiting[i+1:]...)
}

// beyondLocked moves one waiting call out of the budget: it chooses the owner with the most room,
// and the call of that owner that holds most. The memory of that call no longer counts under the
// budget.
func (b *budget) beyondLocked() {
	best, bestRoom := 0, b.roomLocked(b.waiting[0].share.account)
	for i, w := range b.waiting[1:] {
		room := b.roomLocked(w.share.account)
		if room > bestRoom || room == bestRoom && w.share.held > b.waiting[best].share.held {
			best, bestRoom = i+1, room
		}
	}

	w := b.waiting[best]
	b.removeLocked(best)
	// Its memory no longer counts, so other calls have more room.
	w.share.account.add(-w.share.held)
	w.share.beyond, b.beyond, b.began = true, w.share, b.now()
	b.addLocked(w.share, w.n)
	close(w.done)
}

// cutLocked cuts one slow call for the waiting calls, unless a call that was cut before has not
// returned its memory yet.
func (b *budget) cutLocked() {
	if b.cutting != nil {
		return
	}
	if s := b.slowestLocked(b.now()); s != nil {
		delete(b.slow, s)
		b.cutting = s
		s.cut()
	}
}

// slowestLocked returns the call to cut, or nil. First it chooses the call outside the budget.
// Then it chooses the owner with the least room, and of that owner's calls the one that has been
// slow for longest. An owner with more room than all waiting owners loses no call.
func (b *budget) slowestLocked(now time.Duration) (slowest *share) {
	most := b.roomLocked(b.waiting[0].share.account)
	for _, w := range b.waiting[1:] {
		most = max(most, b.roomLocked(w.share.account))
	}
	if s := b.beyond; s != nil {
		_, depends := b.slow[s]
		late := now >= b.began+beyondTime && most > b.roomLocked(s.account)
		if depends && (now >= s.slow || late) {
			return s
		}
	}

	least := most
	for s := range b.slow {
		// The call beyond the budget was considered above.
		if s == b.beyond || now < s.slow {
			continue
		}
		room := b.roomLocked(s.account)
		if room < least || room == least && (slowest == nil || s.slow < slowest.slow) {
			slowest, least = s, room
		}
	}
	return slowest
}

// armLocked calls tick after a while.
func (b *budget) armLocked() {
	if b.timer == nil {
		b.timer = clock.System().AfterFunc(tickEvery, b.tick)
		return
	}
	b.timer.Reset(tickEvery)
}

// tick cuts a slow call, and rearms its timer while calls wait.
func (b *budget) tick() {
	b.mu.Lock()
	defer b.mu.Unlock()

	if b.armed = len(b.waiting) > 0; b.armed {
		b.cutLocked()
		b.armLocked()
	}
}
