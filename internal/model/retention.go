package model

import (
	"iter"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
)

// readers iterates over the shards of the groups that read this log.
func (l *log) readers() iter.Seq[*shard] {
	return func(yield func(*shard) bool) {
		for _, g := range l.topic.groups {
			if !yield(g.shards[l.index]) {
				return
			}
		}
	}
}

// trim deletes messages at the front of the log. It trims messages that neither a group nor keep
// needs, and drops messages that exceed a limit of the topic. more reports whether it stopped at
// its own limit.
func (l *log) trim(now int64) (more bool) {
	// The group at the floor is only known when the loop has ended.
	defer l.noteHolder(now)
	for n := 0; len(l.messages) > 0; n++ {
		m := l.messages[0]
		needed := l.needs(m, now)
		kept := l.topic.cfg.Keep != duly.None && !tooOld(m, l.topic.cfg.Keep, now)
		trimmed := !needed && !kept && len(l.topic.groups) > 0

		// With overflow refuse, max_count and max_bytes never drop a message that a group needs
		// (C12.127).
		dropped := tooOld(m, l.topic.cfg.MaxAge, now) || l.mayDrop(needed) && l.over(0, 0) != ""
		if !trimmed && !dropped {
			return false
		}
		if n == duly.MaxTrimmed {
			return true
		}

		if l.removeFirst(now); trimmed {
			l.counters.Trimmed++
		} else {
			l.counters.Dropped++
		}
	}
	return false
}

// tooOld reports whether the message is older than age. If age is None, no message is too old.
func tooOld(m *message, age time.Duration, now int64) bool {
	return age != duly.None && past(m.entered+clock.Millis(age), now)
}

// needs reports whether a group that is not parked needs the message.
func (l *log) needs(m *message, now int64) bool {
	for _, g := range l.topic.groups {
		if s := g.shards[l.index]; !g.parked(now) && (m.ordinal > s.reader.cursor || s.holds(m) != nil) {
			return true
		}
	}
	return false
}

// mayDrop reports whether max_count and max_bytes may delete a message.
func (l *log) mayDrop(needed bool) bool { return !needed || l.topic.cfg.Overflow == duly.OverflowDrop }

// over returns the name of the setting that the log would exceed with so many more messages and
// bytes, or "".
func (l *log) over(messages int, bytes int64) (setting string) {
	cfg := l.topic.cfg
	maxCount := contract.ShardPart(cfg.MaxCount, cfg.Shards, l.index)
	if cfg.MaxCount != duly.None && len(l.messages)+len(l.delayed)+messages > maxCount {
		return "max_count"
	}
	maxBytes := contract.ShardPart(int(cfg.MaxBytes), cfg.Shards, l.index)
	if cfg.MaxBytes != duly.None && l.bytes+bytes > int64(maxBytes) {
		return "max_bytes"
	}
	return ""
}

// makeRoom drops the oldest messages until m fits. It returns [duly.ErrFull], and drops nothing, if
// dropping is not allowed or would not be enough.
func (l *log) makeRoom(m *message, now int64) error {
	drop, bytes := 0, m.size()

	// The loop only counts. Messages are dropped after it is known that m will fit.
	for ; ; drop++ {
		setting := l.over(1-drop, bytes)
		if setting == "" {
			break
		}
		if drop == len(l.messages) || !l.mayDrop(l.needs(l.messages[drop], now)) {
			bound := l.topic.cfg.MaxBytes
			if setting == "max_count" {
				bound = int64(l.topic.cfg.MaxCount)
			}
			return contract.TopicFull(l.topic.ref, setting, bound)
		}
		bytes -= l.messages[drop].size()
	}

	for range drop {
		l.removeFirst(now)
		l.counters.Dropped++
	}
	return nil
}

// removeFirst deletes the oldest message. Each group that needed it counts it as missed.
func (l *log) removeFirst(now int64) {
	m := l.messages[0]

	// The array keeps its entries after the slice has moved on, so the entry is cleared to free the
	// message.
	l.messages[0] = nil
	l.messages = l.messages[1:]
	l.bytes -= m.size()
	for s := range l.readers() {
		s.miss(m, now)
	}
}

// floor returns the first message that some group needs, with the group that needs it.
func (l *log) floor(now int64) (f duly.Floor, ok bool) {
	next := l.last.Ordinal + 1 // lowest floor of the other groups
	lowest := next
	for _, name := range l.topic.groupNames() {
		g := l.topic.groups[name]
		if g.parked(now) {
			continue
		}
		if floor := g.shards[l.index].floor(); floor < lowest {
			f.Group, next, lowest = name, lowest, floor
		} else {
			next = min(next, floor)
		}
	}
	if f.Group == "" {
		return f, false
	}

	f.Shard, f.Position, f.Alone = l.index, l.from(lowest)[0].position, int64(next-lowest)
	if f.Group == l.holder {
		f.Since = clock.FromMilli(l.since)
	}
	return f, true
}

// noteHolder records a change of the group at the floor.
func (l *log) noteHolder(now int64) {
	if f, _ := l.floor(now); f.Group != l.holder {
		l.holder, l.since = f.Group, now
	}
}
