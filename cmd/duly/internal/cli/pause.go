package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/dulymq/duly"
)

func pauseCommand(a *app) *cobra.Command {
	return a.byQueue("pause QUEUE…", "Stop the delivery of jobs", "paused",
		`Nothing is delivered from a paused queue. Pushing, time and what is leased already go on.`,
		`  duly pause emails`,
		func(ctx context.Context, s *session, q duly.QueueRef) error { return s.Pause(ctx, q) })
}

func resumeCommand(a *app) *cobra.Command {
	return a.byQueue("resume QUEUE…", "Let a paused queue deliver again", "resumed",
		`What became due meanwhile is delivered at once.`,
		`  duly resume emails`,
		func(ctx context.Context, s *session, q duly.QueueRef) error { return s.Resume(ctx, q) })
}

// byQueue makes a command that does one thing to each of several queues.
func (a *app) byQueue(use, short, done, long, examples string, do func(context.Context, *session, duly.QueueRef) error) *cobra.Command {
	cmd := a.command(use, short, long, examples, func(ctx context.Context, p *printer, args []string) error {
		return a.with(ctx, func(s *session) error {
			return a.each(ctx, p, args, done, func(name string) error {
				return a.orMissing(ctx, s, do(ctx, s, s.queue(name)), name)
			})
		})
	})
	cmd.Args = wants("QUEUE…")
	cmd.ValidArgsFunction = a.completeQueues(0)
	return cmd
}
