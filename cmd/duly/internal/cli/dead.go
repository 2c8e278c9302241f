package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
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

// requeueFlags say which dead jobs live again, and how fast.
type requeueFlags struct {
	duly.RequeueParams
	target string
	rate   float64 // jobs per second; 0 or none: no bound
}

func deadRequeueCommand(a *app) *cobra.Command {
	var f requeueFlags
	var ttl time.Duration
	cmd := a.command("requeue QUEUE [ID…]", "Let dead jobs live again: all that are dead now, the oldest, or by ID",
		`The jobs are pushed now under their old IDs, with no failures and no TTL. One whose merge key is held by a waiting job
is merged into that; one whose order key is busy is blocked.

--target takes the jobs that a push queue sends to one target. --rate spares a receiver that has just come back. Ctrl-C
ends the command between two calls, and it says how many jobs live again.`,
		`  duly dead requeue emails
  duly dead requeue emails welcome-4711
  duly dead requeue emails --limit 100 --tries 3 --ttl 1h
  duly dead requeue orders --target crm --rate 100/s`,
		func(ctx context.Context, out *printer, args []string) error {
			f.IDs, f.TTL = args[1:], ttl
			switch {
			case len(f.IDs) > 0 && f.N > 0:
				return misusef("--limit and IDs are both given, give one of them")
			case f.target != "" && len(f.IDs) > 0:
				return misusef("--target and IDs are both given, give one of them")
			}
			return a.with(ctx, func(s *session) error { return a.requeue(ctx, out, s, args[0], &f) })
		})
	cmd.Args = wants("QUEUE", "[ID…]")
	cmd.ValidArgsFunction = a.completeQueues(1)
	countVar(cmd.Flags(), &f.N, "limit", "only that many, the oldest")
	renamed(cmd.Flags(), "oldest", "limit")
	countVar(cmd.Flags(), &f.Tries, "tries", "their new number of tries (default: their own)")
	spanVar(cmd.Flags(), &ttl, "ttl", "drop them when they have waited so long (default: never)")
	cmd.Flags().StringVar(&f.target, "target", "", "only the jobs that go to this `target`")
	cmd.Flags().Var(rateFlag{&f.rate}, "rate", "jobs per second (default: as fast as possible)")
	return cmd
}

// requeueTally counts what became of dead jobs.
type requeueTally struct{ ready, blocked, merged, failed int64 }

// count returns how many jobs live again.
func (t *requeueTally) count() int64 { return t.ready + t.blocked + t.merged }

func (t *requeueTally) String() string {
	text := fmt.Sprintf("requeued %s", plural(t.count(), "job"))
	if t.blocked > 0 {
		text += fmt.Sprintf(", %s blocked by their order keys", countText(t.blocked))
	}
	if t.merged > 0 {
		text += fmt.Sprintf(", %s merged into waiting jobs", countText(t.merged))
	}
	return text
}

// requeue stops at the number of jobs that were dead when it began, so that what
// dies again meanwhile is left.
func (a *app) requeue(ctx context.Context, out *printer, s *session, queue string, f *requeueFlags) error {
	if err := a.mustExist(ctx, s, queue); err != nil {
		return err
	}
	stats, err := s.Stats(ctx, s.queue(queue))
	if err != nil {
		return err
	}
	r := &requeuer{a: a, out: out, s: s, queue: s.queue(queue), flags: f, dead: int(stats.Sizes.Dead), most: duly.MaxBatch}
	if f.rate > 0 {
		r.most = max(1, min(int(f.rate/10), duly.MaxBatch))
	}

	if f.target != "" {
		err = r.ofTarget(ctx)
	} else {
		err = r.all(ctx)
	}
	r.bar.end()
	if !out.json {
		out.printf("%s\n", r.tally.String())
	}
	switch {
	case err != nil && len(f.IDs) == 0:
		return adviseOn(duly.CodeUnavailable, err, "some may have been requeued; look before you repeat: %s dead list %s", a.program(), shellQuote(queue))
	case err != nil:
		return err
	case r.tally.failed > 0:
		return errReported
	}
	return nil
}

