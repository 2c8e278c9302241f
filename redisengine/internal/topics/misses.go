package topics

import (
	"context"
	"sync"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/redisengine/internal/catalog"
	"github.com/dulymq/duly/redisengine/internal/codec"
	"github.com/dulymq/duly/redisengine/internal/store"
)

// missPause is how long nothing more is logged of what a group misses.
const missPause = time.Minute

// misses are what the groups of bounded topics have missed, as the sweeps see it. It logs
// what bounds have deleted although a group needed it.
type misses struct {
	mu     sync.Mutex
	seen   map[shardOfGroup]missed
	logged map[duly.QueueRef]missNote
}

type shardOfGroup struct {
	group duly.QueueRef
	shard int
}

// missed is how many messages a group has missed in a shard, and the first one that it
// needs.
type missed struct{ n, low int64 }

// missNote is what was not yet logged, and when something was.
type missNote struct {
	first, last, n int64 // ordinals, and how many
	at             time.Duration
}

// mayMiss reports whether groups of a topic can miss messages without another program.
func mayMiss(q *catalog.Queue) bool {
	c := &q.Topic.Config
	if c.MaxAge != duly.None || c.MaxCount != duly.None || c.MaxBytes != duly.None {
		return true
	}
	for _, g := range q.Topic.Groups {
		if g.Config.Group.Idle != duly.None {
			return true
		}
	}
	return false
}

// sweepMisses counts what the groups of a shard have missed, and logs it.
func (e *Topics) sweepMisses(ctx context.Context, q *catalog.Queue, s *catalog.Shard) error {
	if !mayMiss(q) {
		return nil
	}
	before, first, err := e.missedIn(ctx, q, s)
	if err != nil {
		return err
	}
	after := before
	for name, m := range before {
		if m.low >= first || q.Topic.Find(name) == nil {
			continue
		}
		view := q.Group(name)
		if _, _, _, err := e.StepGroup(ctx, view, view.Shards[s.Index], true); err != nil {
			return err
		}
		if after, first, err = e.missedIn(ctx, q, s); err != nil {
			return err
		}
	}

	for name, m := range after {
		group := duly.QueueRef{Namespace: q.Ref.Namespace, Name: duly.GroupName(q.Ref.Name, name)}
		note, due := e.misses.note(shardOfGroup{group, s.Index}, before[name], m, first, e.Local().Mono())
		if due {
			e.Settings.Logger.Warn("a group has missed messages, which a bound of its topic or idle has deleted",
				"group", group.String(), "shard", s.Index, "first", note.first, "last", note.last, "messages", note.n)
		}
	}
	return nil
}

// missedIn reads what each group of a shard has missed, and the first message that the
// shard stores.
func (e *Topics) missedIn(ctx context.Context, q *catalog.Queue, s *catalog.Shard) (all map[string]missed, first int64, err error) {
	r, err := e.CallTopic(ctx, q, s, store.ScriptTopicStats)
	if err != nil {
		return nil, 0, err
	}
	n, _ := readNumbers(codec.Text(&r.Rest[1]), topicNumbers)
	all = map[string]missed{}
	heads := codec.Elements(&r.Rest[4])
	for i := 0; i+1 < len(heads); i += 2 {
		g, _ := readNumbers(codec.Text(&heads[i+1]), groupNumbers)
		all[codec.Text(&heads[i])] = missed{g["missed"], g["low"]}
	}
	return all, n["first"], nil
}

// note adds what a group missed during this sweep: before and after are its counts at the
// sweep's two ends. The note is due if the last one about the group is at least a minute old.
func (m *misses) note(at shardOfGroup, before, after missed, first int64, now time.Duration) (note missNote, due bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.seen == nil {
		m.seen, m.logged = map[shardOfGroup]missed{}, map[duly.QueueRef]missNote{}
	}
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
	case due:
		m.logged[at.group] = missNote{at: now}
	case note.n > 0:
		m.logged[at.group] = note
	}
	return note, due
}

// forget drops what is known of groups that a sweep of their namespace has not met.
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
