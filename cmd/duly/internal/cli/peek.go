package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/wire"
)

func peekCommand(a *app) *cobra.Command {
	cmd := a.command("peek QUEUE", "Show the next job without reserving it",
		`Shows the first ready job, even if the queue is paused or at its limit.`,
		`  duly peek emails
  duly peek emails --json`,
		func(ctx context.Context, p *printer, args []string) error {
			return a.withEngine(ctx, func(s *session) error {
				j, err := s.Peek(ctx, s.queue(args[0]))
				if err != nil {
					err = withHintFor(duly.CodeNotFound, err, "see the waiting jobs: %s stats %s", a.program(), shellQuote(args[0]))
					return a.orMissing(ctx, s, err, args[0])
				}
				return p.oneJob(&j)
			})
		})

	cmd.Args = takesArgs("QUEUE")
	cmd.ValidArgsFunction = a.completeQueues(1)
	return cmd
}

// oneJob prints a job as JSON or as text.
func (p *printer) oneJob(j *duly.JobInfo) error {
	if p.json {
		p.line(wire.JobForm.Append(nil, *j))
		return nil
	}
	p.job(j)
	return nil
}
