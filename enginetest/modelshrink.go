package enginetest

import (
	"slices"
	"time"

	"github.com/dulymq/duly"
)

// shrinkTries is the largest number of shorter scripts that are tried.
const shrinkTries = 3000

// shrink makes a failing script as short and simple as possible. It returns the script with its
// error.
func shrink(sc script, why error, play func(script) error) (script, error) {
	tries := 0
	try := func(next script) bool {
		// Give up after the bound, even if a shorter script would fail too.
		if tries++; tries > shrinkTries {
			return false
		}
		err := play(next)
		if err != nil {
			sc, why = next, err
		}
		return err != nil
	}

	for before := -1; before != tries && tries <= shrinkTries; {
		// Remove operations in blocks: first half of the script, then a quarter, and so on.
		for size := len(sc) / 2; size > 0; size /= 2 {
			for i := 0; i+size <= len(sc); {
				// The script without the operations from i to i+size.
				if !try(slices.Concat(sc[:i], sc[i+size:])) {
					i += size
				}
			}
		}
		// Simplify the remaining operations. A simpler operation may make others unnecessary.
		if !simplify(&sc, try) {
			break
		}
	}
	return sc, why
}

// simplify tries every simpler form of every operation. It reports whether one of them still
// fails.
func simplify(sc *script, try func(script) bool) (simpler bool) {
	for i := 0; i < len(*sc); i++ {
		for again := true; again; {
			// Continue from the first simpler form that fails.
			again = slices.ContainsFunc(plainer((*sc)[i]), func(o operation) bool {
				next := slices.Clone(*sc)
				next[i] = o
				return try(next)
			})
			simpler = simpler || again
		}
	}
	return simpler
}

// plainer returns the simpler variants of an operation. Each omits one part of the operation.
func plainer(o operation) []operation {
	switch o := o.(type) {
	case pushOp:
		return plainerList(o.Jobs, jobSpec.plainer, func(jobs []jobSpec) operation { return pushOp{jobs} })
	case publishOp:
		return plainerList(o.Messages, messageSpec.plainer, func(m []messageSpec) operation { return publishOp{m} })
	case settleOp:
		return plainerList(o.Outcomes, nil, func(outcomes []outcomeSpec) operation { return settleOp{outcomes} })
	case reserveOp:
		return o.plainer()
	case requeueOp:
		return o.plainer()
	case updateOp:
		return o.plainer()
	case topicReserveOp:
		return o.plainer()
	case putScheduleOp:
		return plainerList([]scheduleSpec{o.Schedule}, scheduleSpec.plainer, func(s []scheduleSpec) operation {
			return putScheduleOp{o.At, s[0]}
		})
	case fireOp:
		return plainerList(o.Schedules, nil, func(s []fireSpec) operation { return fireOp{o.At, s} })
	case scheduleReserveOp:
		return o.plainer()
	case waitOp:
		return []operation{o.reserveOp}
	case extendOp:
		if len(o.Which) > 1 {
			return []operation{
				extendOp{o.Which[:1], o.Forge, o.Lease}, extendOp{o.Which[1:], forgeNone, o.Lease},
			}
		}
	}
	return nil
}

// plainerList returns the operations with one item less, and with one item replaced by a
// simpler form. The list never becomes empty.
func plainerList[T any](items []T, plainer func(T) []T, with func([]T) operation) (forms []operation) {
	for i := range items {
		if len(items) > 1 {
			forms = append(forms, with(without(items, i)))
		}
		if plainer == nil {
			continue
		}

		for _, simpler := range plainer(items[i]) {
			next := slices.Clone(items)
			next[i] = simpler
			forms = append(forms, with(next))
		}
	}
	return forms
}

func (o reserveOp) plainer() (forms []operation) {
	forms = plainerList(o.Queues, nil, func(queues []queueSpec) operation {
		return reserveOp{queues, o.Max, o.Lease, o.Dispatcher}
	})
	if o.Lease != 0 {
		forms = append(forms, reserveOp{o.Queues, o.Max, 0, o.Dispatcher})
	}
	return forms
}

