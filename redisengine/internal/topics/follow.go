package topics

import (
	"context"
	"slices"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/logcursor"
)

// Read implements contract.Topics. It polls once, and then waits for a publish.
func (e *Topics) Read(ctx context.Context, ref duly.QueueRef, p contract.ReadParams) (contract.ReadPage, error) {
	if err := p.Validate(ref); err != nil {
		return contract.ReadPage{}, err
	}
	if err := e.Alive(ctx); err != nil {
		return contract.ReadPage{}, err
	}
	ref = ref.Normal()
	end := e.Local().Mono() + p.Wait
	e.readers.enter(ref)
	defer e.readers.leave(ref)
	var topic identity
	for {
		// Taken before reading, the channel also reports a publish during the read.
		published := e.readers.published(ref)
		page, due, err := e.readPage(ctx, ref, p, &topic)
		left := end - e.Local().Mono()
		if err != nil || len(page.Entries) > 0 || left <= 0 {
			return page, err
		}

		// For "end", all further reads start at the end of the log that the first read found.
		p.From = page.Next
		if err := e.listen(ref); err != nil {
			return contract.ReadPage{}, err
		}
		e.readers.expect(ref, due)
		woken, err := e.pause(ctx, published, left)
		if err == nil {
			err = e.Alive(ctx)
		}
		if err != nil {
			return contract.ReadPage{}, err
		}
		// Without announcements, another read must prove that the page is empty.
		if !woken && e.readers.missesNothing(ref, e.Local().Mono()) {
			return page, nil
		}
	}
}

// pause waits up to d for a publish. woken reports whether there was one.
func (e *Topics) pause(ctx context.Context, published <-chan struct{}, d time.Duration) (woken bool, err error) {
	timer := e.Local().NewTimer(d)
	defer timer.Stop()
	select {
	case <-published:
		return true, nil
	case <-timer.C:
		return false, nil
	case <-e.Quit.Done():
		return false, duly.ErrClosed
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// listen subscribes to the publishes of other processes and starts a watcher of the topic. Both
// serve all waiting Reads of this process.
func (e *Topics) listen(ref duly.QueueRef) error {
	r := &e.readers
	if r.listens(ref) {
		return nil
	}
	// The subscription also serves other Reads, so this caller's context must not end it.
	q, err := e.Find(e.Ctx, ref)
	if err != nil {
		return err
	}
	if q == nil || q.Topic == nil {
		return contract.NoTopic(ref)
	}

	r.mu.Lock()
	defer r.mu.Unlock()
	room := r.room(ref)
	// Another Read has subscribed first.
	if room.end != nil {
		return nil
	}
	ctx, cancel := context.WithCancel(e.Quit)
	room.end, room.shards = cancel, len(q.Shards)
	e.Tasks.Go(func() { e.watch(ctx, ref, room) })
	e.Tasks.Go(func() {
		defer cancel()
		// If the subscription fails, the watcher still finds all messages by polling.
		_ = e.Link.Hear(ctx, channel(q), func() { r.hears(room) }, func(string) { r.wake(ref) })
	})
	return nil
}

// never is the pause of a watcher while no Read waits.
const never = 24 * time.Hour

// watch looks for messages of a topic that were not announced, and wakes the waiting Reads. One
// watcher serves all Reads of the topic in this process.
func (e *Topics) watch(ctx context.Context, ref duly.QueueRef, room *room) {
	var ends []logcursor.Place // ends of the shards at the last poll
	// Without announcements, the first polls follow each other in short intervals.
	for rest := firstPause; ; rest = min(2*rest, readPause) {
		if !e.awaitLook(ctx, room, rest) {
			return
		}

		missed := e.readers.beginLook(room)
		found, due, err := e.lookAtEnds(ctx, ref)
		if ctx.Err() != nil {
			return
		}
		e.readers.expect(ref, due)
		// After an error, each Read returns the result of its own read.
		if missed || err != nil || !slices.Equal(ends, found) {
			e.readers.wake(ref)
		}
		ends = found
	}
}

// awaitLook blocks until the watcher's next poll. It returns false if ctx ends.
func (e *Topics) awaitLook(ctx context.Context, room *room, rest time.Duration) bool {
	looked := e.Local().Mono()
	for {
		left := never
		if at, waits := e.readers.nextLook(room, looked, rest); waits {
			left = at - e.Local().Mono()
		}
		timer := e.Local().NewTimer(left)
		select {
		case <-timer.C:
			return true
		// A new Read or due time may require an earlier poll.
		case <-room.changed:
			timer.Stop()
		case <-ctx.Done():
			timer.Stop()
			return false
		}
	}
}

// lookAtEnds returns the ends of a topic's shards, and the local time at which the next delayed
// message enters, or 0. Delayed messages that are due enter first.
func (e *Topics) lookAtEnds(ctx context.Context, ref duly.QueueRef) (ends []logcursor.Place, due time.Duration,
	err error) {
	r := &reading{parts: contract.FromParts{Kind: contract.KindEnd}}
	if err := r.read(ctx, e, ref); err != nil {
		return nil, 0, err
	}
	return r.next, r.dueAt(e.Local()), nil
}
