package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/wire"
)

func deadCommand(a *app) *cobra.Command {
	return a.group("dead", "Look at dead jobs, let them live again, or remove them",
		deadListCommand(a), deadRequeueCommand(a), deadPurgeCommand(a))
}

func deadListCommand(a *app) *cobra.Command {
	f := listFlags{limit: duly.DefaultPage}
	cmd := a.command("list QUEUE", "List dead jobs with their last errors, oldest first",
		`A job is dead when it has used up its tries or stalls, or was buried. WHEN is since when it is; FAILED is how many of its
tries have failed, as 3/16: a job that was buried, or whose leases ran out too often, had tries left. The text at the end is
its last error.`,
		`  duly dead list emails
  duly dead list emails --limit none --json | jq -r .last_error | sort | uniq -c`,
		func(ctx context.Context, p *printer, args []string) error {
			return a.with(ctx, func(s *session) error {
				return a.listJobs(ctx, p, s, args[0], []duly.State{duly.StateDead}, f)
			})
		})
	cmd.Args = wants("QUEUE")
	cmd.ValidArgsFunction = a.completeQueues(1)
	f.add(cmd.Flags())
	return cmd
}

func deadRequeueCommand(a *app) *cobra.Command {
	var p duly.RequeueParams
	var ttl time.Duration
	cmd := a.command("requeue QUEUE [ID…]", "Let dead jobs live again: all that are dead now, the oldest, or by ID",
		`The jobs are pushed now under their old IDs, with no failures and no TTL. One whose merge key is held by a waiting job
is merged into that; one whose order key is busy is blocked.`,
		`  duly dead requeue emails
  duly dead requeue emails welcome-4711
  duly dead requeue emails --limit 100 --tries 3 --ttl 1h`,
		func(ctx context.Context, out *printer, args []string) error {
			p.IDs, p.TTL = args[1:], ttl
			if len(p.IDs) > 0 && p.N > 0 {
				return misusef("--limit and IDs are both given, give one of them")
			}
			return a.with(ctx, func(s *session) error { return a.requeue(ctx, out, s, args[0], p) })
		})
	cmd.Args = wants("QUEUE", "[ID…]")
	cmd.ValidArgsFunction = a.completeQueues(1)
	countVar(cmd.Flags(), &p.N, "limit", "only that many, the oldest")
	renamed(cmd.Flags(), "oldest", "limit")
	countVar(cmd.Flags(), &p.Tries, "tries", "their new number of tries (default: their own)")
	spanVar(cmd.Flags(), &ttl, "ttl", "drop them when they have waited so long (default: never)")
	return cmd
}

// requeueTally counts what became of dead jobs.
type requeueTally struct{ ready, blocked, merged, failed int64 }

func (t *requeueTally) String() string {
	text := fmt.Sprintf("requeued %s", plural(t.ready+t.blocked+t.merged, "job"))
	if t.blocked > 0 {
		text += fmt.Sprintf(", %s blocked by their order keys", countText(t.blocked))
	}
	if t.merged > 0 {
		text += fmt.Sprintf(", %s merged into waiting jobs", countText(t.merged))
	}
	return text
}

// requeue goes in calls of the most that one carries. By count it stops at the
// number of jobs that were dead when it began, so that what dies again
// meanwhile is left.
func (a *app) requeue(ctx context.Context, out *printer, s *session, queue string, p duly.RequeueParams) error {
	if err := a.mustExist(ctx, s, queue); err != nil {
		return err
	}
	var t requeueTally
	err := a.requeueAll(ctx, out, s, s.queue(queue), p, &t)
	if !out.json {
		out.printf("%s\n", t.String())
	}
	switch {
	case err != nil && len(p.IDs) == 0:
		return adviseOn(duly.CodeUnavailable, err, "some may have been requeued; look before you repeat: %s dead list %s", a.program(), shellQuote(queue))
	case err != nil:
		return err
	case t.failed > 0:
		return errReported
	}
	return nil
}

func (a *app) requeueAll(ctx context.Context, out *printer, s *session, q duly.QueueRef, p duly.RequeueParams, t *requeueTally) error {
	left := max(len(p.IDs), p.N)
	if left == 0 {
		stats, err := s.Stats(ctx, q)
		if err != nil {
			return err
		}
		left = int(stats.Sizes.Dead)
	}
	for ids := p.IDs; left > 0; {
		call := p
		n := min(left, duly.MaxBatch)
		if len(p.IDs) > 0 {
			call.IDs, ids = ids[:n], ids[n:]
		} else {
			call.N = n
		}
		results, err := s.Requeue(ctx, q, call)
		if err != nil {
			return err
		}
		if left -= n; len(results) == 0 {
			return nil
		}
		if err := a.requeued(out, q.Name, results, t); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) requeued(out *printer, queue string, results []duly.RequeueResult, t *requeueTally) error {
	if out.json {
		out.lines(wire.AppendRequeued(nil, results))
	}
	for _, r := range results {
		switch {
		case r.Err != nil:
			t.failed++
			if !out.json {
				code := duly.CodeOf(r.Err)
				a.complain(code, fmt.Errorf("%s: %w", r.ID, r.Err), a.next(nil, code, a.adviseOnJob(r.Err, queue, r.ID)))
			}
		case r.State == duly.StateBlocked:
			t.blocked++
		case r.State == duly.StateNone:
			t.merged++
		default:
			t.ready++
		}
	}
	return out.flush()
}

func deadPurgeCommand(a *app) *cobra.Command {
	var f purgeFlags
	cmd := a.command("purge QUEUE", "Remove dead jobs for good",
		`Removes all of them, or the oldest. Asks first, unless --yes is given.`,
		`  duly dead purge emails --yes
  duly dead purge emails --limit 1000 --yes`,
		func(ctx context.Context, p *printer, args []string) error {
			return a.purge(ctx, p, args[0], duly.StateDead, f)
		})
	cmd.Args = wants("QUEUE")
	cmd.ValidArgsFunction = a.completeQueues(1)
	f.add(cmd.Flags(), "oldest")
	return cmd
}
