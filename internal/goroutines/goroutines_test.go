package goroutines_test

import (
	"testing"

	"github.com/dulymq/duly/internal/goroutines"
)

func TestBusyTellsWhetherADescendantRuns(t *testing.T) {
	t.Parallel()
	own, told, stop, over := make(chan goroutines.ID), make(chan struct{}), make(chan struct{}), make(chan struct{})
	park, hold := make(chan struct{}), make(chan struct{})
	go func() {
		own <- goroutines.Own()
		go func() {
			defer close(over)
			<-park
			close(told)
			for { // runs, until it is told to stop
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
	for goroutines.Busy(root) { // until it is parked
	}
	close(park)
	<-told
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