// requeuer lets dead jobs of a queue live again.
type requeuer struct {
	a     *app
	out   *printer
	s     *session
	queue duly.QueueRef
	flags *requeueFlags
	dead  int       // jobs that were dead when it began
	most  int       // jobs of one call
	next  time.Time // of the next call at this rate
	tally requeueTally
	bar   *progress
}

// all takes the jobs with the IDs of the command, or the oldest.
func (r *requeuer) all(ctx context.Context) error {
	ids, left := r.flags.IDs, max(len(r.flags.IDs), r.flags.N)
	if left == 0 {
		left = r.dead
	}
	r.bar = r.a.newProgress("requeue", int64(left))
	for left > 0 {
		call := r.flags.RequeueParams
		n := min(left, r.most)
		if len(ids) > 0 {
			call.IDs, ids = ids[:n], ids[n:]
		} else {
			call.N = n
		}
		found, err := r.call(ctx, call, n)
		if err != nil || found == 0 {
			return err
		}
		left -= n
		r.bar.add(int64(n), 0)
	}
	return nil
}

// ofTarget looks at the dead jobs, the oldest first, and takes those that go to the
// target.
func (r *requeuer) ofTarget(ctx context.Context) error {
	target := duly.TargetPrefix + strings.TrimPrefix(r.flags.target, duly.TargetPrefix)
	cfg, err := r.s.Config(ctx, r.queue)
	if err != nil {
		return err
	}

	r.bar = r.a.newProgress("requeue", int64(r.dead))
	page := duly.PageParams{Limit: duly.MaxBatch}
	for left := r.dead; left > 0; {
		found, err := r.s.List(ctx, r.queue, duly.ListParams{State: duly.StateDead, PageParams: page})
		if err != nil {
			return err
		}
		var ids []string
		for i := range found.Jobs[:min(left, len(found.Jobs))] {
			if j := &found.Jobs[i]; cmp.Or(j.Callback, cfg.Push.URL) == target {
				ids = append(ids, j.ID)
			}
		}
		done, err := r.some(ctx, ids)
		if err != nil || done {
			return err
		}
		left -= len(found.Jobs)
		r.bar.add(int64(len(found.Jobs)), 0)
		if page.Cursor = found.Next; page.Cursor == "" {
			return nil
		}
	}
	return nil
}

// some takes jobs by ID. It reports whether that was the last that the command may
// take.
func (r *requeuer) some(ctx context.Context, ids []string) (done bool, err error) {
	for part := range slices.Chunk(ids, r.most) {
		call := r.flags.RequeueParams
		if call.N = 0; r.flags.N > 0 {
			part = part[:min(len(part), r.flags.N-int(r.tally.count()))]
		}
		if len(part) == 0 {
			return true, nil
		}
		call.IDs = part
		if _, err := r.call(ctx, call, len(part)); err != nil {
			return false, err
		}
	}
	return r.flags.N > 0 && int(r.tally.count()) >= r.flags.N, nil
}

// call makes one call for up to n jobs, not before its time. It returns how many jobs
// were answered.
func (r *requeuer) call(ctx context.Context, p duly.RequeueParams, n int) (found int, err error) {
	if r.flags.rate > 0 {
		now := r.a.env.Clock.Now()
		if err := clock.Sleep(ctx, r.a.env.Clock, r.next.Sub(now)); err != nil {
			return 0, err
		}
		if r.next.Before(now) {
			r.next = now
		}
		r.next = r.next.Add(time.Duration(float64(n) / r.flags.rate * float64(time.Second)))
	}

	results, err := r.s.Requeue(ctx, r.queue, p)
	if err != nil {
		return 0, err
	}
	return len(results), r.a.requeued(r.out, r.queue.Name, results, &r.tally)
}

func (a *app) requeued(out *printer, queue string, results []duly.RequeueResult, t *requeueTally) error {
	if out.json {
		out.lines(wire.RequeuedForm.Append(nil, results))
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
