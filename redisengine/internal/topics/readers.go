package topics

import (
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
	// readPause is how long the watcher of a topic pauses between two looks, until the
	// process hears of the publishes of others. The first looks follow each other more
	// closely, from firstPause on.
	readPause  = time.Second
	firstPause = 10 * time.Millisecond
	// hearingPause is the same for a watcher of a process that hears of them. Its looks
	// only find what nobody could announce: messages of a process that has died.
	hearingPause = 5 * time.Second
	// shardPause bounds how often the watchers of a process look: once per shard.
	shardPause = 1250 * time.Millisecond
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
	shards    int           // of the topic, 0 without a watcher
	missed    bool          // messages may have been, so the next look is due and wakes all
	due       time.Duration // when the next delayed message enters, by the local clock; 0 for none
	changed   chan struct{} // holds a value if the watcher's next look has changed
}

// change makes the watcher compute the time of its next look again.
func (r *room) change() {
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// expect notes when a delayed message enters.
func (r *room) expect(due time.Duration) {
	if due > 0 && (r.due == 0 || due < r.due) {
		r.due = due
		r.change()
	}
}

func (r *readers) room(topic duly.QueueRef) *room {
	if r.topics == nil {
		r.topics = map[duly.QueueRef]*room{}
	}
	if r.topics[topic] == nil {
		r.topics[topic] = &room{published: make(chan struct{}), changed: make(chan struct{}, 1)}
	}
	return r.topics[topic]
}

// enter begins to wait for messages of a topic. The caller calls leave at its end.
func (r *readers) enter(topic duly.QueueRef) {
	r.mu.Lock()
	defer r.mu.Unlock()
	room := r.room(topic)
	if room.waiting++; room.waiting == 1 {
		room.change()
	}
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

// published returns a channel that is closed at the next publish to a topic. The Read has
// entered.
func (r *readers) published(topic duly.QueueRef) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.room(topic).published
}

// expect notes when a delayed message of a topic enters, 0 for none.
func (r *readers) expect(topic duly.QueueRef, due time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.room(topic).expect(due)
}

// missesNothing reports whether a Read that nobody has woken need not look again.
func (r *readers) missesNothing(topic duly.QueueRef, now time.Duration) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	room := r.room(topic)
	return room.hears && (room.due == 0 || room.due > now)
}

// nextLook returns when the watcher of a room looks again, false if no Read waits. looked
// is when it did last, and rest is the pause in a process that does not hear.
func (r *readers) nextLook(room *room, looked, rest time.Duration) (time.Duration, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if room.waiting == 0 {
		return 0, false
	}
	if room.missed {
		return looked, true
	}
	if room.hears {
		shards := 0
		for _, other := range r.topics {
			if other.waiting > 0 {
				shards += other.shards
			}
		}
		rest = max(hearingPause, time.Duration(shards)*shardPause)
	}
	if at := looked + rest; room.due == 0 || at < room.due {
		return at, true
	}
	return room.due, true
}

// beginLook begins a look of the watcher, which finds again when a delayed message enters.
// It reports whether messages may have been missed.
func (r *readers) beginLook(room *room) (missed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	missed, room.missed, room.due = room.missed, false, 0
	return missed
}

// hears notes that the process hears of publishes from now on.
func (r *readers) hears(room *room) {
	r.mu.Lock()
	defer r.mu.Unlock()
	room.hears, room.missed = true, true
	room.change()
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