func (o requeueOp) plainer() (forms []operation) {
	forms = plainerList(o.IDs, nil, func(ids []idSpec) operation { return requeueOp{o.At, ids, o.N, o.Tries, o.TTL} })
	if o.Tries != 0 || o.TTL != 0 {
		forms = append(forms, requeueOp{o.At, o.IDs, o.N, 0, 0})
	}
	return forms
}

func (o topicReserveOp) plainer() (forms []operation) {
	forms = plainerList(o.At, nil, func(at []groupSpec) operation { return topicReserveOp{at, o.Max, o.Lease, o.Wait} })
	if o.Lease != 0 || o.Wait {
		forms = append(forms, topicReserveOp{o.At, o.Max, 0, false})
	}
	return forms
}

// plainer returns all variants of the message that lack one of its fields.
func (spec messageSpec) plainer() (forms []messageSpec) {
	for _, field := range []func(*messageSpec) *string{
		func(m *messageSpec) *string { return &m.Key }, func(m *messageSpec) *string { return &m.ID },
		func(m *messageSpec) *string { return &m.Body }, func(m *messageSpec) *string { return &m.Header },
	} {
		next := spec
		if text := field(&next); *text != "" {
			*text = ""
			forms = append(forms, next)
		}
	}
	if next := spec; next.Delay != 0 {
		next.Delay = 0
		forms = append(forms, next)
	}
	return forms
}

func without[T any](all []T, i int) []T { return slices.Concat(all[:i], all[i+1:]) }

// plainer returns all variants of the job that lack one of its fields.
func (spec jobSpec) plainer() (forms []jobSpec) {
	less := func(set bool, clear func(*jobSpec)) {
		if set {
			next := spec
			clear(&next)
			forms = append(forms, next)
		}
	}
	less(spec.In != 0, func(s *jobSpec) { s.In = 0 })
	less(spec.Fresh, func(s *jobSpec) { s.Fresh = false })
	less(len(spec.Body) > 0, func(s *jobSpec) { s.Body = nil })
	less(spec.Headers != nil, func(s *jobSpec) { s.Headers = nil })
	less(spec.Delay != 0, func(s *jobSpec) { s.Delay = 0 })
	less(spec.Priority != 0, func(s *jobSpec) { s.Priority = 0 })
	less(spec.Tries != 0, func(s *jobSpec) { s.Tries = 0 })
	less(spec.MaxStalls != 0, func(s *jobSpec) { s.MaxStalls = 0 })
	less(spec.Backoff != "fixed:0s", func(s *jobSpec) { s.Backoff = "fixed:0s" })
	less(spec.TTL != 0, func(s *jobSpec) { s.TTL = 0 })
	less(spec.Lease != 0, func(s *jobSpec) { s.Lease = 0 })
	less(spec.OrderKey != "", func(s *jobSpec) { s.OrderKey = "" })
	less(spec.Merge.Set(), func(s *jobSpec) { s.Merge = duly.Merge{} })
	less(spec.Retain != 0, func(s *jobSpec) { s.Retain = 0 })
	return forms
}

// plainer returns all variants of the update that lack one or a few of its fields.
func (o updateOp) plainer() (forms []operation) {
	less := func(set bool, next updateOp) {
		if set {
			forms = append(forms, next)
		}
	}
	next := o
	next.Delay = -1
	less(o.Delay >= 0, next)
	next = o
	next.Body, next.Header = "", ""
	less(o.Body != "" || o.Header != "", next)
	next = o
	next.Tries, next.MaxStalls, next.Backoff, next.Priority = 0, 0, "", 0
	less(o.Tries != 0 || o.MaxStalls != 0 || o.Backoff != "" || o.Priority != 0, next)
	for _, field := range []func(*updateOp) *time.Duration{
		func(o *updateOp) *time.Duration { return &o.Due }, func(o *updateOp) *time.Duration { return &o.TTL },
		func(o *updateOp) *time.Duration { return &o.Lease }, func(o *updateOp) *time.Duration { return &o.Retain },
	} {
		next = o
		*field(&next) = 0
		less(*field(&o) != 0, next)
	}
	return forms
}
