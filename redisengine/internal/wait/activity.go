package wait

import "sync"

// activity counts running activities.
type activity struct {
	mu   sync.Mutex
	n    int
	all  uint64        // number of activities that ever began
	idle chan struct{} // closed when no activity runs, if a caller waits for that
}

func (a *activity) begin() {
	a.mu.Lock()
	a.n++
	a.all++
	a.mu.Unlock()
}

func (a *activity) end() {
	a.mu.Lock()
	if a.n--; a.n == 0 && a.idle != nil {
		close(a.idle)
		a.idle = nil
	}
	a.mu.Unlock()
}

// wait blocks until no activity runs, and returns how many ever began.
func (a *activity) wait() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	for a.n > 0 {
		if a.idle == nil {
			a.idle = make(chan struct{})
		}
		idle := a.idle
		// end needs the lock to close the channel.
		a.mu.Unlock()
		<-idle
		a.mu.Lock()
	}
	return a.all
}
