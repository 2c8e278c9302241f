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

// reserveFlags are the flags of `duly reserve`.
type reserveFlags struct {
	wait     bool
	timeout  time.Duration
	max      int
	lease    time.Duration
	receipts bool
}

func reserveCommand(a *app) *cobra.Command {
	f := reserveFlags{max: 1}
	cmd := a.command("reserve QUEUE…", "Reserve jobs that are due, and print their receipts",
		`Settle each job by its receipt with ack, nack, release or bury before its lease ends, or extend the lease with
extend. Several queues are tried in the given order. Without --wait the command ends at once, without output if no job
is due. While it waits it holds no job.`,
		`  duly reserve emails
  duly reserve emails --wait --timeout 1m
  duly reserve urgent emails --limit 10 --lease 5m --json
  receipt=$(duly reserve emails --wait --receipts)`,
		func(ctx context.Context, p *printer, args []string) error {
			if f.timeout > 0 && !f.wait {
				return usageErrorf("--timeout needs --wait")
			}
			if f.receipts && p.json {
				return usageErrorf("--receipts and --json are both set, give one of them")
			}
			return a.withEngine(ctx, func(s *session) error { return a.reserve(ctx, p, s, args, &f) })
		})

	cmd.Args = takesArgs("QUEUE…")
	cmd.ValidArgsFunction = a.completeQueues(0)
	flags := cmd.Flags()
	flags.BoolVar(&f.wait, "wait", false, "wait until a job is due")
	durationVar(flags, &f.timeout, "timeout", "with --wait: longest wait (default: no limit)")
	countVar(flags, &f.max, "limit", "maximum number of jobs")
	acceptOldName(flags, "max", "limit")
	leaseVar(flags, &f.lease, "duration of the lease (default: the job's)")
	flags.BoolVar(&f.receipts, "receipts", false, "print only the receipts, one per line")
	return cmd
}

func (a *app) reserve(ctx context.Context, p *printer, s *session, queues []string, f *reserveFlags) error {
	params := duly.ReserveParams{Namespace: s.namespace, Queues: queues, Max: f.max, Lease: f.lease}
	// An invalid parameter should fail before the notes below are printed.
	if err := contract.ValidateReserve(&params); err != nil {
		return err
	}
	if f.wait {
		a.noteMissing(ctx, s, queues)
		a.noteOnTerminal("waiting for a job of %s%s; Ctrl-C ends it", queues[0], andOthers(queues))
	}

	deliveries, err := a.reserveOrWait(ctx, s, params, f)
	if err != nil {
		return a.withReserveHint(ctx, s, err, queues)
	}
	if len(deliveries) == 0 {
		a.noteOnTerminal("no job is due in %s%s", queues[0], andOthers(queues))
		a.noteMissing(ctx, s, queues)
		return nil
	}

	// A caller that did not get the receipts cannot settle the jobs.
	p.deliveries(deliveries, f.receipts)
	if err := p.flush(); err != nil {
		return releaseAll(ctx, s, deliveries, err)
	}
	if f.receipts {
		a.noteReserved(deliveries)
	}
	return nil
}

// withReserveHint adds a hint to a conflict: a queue is a topic, or a group has a target.
func (a *app) withReserveHint(ctx context.Context, s *session, err error, queues []string) error {
	if duly.CodeOf(err) != duly.CodeConflict {
		return err
	}
	for _, name := range queues {
		// A group can be reserved only if it has no target, which receives its messages instead.
		if s.queue(name).IsGroup() {
			return withHint(err, "to remove the target: %s queue set %s --target none", a.program(), shellQuote(name))
		}
		if missing := a.mustExist(ctx, s, name); errors.Is(missing, duly.ErrConflict) {
			return missing
		}
	}
	return err
}

func andOthers(queues []string) string {
	if len(queues) == 1 {
		return ""
	}
	return " and " + plural(int64(len(queues)-1), "other queue")
}

// reserveOrWait reserves jobs. With --wait it waits and reserves again until it has a
// job, because another caller may take the job that ended a wait.
func (a *app) reserveOrWait(
	ctx context.Context, s *session, p duly.ReserveParams, f *reserveFlags,
) ([]duly.Delivery, error) {
	deadline := a.env.Clock.Now().Add(f.timeout)
	for {
		deliveries, err := s.Reserve(ctx, p)
		if err != nil || len(deliveries) > 0 || !f.wait {
			return deliveries, err
		}

		wait := duly.MaxWait

		// One wait has a maximum duration, so a longer --timeout needs several.
		if f.timeout > 0 {
			wait = min(wait, deadline.Sub(a.env.Clock.Now()))
		}
		if wait <= 0 {
			return nil, nil
		}
		params := duly.WaitParams{Namespace: p.Namespace, Queues: p.Queues, Timeout: wait}
		if _, err := s.Wait(ctx, params); err != nil {
			return nil, err
		}
	}
}

// releaseAll releases the jobs that could not be printed because of cause, and returns
// cause.
func releaseAll(ctx context.Context, s *session, deliveries []duly.Delivery, cause error) error {
	outcomes := make([]duly.SettleRequest, len(deliveries))
	for i, d := range deliveries {
		outcomes[i] = duly.SettleRequest{Receipt: d.Receipt, As: duly.Release}
	}

	// A signal may have ended the context. The release must still reach the engine.
	if _, err := s.Settle(context.WithoutCancel(ctx), s.namespace, outcomes); err != nil {
		return err
	}
	return cause
}

// deliveries prints reserved jobs.
func (p *printer) deliveries(deliveries []duly.Delivery, receipts bool) {
	switch {
	case receipts:
		for _, d := range deliveries {
			p.printf("%s\n", d.Receipt)
		}
	case p.json:
		p.lines(wire.DeliveriesForm.Append(nil, deliveries))
	default:
		t := p.newTable("RECEIPT", "ID", ">TRY", "LEASE", ">SIZE", "BODY")
		for _, d := range deliveries {
			t.add(txt(string(d.Receipt)), txt(d.ID), txt(fmt.Sprintf("%d/%d", d.Attempt, d.Tries)),
				txt(shortDuration(d.LeaseEnd.Sub(d.Now))), txt(bytesText(int64(len(d.Body)))), txt(preview(d.Body, 48)))
		}
		t.flush()
	}
}

// noteReserved prints the jobs for a person whose shell captures the receipts.
func (a *app) noteReserved(deliveries []duly.Delivery) {
	for _, d := range deliveries {
		a.noteOnTerminal("reserved %s from %s for %s: %s",
			d.ID, d.Queue, shortDuration(d.LeaseEnd.Sub(d.Now)), preview(d.Body, 48))
	}
}
