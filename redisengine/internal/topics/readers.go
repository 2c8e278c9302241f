package topics

import (
	"context"
	"sync"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/redisengine/internal/catalog"
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

// channel is where publishes to a topic are announced.
func channel(q *catalog.Queue) string { return q.Shards[0].Tag + "log" }

// listen hears of the publishes of other processes, for a Read that waits.
func (e *Topics) listen(ref duly.QueueRef) {
	r := &e.readers
	if r.listens(ref) {
		return
	}
	q, err := e.Find(e.Ctx, ref)
	if err != nil || q == nil || q.Topic == nil {
		return // the next look says why
	}

	r.mu.Lock()
	defer r.mu.Unlock()
	room := r.room(ref)
	if room.end != nil {
		return
	}
	ctx, cancel := context.WithCancel(e.Quit)
	room.end = cancel
	e.Tasks.Go(func() {
		defer cancel()
		_ = e.Link.Hear(ctx, channel(q), func() { // what was published before may have been missed
			r.mu.Lock()
			room.hears = true
			r.mu.Unlock()
			r.wake(ref)
		}, func(string) { r.wake(ref) })
	})
}

// announce wakes the Reads of all processes. It does not wait for the server.
func (e *Topics) announce(q *catalog.Queue) {
	e.readers.wake(q.Ref)
	r := &e.readers
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, running := r.announcing[q.Ref]; running {
		r.announcing[q.Ref] = true
		return
	}
	if !e.Tasks.Go(func() { e.runAnnounce(q) }) {
		return // the engine is closed
	}
	if r.announcing == nil {
		r.announcing = map[duly.QueueRef]bool{}
	}
	r.announcing[q.Ref] = false
}

// runAnnounce announces until there was no other publish. Whatever fails, a waiting Read
// looks by itself.
func (e *Topics) runAnnounce(q *catalog.Queue) {
	r := &e.readers
	for more := true; more; {
		ctx, cancel := context.WithTimeout(e.Ctx, announceTimeout)
		_, _ = e.Link.Do(ctx, e.Link.B().Spublish().Channel(channel(q)).Message("").Build())
		cancel()

		timer := clock.System().NewTimer(announceEvery)
		select {
		case <-timer.C:
		case <-e.Quit.Done(): // the engine is about to be closed
		}
		timer.Stop()

		r.mu.Lock()
		more = r.announcing[q.Ref]
		if r.announcing[q.Ref] = false; !more {
			delete(r.announcing, q.Ref)
		}
		r.mu.Unlock()
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
