package dispatch

import (
	"sync"
	"time"

	"github.com/dulymq/duly"
)

// held has the disabled targets whose jobs came by. After such a target is enabled,
// its gate begins slowly.
type held struct {
	mu      sync.Mutex
	targets map[[2]string]bool
}

// wait notes a disabled target.
func (h *held) wait(namespace, target string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.targets == nil {
		h.targets = map[[2]string]bool{}
	}
	h.targets[[2]string{namespace, target}] = true
}

// back reports whether a target was disabled until now.
func (h *held) back(namespace, target string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	key := [2]string{namespace, target}
	was := h.targets[key]
	delete(h.targets, key)
	return was
}

// mostUsers bounds the pairs of namespaces and hosts that are remembered.
const mostUsers = 20_000

// users has which namespaces send to which hosts. A caller sees those of its own
// namespace alone.
type users struct {
	mu    sync.Mutex
	hosts map[[2]string]bool
}

func (u *users) note(namespace, host string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	pair := [2]string{namespace, host}
	if u.hosts == nil || len(u.hosts) >= mostUsers && !u.hosts[pair] {
		u.hosts = map[[2]string]bool{}
	}
	u.hosts[pair] = true
}

func (u *users) has(namespace, host string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.hosts[[2]string{namespace, host}]
}

// pending has the notices whose jobs are not settled, by the receipts of the jobs.
type pending struct {
	mu   sync.Mutex
	refs map[duly.Receipt]noticeRef
}

// noticeRef names a notice.
type noticeRef struct {
	queue duly.QueueRef
	id    string
}

func (p *pending) add(r duly.Receipt, queue duly.QueueRef, id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refs == nil {
		p.refs = map[duly.Receipt]noticeRef{}
	}
	p.refs[r] = noticeRef{queue, id}
}

func (p *pending) take(r duly.Receipt) (noticeRef, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n, ok := p.refs[r]
	delete(p.refs, r)
	return n, ok
}

const (
	// faultsEvery is how often one fault is reported that goes on.
	faultsEvery = 10 * time.Minute
	// mostFaults bounds what is remembered.
	mostFaults = 1000
)

// faults reports each fault now and then, however many jobs it concerns.
type faults struct {
	clock duly.Clock
	mu    sync.Mutex
	last  map[string]time.Duration
}

// report calls do unless the same fault was reported a short time ago.
func (f *faults) report(fault string, do func()) {
	f.mu.Lock()
	now := f.clock.Mono()
	last, known := f.last[fault]
	if known && now-last < faultsEvery {
		f.mu.Unlock()
		return
	}
	if f.last == nil || len(f.last) >= mostFaults {
		f.last = map[string]time.Duration{}
	}
	f.last[fault] = now
	f.mu.Unlock()
	do()
}

// mostDifference is how far the clock of this process may be from the engine's.
const mostDifference = time.Minute

// difference watches how far the clock of this process is from the engine's. Receivers
// compare the time of a request with their own clock.
type difference struct {
	mu     sync.Mutex
	beyond bool
}

// note takes a reading and reports whether the difference has begun or ended to be too
// large.
func (d *difference) note(by time.Duration) (begins, ends bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	was := d.beyond
	d.beyond = by.Abs() > mostDifference
	return !was && d.beyond, was && !d.beyond
}
