package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/dulymq/duly"
)

func pauseCommand(a *app) *cobra.Command {
	return a.forQueues("pause QUEUE…", "Stop the delivery of jobs", "paused",
		`A paused queue delivers no jobs. It accepts pushes, delayed jobs become ready, and leased jobs can be settled.`,
		`  duly pause emails`,
		func(ctx context.Context, s *session, q duly.QueueRef) error { return s.Pause(ctx, q) })
}

func resumeCommand(a *app) *cobra.Command {
	return a.forQueues("resume QUEUE…", "Resume the delivery of jobs", "resumed",
		`Jobs that became due meanwhile are delivered at once.`,
		`  duly resume emails`,
		func(ctx context.Context, s *session, q duly.QueueRef) error { return s.Resume(ctx, q) })
}

// forQueues returns a command that calls do for each of several queues. done is the
// participle that it prints.
func (a *app) forQueues(
	use, short, done, long, examples string, do func(context.Context, *session, duly.QueueRef) error,
) *cobra.Command {
	cmd := a.command(use, short, long, examples, func(ctx context.Context, p *printer, args []string) error {
		return a.withEngine(ctx, func(s *session) error {
			return a.forEach(ctx, p, args, done, func(name string) error {
				return a.orMissing(ctx, s, do(ctx, s, s.queue(name)), name)
			})
		})
	})
	cmd.Args = takesArgs("QUEUE…")
	cmd.ValidArgsFunction = a.completeQueues(0)
	return cmd
}
