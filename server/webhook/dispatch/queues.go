package dispatch

import (
	"context"
	"slices"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
)

// Queues lists the push queues of all namespaces.
type Queues interface {
	// PushQueues returns the names of all push queues, by namespace. With an error, it
	// returns the queues that it knows, or nil.
	PushQueues(ctx context.Context) (map[string][]string, error)
	// WatchPushQueues calls changed at once, and again whenever the list may have
	// changed, until ctx ends.
	WatchPushQueues(ctx context.Context, changed func()) error
}

// listInterval is the time between two lists of an engine without reports of changes.
const listInterval = 1500 * time.Millisecond

// QueuesOf returns the push queues of an engine. w reports their changes; if it is nil, the list is
// read every 1.5 s. c is a test's clock, or nil for the system's. onChange, if set, is called at
// each change, which may also be a change of a target.
func QueuesOf(t contract.Targeter, w contract.Watcher, c duly.Clock, onChange func()) Queues {
	if c == nil {
		c = clock.System()
	}
	if onChange == nil {
		onChange = func() {}
	}

	watch := func(ctx context.Context, changed func()) {
		if w != nil {
			// An error needs no handling, because the dispatcher watches again.
			_ = w.WatchTokens(ctx, func(bool) { onChange(); changed() })
			return
		}
		for ctx.Err() == nil {
			onChange()
			changed()
			_ = clock.Sleep(ctx, c, listInterval) // the loop checks ctx after the pause
		}
	}
	return &Lists{Lists: []List{t.PushQueues}, Watch: watch}
}

// List returns a page of push queues.
type List = func(ctx context.Context, p duly.PageParams) (contract.QueuePage, error)

// Lists merges the push queues of several engines. A queue may be in two of these engines. Only one
// dispatcher may use the result.
type Lists struct {
	Lists []List
	// Watch calls changed at once and after every change, until ctx ends. If it returns
	// earlier, it is called again.
	Watch func(ctx context.Context, changed func())

	// known has the last contents of each list.
	known [][]duly.QueueRef
}

// PushQueues implements [Queues]. For a list that cannot be read, it returns the list's last
// contents.
func (l *Lists) PushQueues(ctx context.Context) (map[string][]string, error) {
	if l.known == nil {
		l.known = make([][]duly.QueueRef, len(l.Lists))
	}
	var failed error
	for i, list := range l.Lists {
		// A pool that is lost keeps its queues, so its pollers need no restart.
		queues, err := readList(ctx, list)
		if err != nil {
			failed = err
			continue
		}
		l.known[i] = queues
	}

	all, seen := map[string][]string{}, map[duly.QueueRef]bool{}
	for _, q := range slices.Concat(l.known...) {
		if !seen[q] {
			seen[q] = true
			all[q.Namespace] = append(all[q.Namespace], q.Name)
		}
	}
	return all, failed
}

// readList returns all pages of a list.
func readList(ctx context.Context, list List) (all []duly.QueueRef, err error) {
	for page := (duly.PageParams{Limit: duly.MaxBatch}); ; {
		found, err := list(ctx, page)
		if err != nil {
			return nil, err
		}
		all = append(all, found.Queues...)
		if page.Cursor = found.Next; found.Next == "" {
			return all, nil
		}
	}
}

// WatchPushQueues implements [Queues].
func (l *Lists) WatchPushQueues(ctx context.Context, changed func()) error {
	l.Watch(ctx, changed)
	return ctx.Err()
}
