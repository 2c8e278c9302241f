package wait

import "sync"

// activity counts what is under way.
type activity struct {
	mu   sync.Mutex
	n    int
	all  uint64        // that ever began
	idle chan struct{} // closed at 0, if somebody waits for it
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

// wait blocks until nothing is under way, and returns how many activities ever began.
func (a *activity) wait() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	for a.n > 0 {
		if a.idle == nil {
			a.idle = make(chan struct{})
		}
		idle := a.idle
		a.mu.Unlock()
		<-idle
		a.mu.Lock()
	}
	return a.all
}
