package store

import "sync"

// Tasks counts the goroutines that outlive their callers, for Close to wait for. A
// task that starts while another one runs is waited for as well. Once no task runs,
// none starts.
type Tasks struct {
	Mu      sync.Mutex
	Running int
	ending  chan struct{} // closed when the last has ended; nil until Close
}

// Go runs f on a goroutine. It returns false, without running f, if the engine is
// closed.
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

// Add begins something that ends with Done. It returns false if the engine is
// closed.
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

// Close waits until no task runs. Afterwards none starts.
func (w *Tasks) Close() {
	w.Mu.Lock()
	w.ending = make(chan struct{})
	if w.Running == 0 {
		close(w.ending)
	}
	w.Mu.Unlock()
	<-w.ending
}
