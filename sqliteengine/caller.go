package sqliteengine

import (
	"bytes"
	"context"
	"maps"
	"slices"

	"github.com/dulymq/duly"
)

// A caller whose context ends waits no longer, and what it brought is its own
// again; the writer may be at it still. So an operation of a caller that can
// leave works on copies. One that can't leave, as its context never ends, is
// not worth one.

// leaves tells whether a caller with this context may go before its answer.
func leaves(ctx context.Context) bool { return ctx.Done() != nil }

// keepBodies copies bodies and headers of the jobs that may be stored; size is how
// long the bodies are together.
func (p *pushes) keepBodies(size int) {
	all := make([]byte, 0, size)
	for i := range p.items {
		item := &p.items[i]
		j := &item.Job
		if item.fresh != nil {
			j = item.fresh
		} else if item.err != nil {
			continue
		}
		from := len(all)
		all = append(all, j.Body...)
		j.Body = all[from:len(all):len(all)]
		j.Headers = maps.Clone(j.Headers)
	}
}

func keepOutcomes(ctx context.Context, outcomes []duly.Outcome) []duly.Outcome {
	if !leaves(ctx) {
		return outcomes
	}
	outcomes = slices.Clone(outcomes)
	for i := range outcomes {
		o := &outcomes[i]
		o.Result = bytes.Clone(o.Result)
		if o.Delay != nil {
			delay := *o.Delay
			o.Delay = &delay
		}
	}
	return outcomes
}

func keepUpdate(ctx context.Context, u duly.Update) duly.Update {
	if !leaves(ctx) {
		return u
	}
	u.Body, u.Headers = bytes.Clone(u.Body), maps.Clone(u.Headers)
	if u.Delay != nil {
		delay := *u.Delay
		u.Delay = &delay
	}
	if u.Priority != nil {
		priority := *u.Priority
		u.Priority = &priority
	}
	return u
}

// keep copies names, IDs or receipts.
func keep[T ~string](ctx context.Context, list []T) []T {
	if !leaves(ctx) {
		return list
	}
	return slices.Clone(list)
}
