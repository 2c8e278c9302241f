package topics

import (
	"sync"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
)

const (
	// announceEvery is the least time between two announcements of publishes to one topic.
	announceEvery = 25 * time.Millisecond
	// announceTimeout bounds an announcement. If it is lost, Reads find the messages later.
	announceTimeout = time.Second
	// readPause is the pause of a topic's watcher between two polls, until the process receives
	// announcements. The first polls are closer together, from firstPause on.
	readPause  = time.Second
	firstPause = 10 * time.Millisecond
	// hearingPause is the pause while the process receives announcements. Its polls only find
	// messages that were not announced, because their process died before it could announce them.
	hearingPause = 5 * time.Second
	// shardPause bounds how often a process's watchers poll: once per shard.
	shardPause = 1250 * time.Millisecond
	// lingers is how long a process stays subscribed after its last waiting Read, because a
	// reader that follows a log reads again at once.
	lingers = 10 * time.Second
)

// readers holds the Reads that wait for messages. A publish of this process wakes the Reads of its
// topic. Other processes announce their publishes on the shard channel of the topic. The channel
// has the name of the topic's first log.
type readers struct {
	mu     sync.Mutex
	topics map[duly.QueueRef]*room
	// announcing has the topics with a goroutine that announces publishes. The value is true if
	// there was another publish since the last announcement.
	announcing map[duly.QueueRef]bool
}

// room is where the Reads of one topic wait.
type room struct {
	published chan struct{} // closed at the next publish to the topic
	waiting   int           // number of waiting Reads
	left      int           // how often the number of waiting Reads fell to zero
	end       func()        // ends the subscription; nil if there is none
	hears     bool          // whether the process is subscribed to announcements
	shards    int           // number of the topic's shards; 0 if no watcher runs
	// Whether messages may have been missed; the next poll is then due at once and wakes all Reads.
	missed  bool
	due     time.Duration // local time at which the next delayed message enters; 0 if there is none
	changed chan struct{} // holds a value if the time of the next poll has changed
}

// change makes the watcher recompute the time of its next poll.
func (r *room) change() {
	select {
	case r.changed <- struct{}{}:
	// A change is already pending, and the watcher handles both together.
	default:
	}
}

// expect records when a delayed message enters.
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

// enter registers a Read that waits for messages of a topic. The caller calls leave at the end.
func (r *readers) enter(topic duly.QueueRef) {
	r.mu.Lock()
	defer r.mu.Unlock()
	room := r.room(topic)
	// The watcher pauses while no Read waits, so the first Read must wake it.
	if room.waiting++; room.waiting == 1 {
		room.change()
	}
}

// leave ends the registration of enter.
func (r *readers) leave(topic duly.QueueRef) {
	r.mu.Lock()
	defer r.mu.Unlock()
	room := r.room(topic)
	room.left++
	if room.waiting--; room.waiting > 0 {
		return
	}
	// Without a subscription there is nothing to close later.
	if room.end == nil {
		delete(r.topics, topic)
		return
	}
	// The count shows whether another Read has left since. That Read starts its own timer.
	left := room.left
	clock.System().AfterFunc(lingers, func() { r.empty(topic, left) })
}

// empty ends a room that no Read has entered since.
func (r *readers) empty(topic duly.QueueRef, left int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if room := r.topics[topic]; room != nil && room.waiting == 0 && room.left == left {
		room.end()
		delete(r.topics, topic)
	}
}

// published returns a channel that is closed at the next publish to a topic. The Read must have
// called enter before.
func (r *readers) published(topic duly.QueueRef) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.room(topic).published
}

// expect records when a delayed message of a topic enters; 0 means that there is none.
func (r *readers) expect(topic duly.QueueRef, due time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.room(topic).expect(due)
}

// missesNothing reports whether a Read that was not woken can skip another poll.
func (r *readers) missesNothing(topic duly.QueueRef, now time.Duration) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	room := r.room(topic)
	return room.hears && (room.due == 0 || room.due > now)
}

// nextLook returns when the watcher of a room polls again. It returns false if no Read waits.
// looked is the time of its last poll, and rest is the pause in a process without announcements.
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
		// The watchers of a process share a rate, so many topics don't load the server.
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

// beginLook begins a poll of the watcher, which finds the next delayed message again. It reports
// whether messages may have been missed.
func (r *readers) beginLook(room *room) (missed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	missed, room.missed, room.due = room.missed, false, 0
	return missed
}

// hears records that the process receives announcements from now on.
func (r *readers) hears(room *room) {
	r.mu.Lock()
	defer r.mu.Unlock()
	// Messages published before the subscription were not announced here.
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
