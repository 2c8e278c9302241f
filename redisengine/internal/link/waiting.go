package link

import (
	"sync"

	"github.com/redis/rueidis"

	"github.com/dulymq/duly/internal/clock"
)

// waiting is everything that blocks: a client of its own, for its connections
// have other buffers.
type waiting struct {
	connecting sync.Mutex
	client     rueidis.Client // made by the first call

	mu       sync.Mutex
	blockers map[string]*blocker
}

// blocker is what there is of one group.
type blocker struct {
	turn chan struct{} // holds one while a call is on its way
	lane *blockLane    // of the call that has the turn; nil: none yet
	idle clock.Timer   // closes the lane
	said string        // the refusal that was logged last; of the call that has the turn

	mu   sync.Mutex
	call *blocking // that is on its way
}

func (w *waiting) blocker(l *core, group string) *blocker {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := w.blockers[group]
	if b == nil {
		b = &blocker{turn: make(chan struct{}, 1)}
		b.idle = l.clock.AfterFunc(laneIdle, func() { b.retire() })
		if w.blockers == nil {
			w.blockers = map[string]*blocker{}
		}
		w.blockers[group] = b
	}
	return b
}

func (w *waiting) current(group string) *blocking {
	w.mu.Lock()
	b := w.blockers[group]
	w.mu.Unlock()
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.call
}

// connect makes the client. Several may wait for it.
func (w *waiting) connect(l *core) (rueidis.Client, error) {
	w.connecting.Lock()
	defer w.connecting.Unlock()
	if w.client != nil {
		return w.client, nil
	}
	client, err := l.client(waitBuffers)
	if err != nil {
		return nil, err
	}
	w.client = client
	return client, nil
}

// end ends what is on its way, for a link that was closed.
func (w *waiting) end(l *core) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, b := range w.blockers {
		b.mu.Lock()
		call := b.call
		b.mu.Unlock()
		if call == nil {
			continue
		}
		if id := call.ending(); id != 0 {
			l.calls.Go(func() { call.unblock(id) })
		}
	}
}

// close is called when no call is on its way any more.
func (w *waiting) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, b := range w.blockers {
		b.idle.Stop()
		b.retire()
	}
	if w.client != nil {
		w.client.Close()
	}
}

func (b *blocker) begin(call *blocking) {
	b.idle.Stop()
	b.mu.Lock()
	b.call = call
	b.mu.Unlock()
}

func (b *blocker) end() {
	b.mu.Lock()
	close(b.call.over)
	b.call = nil
	b.mu.Unlock()
	b.idle.Reset(laneIdle)
	<-b.turn
}

// retire closes a lane that nobody uses.
func (b *blocker) retire() {
	select {
	case b.turn <- struct{}{}:
		b.drop()
		<-b.turn
	default:
	}
}

// drop is for the call that has the turn.
func (b *blocker) drop() {
	if b.lane != nil {
		b.lane.client.Close()
		b.lane = nil
	}
}
