package goroutines_test

import (
	"sync"
	"testing"

	"github.com/dulymq/duly/internal/goroutines"
)

func TestBusyReportsARunningDescendant(t *testing.T) {
	t.Parallel()
	own, begun, stop, over := make(chan goroutines.ID), make(chan struct{}), make(chan struct{}), make(chan struct{})
	park, hold := make(chan struct{}), make(chan struct{})
	go func() {
		own <- goroutines.Own()
		go func() {
			defer close(over)
			<-park
			close(begun)
			for { // keeps running until it must stop
				select {
				case <-stop:
					return
				default:
				}
			}
		}()
		<-hold
	}()
	defer close(hold)
	root := <-own
	for goroutines.Busy(root) { // until the goroutine is parked
	}
	close(park)
	<-begun
	if !goroutines.Busy(root) {
		t.Error("not busy while a child of the root runs")
	}

	close(stop)
	<-over
	for goroutines.Busy(root) {
	}
	if goroutines.Busy(goroutines.Own()) {
		t.Error("busy although this goroutine has begun none that still runs")
	}
}

func TestBusyReportsADescendantThatWaitsForAMutex(t *testing.T) {
	t.Parallel()
	var mutex sync.Mutex
	own, over := make(chan goroutines.ID), make(chan struct{})
	mutex.Lock()
	go func() {
		own <- goroutines.Own()
		go func() {
			defer close(over)
			mutex.Lock()
		}()
		<-over
	}()

	root := <-own
	for range 100 {
		if !goroutines.Busy(root) {
			t.Fatal("not busy while a child of the root waits for a mutex")
		}
	}
	mutex.Unlock()
	<-over
}
