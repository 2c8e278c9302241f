package faultproxy

import (
	"net"
	"sync"
	"time"
)

// parcel is a chunk of a stream with the earliest time of its delivery.
type parcel struct {
	at   time.Time
	data []byte
	then func(net.Conn) // called after the data was delivered
}

// line is one direction of a connection. It accepts any amount of data, so the other direction
// never waits for it.
type line struct {
	proxy *Proxy
	way   Direction
	to    net.Conn
	done  <-chan struct{} // closed when the connection has ended

	mu    sync.Mutex
	queue []parcel
	more  chan struct{} // has a value when the queue may not be empty
}

func newLine(p *Proxy, way Direction, to net.Conn, done <-chan struct{}) *line {
	return &line{proxy: p, way: way, to: to, done: done, more: make(chan struct{}, 1)}
}

func (l *line) send(data []byte) { l.put(parcel{data: data}) }

func (l *line) put(x parcel) {
	// Only replies are delayed, so a whole round trip has this delay.
	if l.way == ToClient {
		x.at = l.proxy.due()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue = append(l.queue, x)
	// One signal is enough, because run takes the whole queue.
	select {
	case l.more <- struct{}{}:
	default:
	}
}

func (l *line) take() []parcel {
	l.mu.Lock()
	defer l.mu.Unlock()
	queue := l.queue
	l.queue = nil
	return queue
}

// run delivers until the connection has ended, or its receiver fails.
func (l *line) run() {
	for {
		select {
		case <-l.more:
		case <-l.done:
			return
		}

		for _, x := range l.take() {
			if !l.open(x.at) {
				return
			}
			if len(x.data) > 0 {
				if _, err := l.to.Write(x.data); err != nil {
					return
				}
			}
			if x.then != nil {
				x.then(l.to)
			}
		}
	}
}

// open waits until a parcel may be delivered: because its time has come and the line is not cut. It
// returns false if the connection ended first.
func (l *line) open(at time.Time) bool {
	if wait := time.Until(at); wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-l.done:
			return false
		}
	}

	for {
		// Checked again after each change, as the line may have been cut in the meantime.
		barrier := l.proxy.barrier(l.way)
		if barrier == nil {
			return true
		}
		select {
		case <-barrier:
		case <-l.done:
			return false
		}
	}
}
