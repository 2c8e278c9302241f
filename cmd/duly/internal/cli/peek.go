package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/wire"
)

func peekCommand(a *app) *cobra.Command {
	cmd := a.command("peek QUEUE", "Show the job that would be delivered next, without taking it",
		`Shows the first ready job, also of a queue that is paused or at its limit.`,
		`  duly peek emails
  duly peek emails --json`,
		func(ctx context.Context, p *printer, args []string) error {
			return a.with(ctx, func(s *session) error {
				j, err := s.Peek(ctx, s.queue(args[0]))
				if err != nil {
					err = adviseOn(duly.CodeNotFound, err, "see what waits: %s stats %s", a.program(), shellQuote(args[0]))
					return a.orMissing(ctx, s, err, args[0])
				}
				return p.oneJob(&j)
			})
		})
	cmd.Args = wants("QUEUE")
	cmd.ValidArgsFunction = a.completeQueues(1)
	return cmd
}

// oneJob prints a job in either form.
func (p *printer) oneJob(j *duly.JobInfo) error {
	if p.json {
		p.line(wire.JobForm.Append(nil, *j))
		return nil
	}
	p.job(j)
	return nil
}
