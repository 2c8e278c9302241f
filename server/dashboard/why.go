package dashboard

import (
	"fmt"
	"strings"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/why"
	"github.com/dulymq/duly/server/dashboard/view"
	"github.com/dulymq/duly/server/failures"
	"github.com/dulymq/duly/server/route"
)

// why explains what holds a job back. Then it explains the job that has the order key of a blocked one.
func (d *Dashboard) why(c *route.Call, q duly.QueueRef, j *duly.JobInfo) (list []view.Why, err error) {
	if q.IsGroup() {
		return nil, nil // Explain is not for groups
	}
	for id, state := j.ID, j.State; id != "" && len(list) < 2; {
		w := view.Why{}
		if len(list) > 0 {
			w.Job = view.Link{Text: id, To: queuePath(q.Namespace, q.Name, "j", id)}
		}

		x, err := d.cfg.Explainer.Explain(c.Context(), q, id)
		switch duly.CodeOf(err) {
		case duly.CodeUnsupported, duly.CodeNotFound: // a job may end meanwhile
			return list, nil
		case duly.CodeCorrupt:
			// The damaged entry may be of another job, so the page has the rest.
			w.State, w.Facts = state.String(), []view.Fact{{Code: string(duly.CodeCorrupt), Text: err.Error()}}
			return append(list, w), nil
		}
		if err != nil {
			return nil, err
		}

		w.State, w.Free = x.State.String(), !x.Held()
		id = ""
		for i := range x.Facts {
			f := &x.Facts[i]
			w.Facts = append(w.Facts, d.fact(c, q, f, x.Now))
			if f.Code == contract.FactBlocked {
				id, state = f.Holder.ID, f.Holder.State
				lane := &w.Facts[len(w.Facts)-1].Links
				*lane = append(*lane, view.Link{Text: "Jobs of the key", To: lanePath(q, j.OrderKey).To})
			}
		}
		if x.State == duly.StateReady {
			w.Facts = append(w.Facts, d.noConsumer(q)...)
		}
		list = append(list, w)
	}
	return list, nil
}

// fact returns the sentence of a fact with links to what it names.
func (d *Dashboard) fact(c *route.Call, q duly.QueueRef, f *contract.Fact, now time.Time) view.Fact {
	f.Cause = failures.FirstLine(f.Cause)
	text := why.Sentence(f, since(f.At, now))
	v := view.Fact{Code: string(f.Code), Text: strings.ToUpper(text[:1]) + text[1:] + "."}
	link := func(text string, page ...string) {
		v.Links = append(v.Links, view.Link{Text: text, To: queuePath(q.Namespace, q.Name, page...)})
	}
	if f.Holder.ID != "" {
		link("Job "+f.Holder.ID, "j", f.Holder.ID)
	}

	switch f.Code {
	case contract.FactPaused:
		if at := d.history.Queue(contract.NamespaceOr(q.Namespace), q.Name).Paused; !at.IsZero() {
			v.Text += " It is paused at least since " + since(at, now) + "."
		}
		if c.PathValue("id") != "" { // the page is not that of the queue
			link("The queue")
		}
	case contract.FactMaxLeased, contract.FactRate:
		v.Links = append(v.Links, d.formLink(c, &settingsForm, "Change the settings")...)
	case contract.FactBehind:
		link("Ready jobs", "ready")
	case contract.FactDead:
		link("Dead jobs", "dead")
	}
	return v
}

// noConsumer returns the fact that nobody takes the ready jobs of a queue, by the last look at it.
func (d *Dashboard) noConsumer(q duly.QueueRef) (list []view.Fact) {
	for _, f := range d.attention.List(contract.NamespaceOr(q.Namespace)) {
		if f.Queue == q.Name && f.Code == "no_consumer" {
			list = append(list, view.Fact{Code: f.Code, Text: f.Fact + " " + f.Next + " No moment is known."})
		}
	}
	return list
}

// whyQueue explains why a queue delivers no jobs, from what its page reads anyway.
func (d *Dashboard) whyQueue(c *route.Call, q duly.QueueRef, config *duly.QueueConfig, s *duly.Stats) (list []view.Fact) {
	now, factor := d.cfg.Clock.Now(), 1.0
	if s.Factor > 0 {
		factor = s.Factor
	}
	most := max(1, int(float64(config.MaxLeased)*factor))
	for _, w := range []struct {
		holds bool
		fact  contract.Fact
	}{
		{config.Paused, contract.Fact{Code: contract.FactPaused}},
		{
			config.MaxLeased > 0 && s.Sizes.Leased >= int64(most),
			contract.Fact{Code: contract.FactMaxLeased, Used: int(s.Sizes.Leased), Limit: most},
		},
		{!s.NextToken.IsZero(), contract.Fact{Code: contract.FactRate, At: s.NextToken}},
		{!s.Closing.Until.IsZero(), contract.Fact{Code: contract.FactClosed, At: s.Closing.Until, Cause: s.Closing.Reason}},
		{s.Probing > 0, contract.Fact{Code: contract.FactProbing}},
	} {
		if w.holds {
			list = append(list, d.fact(c, q, &w.fact, now))
		}
	}

	if factor < 1 {
		text := fmt.Sprintf("Failures have lowered the limits of a shard to %.0f %%. Successes raise them; no moment is known.",
			100*factor)
		list = append(list, view.Fact{Code: "adapt", Text: text})
	}
	if s.Sizes.Ready > 0 {
		return append(list, d.noConsumer(q)...)
	}
	text := "No job is ready; no moment is known."
	if !s.NextDue.IsZero() {
		text = "No job is ready; the next one is due " + since(s.NextDue, now) + "."
	}
	return append(list, view.Fact{Code: "none_ready", Text: text})
}
