package redisengine

import "sync"

// work counts what runs beside its callers, and what may have to be given back,
// for Close to wait for. What is begun while something still runs is waited for
// as well; once nothing runs any more nothing is begun.
type work struct {
	mu      sync.Mutex
	running int
	ending  chan struct{} // closed when the last has ended; nil until Close
}

// begin runs f beside. False: the engine is closed, and f does not run.
func (w *work) begin(f func()) bool {
	if !w.enter() {
		return false
	}
	go func() {
		defer w.done()
		f()
	}()
	return true
}

// enter begins something that ends with done, unless the engine is closed.
func (w *work) enter() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running == 0 && w.ending != nil {
		return false
	}
	w.running++
	return true
}

func (w *work) done() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running--; w.running == 0 && w.ending != nil {
		close(w.ending)
	}
}

// end waits until nothing runs, and lets nothing begin after that.
func (w *work) end() {
	w.mu.Lock()
	w.ending = make(chan struct{})
	if w.running == 0 {
		close(w.ending)
	}
	w.mu.Unlock()
	<-w.ending
}
