package store

import "sync"

// Tasks counts the goroutines that outlive their callers, so that Close can wait for them. Close
// also waits for a task that another task starts. After Close has seen the last task end, no
// further task starts.
type Tasks struct {
	mu      sync.Mutex
	running int
	ending  chan struct{} // closed when the last task has ended; nil until Close
}

// Go runs f in a goroutine. It returns false, without running f, if the engine is closed.
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

// Add begins a task that ends with Done. It returns false if the engine is closed.
func (w *Tasks) Add() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	// Running tasks may need new tasks to finish, so those are still started.
	if w.running == 0 && w.ending != nil {
		return false
	}
	w.running++
	return true
}

// Done ends a task that Add began.
func (w *Tasks) Done() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running--; w.running == 0 && w.ending != nil {
		close(w.ending)
	}
}

// Close waits until no task runs. After that, no task starts.
func (w *Tasks) Close() {
	w.mu.Lock()
	w.ending = make(chan struct{})
	if w.running == 0 {
		close(w.ending)
	}
	w.mu.Unlock()
	<-w.ending
}

// Running returns how many tasks run.
func (w *Tasks) Running() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.running
}
