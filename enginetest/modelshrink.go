package enginetest

import (
	"slices"
	"time"

	"github.com/dulymq/duly"
)

// shrinkTries is how many shorter scripts are tried before the shortest so far
// has to do.
const shrinkTries = 3000

// shrink makes a script that fails as short and as plain as it goes, and tells
// how the last one failed.
func shrink(sc script, why error, play func(script) error) (script, error) {
	tries := 0
	try := func(next script) bool {
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
		for size := len(sc) / 2; size > 0; size /= 2 {
			for i := 0; i+size <= len(sc); {
				if !try(slices.Concat(sc[:i], sc[i+size:])) {
					i += size
				}
			}
		}
		if !simplify(&sc, try) {
			break
		}
	}
	return sc, why
}

// simplify tries every plainer form of every operation; false: none of them
// fails.
func simplify(sc *script, try func(script) bool) (simpler bool) {
	for i := 0; i < len(*sc); i++ {
		for again := true; again; {
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

// plainer lists the forms of an operation that say one thing less.
func plainer(o operation) (forms []operation) {
	switch o := o.(type) {
	case pushOp:
		for i := range o.Jobs {
			if len(o.Jobs) > 1 {
				forms = append(forms, pushOp{without(o.Jobs, i)})
			}
			for _, spec := range o.Jobs[i].plainer() {
				jobs := slices.Clone(o.Jobs)
				jobs[i] = spec
				forms = append(forms, pushOp{jobs})
			}
		}
	case settleOp:
		for i := range o.Outcomes {
			if len(o.Outcomes) > 1 {
				forms = append(forms, settleOp{without(o.Outcomes, i)})
			}
		}
	case extendOp:
		if len(o.Which) > 1 {
			forms = append(forms, extendOp{o.Which[:1], o.Forge, o.Lease}, extendOp{o.Which[1:], forgeNone, o.Lease})
		}
	case reserveOp:
		for i := range o.Places {
			if len(o.Places) > 1 {
				forms = append(forms, reserveOp{without(o.Places, i), o.Max, o.Lease, o.Dispatcher})
			}
		}
		if o.Lease != 0 {
			forms = append(forms, reserveOp{o.Places, o.Max, 0, o.Dispatcher})
		}
	case waitOp:
		forms = append(forms, o.reserveOp)
	case requeueOp:
		for i := range o.IDs {
			if len(o.IDs) > 1 {
				forms = append(forms, requeueOp{o.Place, without(o.IDs, i), o.N, o.Tries, o.TTL})
			}
		}
		if o.Tries != 0 || o.TTL != 0 {
			forms = append(forms, requeueOp{o.Place, o.IDs, o.N, 0, 0})
		}
	case updateOp:
		forms = append(forms, o.plainer()...)
	case publishOp:
		for i := range o.Messages {
			if len(o.Messages) > 1 {
				forms = append(forms, publishOp{without(o.Messages, i)})
			}
			for _, spec := range o.Messages[i].plainer() {
				messages := slices.Clone(o.Messages)
				messages[i] = spec
				forms = append(forms, publishOp{messages})
			}
		}
	case topicReserveOp:
		for i := range o.At {
			if len(o.At) > 1 {
				forms = append(forms, topicReserveOp{without(o.At, i), o.Max, o.Lease, o.Wait})
			}
		}
		if o.Lease != 0 || o.Wait {
			forms = append(forms, topicReserveOp{o.At, o.Max, 0, false})
		}
	}
	return forms
}

// plainer lists the message with one field less.
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

// plainer lists the job with one field less.
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

// plainer lists the update with one field less.
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
