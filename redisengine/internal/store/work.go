package store

import "sync"

// Tasks counts what runs beside its callers, and what may have to be given back,
// for Close to wait for. What is begun while something still runs is waited for
// as well; once nothing runs any more nothing is begun.
type Tasks struct {
	Mu      sync.Mutex
	Running int
	ending  chan struct{} // closed when the last has ended; nil until Close
}

// Go runs f beside. False: the engine is closed, and f does not run.
func (w *Tasks) Go(f func()) bool {
	if !w.Add() {
		return false
	}
	go func() {
		defer w.Done()
		f()
	}()
	return true
}

// Add begins something that ends with done, unless the engine is closed.
func (w *Tasks) Add() bool {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	if w.Running == 0 && w.ending != nil {
		return false
	}
	w.Running++
	return true
}

// Done ends what Add began.
func (w *Tasks) Done() {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	if w.Running--; w.Running == 0 && w.ending != nil {
		close(w.ending)
	}
}

// Close waits until nothing runs, and lets nothing begin after that.
func (w *Tasks) Close() {
	w.Mu.Lock()
	w.ending = make(chan struct{})
	if w.Running == 0 {
		close(w.ending)
	}
	w.Mu.Unlock()
	<-w.ending
}
