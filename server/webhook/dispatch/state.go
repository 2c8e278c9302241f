package dispatch

import (
	"sync"
	"time"

	"github.com/dulymq/duly"
)

// disabledTargets has the disabled targets of reserved jobs. When such a target is enabled,
// its gate starts slowly.
type disabledTargets struct {
	mu      sync.Mutex
	targets map[[2]string]bool
}

// add adds a disabled target.
func (h *disabledTargets) add(namespace, target string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.targets == nil {
		h.targets = map[[2]string]bool{}
	}
	h.targets[[2]string{namespace, target}] = true
}

// remove removes a target, and reports whether the set had it.
func (h *disabledTargets) remove(namespace, target string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	key := [2]string{namespace, target}
	was := h.targets[key]
	delete(h.targets, key)
	return was
}

// maxPairs is the largest number of pairs of namespaces and hosts.
const maxPairs = 20_000

// hostsByNamespace has the hosts to which each namespace has sent jobs, because a caller sees
// only the hosts of its own namespace.
type hostsByNamespace struct {
	mu    sync.Mutex
	pairs map[[2]string]bool
}

// add adds a pair. If there are too many pairs, it first removes all others.
func (u *hostsByNamespace) add(namespace, host string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	pair := [2]string{namespace, host}
	if u.pairs == nil || len(u.pairs) >= maxPairs && !u.pairs[pair] {
		u.pairs = map[[2]string]bool{}
	}
	u.pairs[pair] = true
}

// has reports whether a namespace has sent jobs to a host.
func (u *hostsByNamespace) has(namespace, host string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.pairs[[2]string{namespace, host}]
}

// pendingNotices has the stored notices of jobs that are not settled, by the jobs' receipts.
type pendingNotices struct {
	mu   sync.Mutex
	refs map[duly.Receipt]noticeRef
}

// noticeRef identifies a notice.
type noticeRef struct {
	queue duly.QueueRef
	id    string
}

func (p *pendingNotices) add(r duly.Receipt, queue duly.QueueRef, id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refs == nil {
		p.refs = map[duly.Receipt]noticeRef{}
	}
	p.refs[r] = noticeRef{queue, id}
}

func (p *pendingNotices) remove(r duly.Receipt) (noticeRef, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n, ok := p.refs[r]
	delete(p.refs, r)
	return n, ok
}

const (
	// logInterval is the least time between two lines with the same key.
	logInterval = 10 * time.Minute
	// maxLogKeys is the largest number of keys that are remembered.
	maxLogKeys = 1000
)

// logLimiter limits log lines: a fault of a million jobs is logged every ten minutes.
type logLimiter struct {
	clock duly.Clock
	mu    sync.Mutex
	last  map[string]time.Duration
}

// do calls write, unless it has called a function for the same key within the last logInterval.
func (f *logLimiter) do(key string, write func()) {
	f.mu.Lock()
	now := f.clock.Mono()
	last, known := f.last[key]
	if known && now-last < logInterval {
		f.mu.Unlock()
		return
	}

	if f.last == nil || len(f.last) >= maxLogKeys {
		f.last = map[string]time.Duration{}
	}
	f.last[key] = now
	// Writing may block, so the lock is released before.
	f.mu.Unlock()
	write()
}

// maxDrift is the tolerated difference between the clock of this process and the engine's.
const maxDrift = time.Minute

// driftMonitor compares the clock of this process with the engine's, because receivers
// compare the time of a request with their own clock.
type driftMonitor struct {
	mu       sync.Mutex
	exceeded bool
}

// observe records a difference of the clocks. It reports whether it is the first difference above
// maxDrift, or the first one below it again.
func (d *driftMonitor) observe(by time.Duration) (begins, ends bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	was := d.exceeded
	d.exceeded = by.Abs() > maxDrift
	return !was && d.exceeded, was && !d.exceeded
}
