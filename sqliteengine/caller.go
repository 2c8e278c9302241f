package sqliteengine

import (
	"bytes"
	"context"
	"maps"
	"slices"

	"github.com/dulymq/duly"
)

// A caller whose context ends returns early and may change its arguments, while the writer still
// reads them. Operations therefore copy the arguments, if the caller's context can end. A context
// that never ends needs no copy.

// mayReturnEarly reports whether a caller with this context may return before its result.
func mayReturnEarly(ctx context.Context) bool { return ctx.Done() != nil }

// copyBodies copies the bodies and headers of valid jobs. size is the total length of
// the bodies.
func (p *pushCall) copyBodies(size int) {
	all := make([]byte, 0, size)
	for i := range p.items {
		item := &p.items[i]
		j := &item.Job
		if item.original != nil {
			j = item.original
		} else if item.err != nil {
			continue
		}
		from := len(all)
		all = append(all, j.Body...)
		j.Body = all[from:len(all):len(all)]
		j.Headers = maps.Clone(j.Headers)
	}
}

func copyOutcomes(ctx context.Context, outcomes []duly.SettleRequest) []duly.SettleRequest {
	if !mayReturnEarly(ctx) {
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

func copyUpdate(ctx context.Context, u duly.Update) duly.Update {
	if !mayReturnEarly(ctx) {
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

// copyList copies a list of names, IDs or receipts.
func copyList[T ~string](ctx context.Context, list []T) []T {
	if !mayReturnEarly(ctx) {
		return list
	}
	return slices.Clone(list)
}
