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
	// returns those that are known, or nil.
	PushQueues(ctx context.Context) (map[string][]string, error)
	// WatchPushQueues calls changed at once, and again whenever the list may have
	// changed, until ctx ends.
	WatchPushQueues(ctx context.Context, changed func()) error
}

// lookEvery is how often the push queues are listed of an engine that reports no changes.
const lookEvery = 1500 * time.Millisecond

// QueuesOf returns the push queues of an engine. w reports their changes; nil: the list is
// read every 1.5 s. The clock is for tests; nil: the system's. also, if set, is called for
// each change, which may be one of a target.
func QueuesOf(t contract.Targeter, w contract.Watcher, c duly.Clock, also func()) Queues {
	if c == nil {
		c = clock.System()
	}
	l := &Lists{Lists: []List{t.PushQueues}}
	l.Watch = func(ctx context.Context, changed func()) {
		both := func() {
			if also != nil {
				also()
			}
			changed()
		}
		if w != nil {
			_ = w.WatchTokens(ctx, func(bool) { both() }) // the dispatcher watches again
			return
		}
		for ctx.Err() == nil {
			both()
			_ = clock.Sleep(ctx, c, lookEvery) // the loop looks at ctx
		}
	}
	return l
}

// List is a list of push queues, page by page.
type List = func(ctx context.Context, p duly.PageParams) (contract.QueuePage, error)

// Lists are the push queues of several engines as those of one. A queue may be in two of
// them. One dispatcher uses it.
type Lists struct {
	Lists []List
	// Watch calls changed at once and after every change, until ctx ends. It may return
	// before, and is called again then.
	Watch func(ctx context.Context, changed func())

	// listed has what each list had when it was last read.
	listed [][]duly.QueueRef
}

// PushQueues implements [Queues]. The queues of a list that cannot be read are those of
// before.
func (l *Lists) PushQueues(ctx context.Context) (map[string][]string, error) {
	if l.listed == nil {
		l.listed = make([][]duly.QueueRef, len(l.Lists))
	}
	var failed error
	for i, list := range l.Lists {
		queues, err := readList(ctx, list)
		if err != nil {
			failed = err
			continue
		}
		l.listed[i] = queues
	}

	all, seen := map[string][]string{}, map[duly.QueueRef]bool{}
	for _, q := range slices.Concat(l.listed...) {
		if !seen[q] {
			seen[q] = true
			all[q.Namespace] = append(all[q.Namespace], q.Name)
		}
	}
	return all, failed
}

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
