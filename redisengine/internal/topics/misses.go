package topics

import (
	"sync"
	"time"

	"github.com/dulymq/duly"
)

// missPause is the least time between two log lines about a group's missed messages.
const missPause = time.Minute

// misses counts the messages that groups of bounded topics have missed, from sweep to sweep. It
// logs messages that a limit has deleted although a group needed them.
type misses struct {
	mu     sync.Mutex
	seen   map[shardOfGroup]missed
	logged map[duly.QueueRef]missNote
}

type shardOfGroup struct {
	group duly.QueueRef
	shard int
}

// missed is how many messages a group has missed in a shard, and the first one that it needs.
type missed struct{ n, low int64 }

// missNote has the missed messages of a group that were not logged yet, and the time of the last
// log line.
type missNote struct {
	// Ordinals of the first and the last missed message, and the number of missed messages.
	first, last, n int64
	at             time.Duration
}

// note adds the messages that a group missed during this sweep. before and after are its counts at
// the start and the end of the sweep. The note is due if the last log line about the group is at
// least a minute old.
func (m *misses) note(at shardOfGroup, before, after missed, first int64, now time.Duration) (note missNote, due bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.seen == nil {
		m.seen, m.logged = map[shardOfGroup]missed{}, map[duly.QueueRef]missNote{}
	}
	// Messages missed between two sweeps count as well.
	if was, ok := m.seen[at]; ok {
		before = was
	}
	m.seen[at] = after

	note, logged := m.logged[at.group]
	if n := after.n - before.n; n > 0 {
		if note.n == 0 {
			note.first = before.low
		}
		note.n += n
		note.first, note.last = min(note.first, before.low), max(note.last, first-1, before.low)
	}
	due = note.n > 0 && (!logged || now >= note.at+missPause)
	switch {
	// A logged note starts over.
	case due:
		m.logged[at.group] = missNote{at: now}
	case note.n > 0:
		m.logged[at.group] = note
	}
	return note, due
}

// forget drops groups whose topics a sweep of the namespace has not found.
func (m *misses) forget(namespace string, met map[string]bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for at := range m.seen {
		if topic, _, _ := at.group.Group(); topic.Namespace == namespace && !met[topic.Name] {
			delete(m.seen, at)
			delete(m.logged, at.group)
		}
	}
}
