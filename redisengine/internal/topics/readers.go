package topics

import (
	"context"
	"sync"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
)

const (
	// announceEvery is how long publishes to one topic gather after a message of the
	// channel.
	announceEvery = 25 * time.Millisecond
	// announceTimeout bounds such a message. Without it a Read looks later.
	announceTimeout = time.Second
	// lingers is how long a process listens on after its last waiting Read: a reader
	// that follows a log reads again at once.
	lingers = 10 * time.Second
)

// readers are the Reads that wait for messages. A publish of this process wakes those of
// its topic. Other processes announce theirs on the shard channel of the topic, which has
// the name of its first log.
type readers struct {
	mu     sync.Mutex
	topics map[duly.QueueRef]*room
	// announcing are the topics that a goroutine announces publishes to; true if there
	// was another one meanwhile.
	announcing map[duly.QueueRef]bool
}

// room is where the Reads of one topic wait.
type room struct {
	published chan struct{} // is closed at the next publish
	waiting   int           // Reads
	left      int           // how often the last one has left
	end       func()        // of listening, nil if this process does not
	hears     bool          // nothing is missed
}

func (r *readers) room(topic duly.QueueRef) *room {
	if r.topics == nil {
		r.topics = map[duly.QueueRef]*room{}
	}
	if r.topics[topic] == nil {
		r.topics[topic] = &room{published: make(chan struct{})}
	}
	return r.topics[topic]
}

// enter begins to wait for messages of a topic. The caller calls leave at its end.
func (r *readers) enter(topic duly.QueueRef) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.room(topic).waiting++
}

// leave ends what enter began.
func (r *readers) leave(topic duly.QueueRef) {
	r.mu.Lock()
	defer r.mu.Unlock()
	room := r.room(topic)
	room.left++
	if room.waiting--; room.waiting > 0 {
		return
	}
	if room.end == nil {
		delete(r.topics, topic)
		return
	}
	left := room.left
	clock.System().AfterFunc(lingers, func() { r.empty(topic, left) })
}

// empty ends a room that nobody has entered since.
func (r *readers) empty(topic duly.QueueRef, left int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if room := r.topics[topic]; room != nil && room.waiting == 0 && room.left == left {
		room.end()
		delete(r.topics, topic)
	}
}

// published returns a channel that is closed at the next publish to a topic, and whether
// publishes of other processes close it, too. The Read has entered.
func (r *readers) published(topic duly.QueueRef) (next <-chan struct{}, hears bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	room := r.room(topic)
	return room.published, room.hears
}

func (r *readers) listens(topic duly.QueueRef) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.room(topic).end != nil
}

// wake wakes the Reads of a topic.
func (r *readers) wake(topic duly.QueueRef) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if room := r.topics[topic]; room != nil {
		close(room.published)
		room.published = make(chan struct{})
	}
}

// pause waits until a publish, for so long at most.
func pause(ctx context.Context, c clock.Clock, published <-chan struct{}, d time.Duration) error {
	over := make(chan struct{})
	timer := c.AfterFunc(d, func() { close(over) })
	defer timer.Stop()
	select {
	case <-published:
	case <-over:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}
