package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/wire"
)

func jobWhyCommand(a *app) *cobra.Command {
	cmd := a.command("why QUEUE ID", "Explain what holds a job back",
		`Shows the facts that hold a job back now, each with the moment at which it changes, if one is known. The limits and
the numbers of jobs are those of the job's shard. If another job has the order key, the facts of that job follow.
Groups of topics have no explanation.`,
		`  duly job why emails welcome-4711
  duly job why emails welcome-4711 --json`,
		func(ctx context.Context, p *printer, args []string) error {
			return a.withEngine(ctx, func(s *session) error { return a.explainJob(ctx, p, s, args[0], args[1]) })
		})

	cmd.Args = takesArgs("QUEUE", "ID")
	cmd.ValidArgsFunction = a.completeQueues(1)
	return cmd
}

// explainJob prints what holds a job back. With --json, the line has only the facts of the job itself.
func (a *app) explainJob(ctx context.Context, p *printer, s *session, queue, id string) error {
	explainer := contract.ExplainerOf(s.Engine)
	x, err := explainer.Explain(ctx, s.queue(queue), id)
	if err != nil {
		return a.jobError(ctx, s, err, queue, id)
	}
	if p.json {
		p.line(wire.ExplainForm.Append(nil, x))
		return nil
	}

	p.facts(id, x)
	holder := holderOf(x)
	if holder == "" {
		return nil
	}
	x, err = explainer.Explain(ctx, s.queue(queue), holder)
	switch {
	case errors.Is(err, duly.ErrNotFound):
		return nil // it has ended meanwhile, which frees the key
	case err != nil:
		return err
	}
	p.printf("\n")
	p.facts(holder, x)
	return nil
}

// holderOf returns the ID of the job that has the order key of a blocked job, or "".
func holderOf(x contract.Explanation) string {
	for _, f := range x.Facts {
		if f.Code == contract.FactBlocked {
			return f.Holder.ID
		}
	}
	return ""
}

// facts prints a job's state, and a line for each fact.
func (p *printer) facts(id string, x contract.Explanation) {
	p.printf("%s is %s\n", oneLine(id), p.paint(stateStyle(x.State), x.State.String()))
	if !x.Held() {
		p.printf("nothing holds it back: the next reserve returns it; without a worker it waits\n")
	}

	var cells []cell
	for i := range x.Facts {
		cells = append(cells, txt(string(x.Facts[i].Code)), txt(factText(&x.Facts[i], x.Now)))
	}
	p.pairs(cells...)
}

// factText returns the sentence for a fact. It has the moment of its change, or says that none is known.
func factText(f *contract.Fact, now time.Time) string {
	at := momentText(f.At, now)
	text := factPhrase(f, at)
	if at == "" {
		text += "; no moment is known"
	}
	return text
}

// factPhrase returns the sentence for a fact. at is empty if its moment is not known.
func factPhrase(f *contract.Fact, at string) string {
	switch f.Code {
	case contract.FactDelayed:
		return delayedPhrase(f, at)
	case contract.FactPaused:
		return "the queue is paused until somebody resumes it"
	case contract.FactMaxLeased:
		return fmt.Sprintf("%d of %d leases are in use", f.Used, f.Limit) + until("; the next one ends", at)
	case contract.FactRate:
		return "the rate has no token" + until("; the next one comes", at)
	case contract.FactClosed:
		return "the queue is closed" + until(" until", at) + because(f.Cause)
	case contract.FactProbing:
		return "the queue waits for the end of its probe" + until(", job "+f.Holder.ID+", whose lease ends", at)
	case contract.FactBlocked:
		return blockedPhrase(f, at)
	case contract.FactBehind:
		return jobsBefore(f, "ready job")
	case contract.FactLeased:
		return "the job is leased" + until(" until", at)
	case contract.FactStepPending:
		return "the engine has yet to move the job" + until(", since", at)
	case contract.FactExpires:
		return "the job expires" + until("", at)
	case contract.FactDead:
		return "the job is dead" + until(" since", at) + failedTries(f) + because(f.Cause)
	case contract.FactDone:
		return "the job is done" + until(" since", at)
	case contract.FactMerging:
		return mergingPhrase(f, at)
	case contract.FactMoving:
		return "the namespace moves; the old pool is served first and has " + plural(int64(f.Count), "job") + " of the queue"
	}
	// A newer server may have more facts.
	return "see a newer duly" + until("; it names the moment", at)
}

// until returns words and a moment, or "" if no moment is known.
func until(words, at string) string {
	if at == "" {
		return ""
	}
	return words + " " + at
}

func because(cause string) string {
	if cause == "" {
		return ""
	}
	return ": " + cause
}

func failedTries(f *contract.Fact) string {
	if f.Limit == 0 {
		return ""
	}
	return fmt.Sprintf("; %d of %d tries have failed", f.Used, f.Limit)
}

func delayedPhrase(f *contract.Fact, at string) string {
	why := "the job waits for a retry or a snooze"
	switch f.Cause {
	case contract.DelayedByPush:
		why = "the job is not due"
	case contract.DelayedByRetry:
		why = "the job waits for its next try"
	case contract.DelayedBySnooze:
		why = "the job was released and waits"
	}
	return why + until(" until", at) + failedTries(f)
}

func blockedPhrase(f *contract.Fact, at string) string {
	if f.Holder.ID == "" {
		return "the job that has its order key has expired; the next step frees the key"
	}
	text := fmt.Sprintf("job %s has its order key and is %s", f.Holder.ID, f.Holder.State)
	return text + until(" until", at) + "; " + jobsBefore(f, "blocked job")
}

// jobsBefore returns how many jobs of a kind are before the explained one.
func jobsBefore(f *contract.Fact, kind string) string {
	verb := "are"
	if f.Count == 1 {
		verb = "is"
	}
	count := plural(int64(f.Count), kind)
	switch {
	case f.More:
		count = "more than " + count
	case f.Count == 0:
		return "no " + kind + " is before this one"
	}
	return count + " " + verb + " before this one"
}

func mergingPhrase(f *contract.Fact, at string) string {
	if f.Cause != string(duly.MergeReplace) {
		return "an equal push is merged into this job"
	}
	return "an equal push replaces this job" + until(", and postpones it at most until", at)
}
