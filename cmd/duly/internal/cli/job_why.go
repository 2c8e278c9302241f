package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/why"
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
		cells = append(cells, txt(string(x.Facts[i].Code)), txt(why.Sentence(&x.Facts[i], momentText(x.Facts[i].At, x.Now))))
	}
	p.pairs(cells...)
}
