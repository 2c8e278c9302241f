package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/wire"
)

// reserveFlags are those of `duly reserve`.
type reserveFlags struct {
	wait     bool
	timeout  time.Duration
	max      int
	lease    time.Duration
	receipts bool
}

func reserveCommand(a *app) *cobra.Command {
	f := reserveFlags{max: 1}
	cmd := a.command("reserve QUEUE…", "Take jobs that are due, and print their receipts",
		`The jobs are yours until their leases end: settle each by its receipt with ack, nack, release or bury, or hold it
longer with extend. Several queues are asked in the order given. Without --wait the answer comes at once, and is empty
if nothing is due. Nothing is taken while waiting.`,
		`  duly reserve emails
  duly reserve emails --wait --timeout 1m
  duly reserve urgent emails --limit 10 --lease 5m --json
  receipt=$(duly reserve emails --wait --receipts)`,
		func(ctx context.Context, p *printer, args []string) error {
			if f.timeout > 0 && !f.wait {
				return misusef("--timeout goes with --wait")
			}
			if f.receipts && p.json {
				return misusef("--receipts and --json are both set, give one of them")
			}
			return a.with(ctx, func(s *session) error { return a.reserve(ctx, p, s, args, &f) })
		})
	cmd.Args = wants("QUEUE…")
	cmd.ValidArgsFunction = a.completeQueues(0)
	flags := cmd.Flags()
	flags.BoolVar(&f.wait, "wait", false, "wait until a job is due")
	durationVar(flags, &f.timeout, "timeout", "with --wait: how long (default: for ever)")
	countVar(flags, &f.max, "limit", "the most jobs to take")
	renamed(flags, "max", "limit")
	leaseVar(flags, &f.lease, "how long to hold each (default: as the job says)")
	flags.BoolVar(&f.receipts, "receipts", false, "print the receipts alone, one per line")
	return cmd
}

func (a *app) reserve(ctx context.Context, p *printer, s *session, queues []string, f *reserveFlags) error {
	params := duly.ReserveParams{Namespace: s.namespace, Queues: queues, Max: f.max, Lease: f.lease}
	if err := params.Validate(); err != nil {
		return err
	}
	if f.wait {
		a.hintMissing(ctx, s, queues)
		a.remark("waiting for a job of " + queues[0] + others(queues) + "; Ctrl-C ends it")
	}
	deliveries, err := a.take(ctx, s, params, f)
	if err != nil {
		return err
	}
	if len(deliveries) == 0 {
		a.remark("nothing is due in " + queues[0] + others(queues))
		a.hintMissing(ctx, s, queues)
		return nil
	}
	p.deliveries(deliveries, f.receipts)
	if err := p.flush(); err != nil {
		return giveBack(ctx, s, deliveries, err)
	}
	if f.receipts {
		a.showTaken(deliveries)
	}
	return nil
}

func others(queues []string) string {
	if len(queues) == 1 {
		return ""
	}
	return " and " + plural(int64(len(queues)-1), "other queue")
}

// take reserves, and with --wait waits and reserves again until it has
// something: what a wait saw may have gone to another.
func (a *app) take(ctx context.Context, s *session, p duly.ReserveParams, f *reserveFlags) ([]duly.Delivery, error) {
	deadline := a.env.Clock.Now().Add(f.timeout)
	for {
		deliveries, err := s.Reserve(ctx, p)
		if err != nil || len(deliveries) > 0 || !f.wait {
			return deliveries, err
		}
		wait := duly.MaxWait
		if f.timeout > 0 {
			wait = min(wait, deadline.Sub(a.env.Clock.Now()))
		}
		if wait <= 0 {
			return nil, nil
		}
		if _, err := s.Wait(ctx, duly.WaitParams{Namespace: p.Namespace, Queues: p.Queues, Timeout: wait}); err != nil {
			return nil, err
		}
	}
}

// giveBack releases what could not be printed, and keeps the reason.
func giveBack(ctx context.Context, s *session, deliveries []duly.Delivery, why error) error {
	outcomes := make([]duly.Outcome, len(deliveries))
	for i, d := range deliveries {
		outcomes[i] = duly.Outcome{Receipt: d.Receipt, As: duly.Release}
	}
	if _, err := s.Settle(context.WithoutCancel(ctx), s.namespace, outcomes); err != nil {
		return err
	}
	return why
}

// deliveries prints what was taken.
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
				txt(roughly(d.LeaseEnd.Sub(d.Now))), txt(bytesText(int64(len(d.Body)))), txt(preview(d.Body, 48)))
		}
		t.flush()
	}
}

// showTaken tells a person whose shell keeps the receipts what they are for.
func (a *app) showTaken(deliveries []duly.Delivery) {
	for _, d := range deliveries {
		a.remark(fmt.Sprintf("took %s from %s for %s: %s", d.ID, d.Queue, roughly(d.LeaseEnd.Sub(d.Now)), preview(d.Body, 48)))
	}
}

// remark is a line for a person who watches: only on a terminal.
func (a *app) remark(text string) {
	if !a.json && a.env.Terminal(a.env.Stderr) {
		fmt.Fprintf(a.env.Stderr, "%s\n", oneLine(text))
	}
}
