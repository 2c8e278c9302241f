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
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/wire"
	"github.com/dulymq/duly/server/failures"
)

func deadCommand(a *app) *cobra.Command {
	return a.group("dead", "List, requeue or remove dead jobs",
		deadListCommand(a), deadRequeueCommand(a), deadPurgeCommand(a))
}

func deadListCommand(a *app) *cobra.Command {
	f := listFlags{limit: duly.DefaultPage}
	groups := false
	cmd := a.command("list QUEUE", "List dead jobs with their last errors, oldest first",
		`A job is dead if it used up its tries or stalls, or was buried. WHEN is the time when it became dead. FAILED is the
number of failed tries, such as 3/16. A job that was buried, or that stalled too often, had tries left. The last
column is its last error.

--newest lists the newest jobs of each shard first. --from begins at this time: at the first job that became dead then
or later, with --newest at the last one that became dead then or earlier. A duration such as 10m is 10 minutes ago. For
the jobs of the last 10 minutes, leave out --newest.

`+whereHelp+`

--groups counts the jobs by their errors, the largest group first. It ignores numbers, IDs, addresses and quoted texts.
FIRST and LAST are the times when the first and the last job of a group became dead. TRIES is the attempt at which they
did. With --json, a line per group has the pattern of its errors, and samples.`,
		`  duly dead list emails
  duly dead list emails --newest --limit 10
  duly dead list emails --from 2026-01-31T10:00:00Z
  duly dead list emails --where 'error~timeout attempt>=3'
  duly dead list emails --groups
  duly dead list emails --groups --json | jq -r '[.count, .pattern] | @tsv'
  duly dead list emails --limit none --json | jq -r .last_error`,
		func(ctx context.Context, p *printer, args []string) error {
			if groups && (f.cursor != "" || f.bodies || f.newest || f.from.set || f.where != "") {
				return usageErrorf("--groups counts all dead jobs; leave out --cursor, --bodies, --newest, --from and --where")
			}
			return a.withEngine(ctx, func(s *session) error {
				if groups {
					return a.deadGroups(ctx, p, s, args[0], f.limit)
				}
				return a.listJobs(ctx, p, s, args[0], []duly.State{duly.StateDead}, f)
			})
		})

	cmd.Args = takesArgs("QUEUE")
	cmd.ValidArgsFunction = a.completeQueues(1)
	f.add(cmd.Flags())
	f.addChoice(cmd.Flags())
	cmd.Flags().BoolVar(&groups, "groups", false, "count the jobs by their errors; --limit is the number of groups")
	return cmd
}

// requeueFlags are the flags of `duly dead requeue`.
type requeueFlags struct {
	duly.RequeueParams
	target string
	group  string
	rate   float64 // jobs per second; 0 or None means no limit
}

func deadRequeueCommand(a *app) *cobra.Command {
	var f requeueFlags
	var ttl time.Duration
	cmd := a.command("requeue QUEUE [ID…]", "Requeue dead jobs: all, the oldest, or by ID",
		`The jobs are pushed now under their old IDs, with no failures and no TTL. If a waiting job has the same merge key,
the job is merged into it. If the order key is busy, the job is blocked.

--target selects the jobs that a push queue sends to one target. --group selects the jobs with one error, by the GROUP
of dead list --groups. --rate protects a receiver that has just recovered. Ctrl-C ends the command between two calls. It
prints how many jobs were requeued.`,
		`  duly dead requeue emails
  duly dead requeue emails welcome-4711
  duly dead requeue emails --limit 100 --tries 3 --ttl 1h
  duly dead requeue orders --target crm --rate 100/s
  duly dead requeue emails --group c4e7bfbe4fea --limit 10`,
		func(ctx context.Context, out *printer, args []string) error {
			f.IDs, f.TTL = args[1:], ttl

			// IDs already limit the jobs, so a second selection could only contradict them.
			switch {
			case len(f.IDs) > 0 && f.N > 0:
				return usageErrorf("--limit and IDs are both given, give one of them")
			case f.target != "" && len(f.IDs) > 0:
				return usageErrorf("--target and IDs are both given, give one of them")
			case f.group != "" && len(f.IDs) > 0:
				return usageErrorf("--group and IDs are both given, give one of them")
			case f.group != "" && !failures.IsFingerprint(f.group):
				return usageErrorf("--group is %q, must have 12 hexadecimal digits; take it from dead list --groups", f.group)
			}
			return a.withEngine(ctx, func(s *session) error { return a.requeue(ctx, out, s, args[0], &f) })
		})

	cmd.Args = takesArgs("QUEUE", "[ID…]")
	cmd.ValidArgsFunction = a.completeQueues(1)
	countVar(cmd.Flags(), &f.N, "limit", "maximum number, the oldest first")
	acceptOldName(cmd.Flags(), "oldest", "limit")
	countVar(cmd.Flags(), &f.Tries, "tries", "new number of tries (default: unchanged)")
	optionalDurationVar(cmd.Flags(), &ttl, "ttl", "drop the jobs after waiting this long (default: never)")
	cmd.Flags().StringVar(&f.target, "target", "", "only the jobs for this `target`")
	cmd.Flags().StringVar(&f.group, "group", "", "only the jobs of this `group`")
	cmd.Flags().Var(rateFlag{&f.rate}, "rate", "jobs per second (default: as fast as possible)")
	return cmd
}

// requeueCounts counts the results of requeues.
type requeueCounts struct{ ready, blocked, merged, failed int64 }

// total returns the number of requeued jobs.
func (c *requeueCounts) total() int64 { return c.ready + c.blocked + c.merged }

func (c *requeueCounts) String() string {
	text := fmt.Sprintf("requeued %s", plural(c.total(), "job"))
	if c.blocked > 0 {
		text += fmt.Sprintf(", %s blocked by their order keys", countText(c.blocked))
	}
	if c.merged > 0 {
		text += fmt.Sprintf(", %s merged into waiting jobs", countText(c.merged))
	}
	return text
}

// requeue requeues at most as many jobs as are dead at its start, so that jobs that die
// again meanwhile stay dead.
func (a *app) requeue(ctx context.Context, out *printer, s *session, queue string, f *requeueFlags) error {
	// The statistics of a missing queue and an empty one are equal, but a misspelled name must
	// fail.
	if err := a.mustExist(ctx, s, queue); err != nil {
		return err
	}
	stats, err := s.Stats(ctx, s.queue(queue))
	if err != nil {
		return err
	}
	r := &requeuer{
		a: a, out: out, s: s, queue: s.queue(queue), flags: f, dead: int(stats.Sizes.Dead), batch: duly.MaxBatch,
	}
	if f.rate > 0 { // ten calls per second
		// At low rates a call still has one job, or nothing would be requeued.
		r.batch = max(1, min(int(f.rate/10), duly.MaxBatch))
	}

	if f.target != "" || f.group != "" {
		err = r.requeueSome(ctx)
	} else {
		err = r.requeueAll(ctx)
	}
	r.bar.end()

	// The counts are printed after an error too, because the calls before it took effect.
	if !out.json {
		out.printf("%s\n", r.counts.String())
		if err == nil && f.group != "" && r.counts.total()+r.counts.failed == 0 {
			a.note("no dead job has this error; see: %s dead list %s --groups", a.program(), shellQuote(queue))
		}
	}

	switch {
	// A repeat with the same IDs requeues no other jobs. Without IDs it may.
	case err != nil && len(f.IDs) == 0:
		return withHintFor(duly.CodeUnavailable, err, "some jobs may be requeued; check before you repeat: %s dead list %s",
			a.program(), shellQuote(queue))
	case err != nil:
		return err
	case r.counts.failed > 0:
		return errReported
	}
	return nil
}

// requeuer requeues dead jobs of a queue.
type requeuer struct {
	a      *app
	out    *printer
	s      *session
	queue  duly.QueueRef
	flags  *requeueFlags
	dead   int       // number of dead jobs at the start
	batch  int       // jobs per call
	next   time.Time // time of the next call at this rate
	counts requeueCounts
	bar    *progress
}

// requeueAll requeues the jobs with the command's IDs, or the oldest jobs.
func (r *requeuer) requeueAll(ctx context.Context) error {
	ids, left := r.flags.IDs, max(len(r.flags.IDs), r.flags.N)

	// N is the command's limit. Without it, the number of dead jobs at the start bounds the loop.
	if left == 0 {
		left = r.dead
	}

	r.bar = r.a.newProgress("requeue", int64(left))
	for left > 0 {
		call := r.flags.RequeueParams
		n := min(left, r.batch)
		if len(ids) > 0 {
			call.IDs, ids = ids[:n], ids[n:]
		} else {
			call.N = n
		}
		found, err := r.call(ctx, call, n)
		// No result means that no dead jobs are left, although the count promised more.
		if err != nil || found == 0 {
			return err
		}
		left -= n
		r.bar.add(int64(n), 0)
	}
	return nil
}

// requeueSome lists the dead jobs, the oldest first, and requeues those for the target and of the group.
func (r *requeuer) requeueSome(ctx context.Context) error {
	// The prefix is optional in the flag, so that a target can be copied from either form.
	target := contract.TargetPrefix + strings.TrimPrefix(r.flags.target, contract.TargetPrefix)
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

		// The last page may hold jobs that died after the start. They stay dead.
		for i := range found.Jobs[:min(left, len(found.Jobs))] {
			j := &found.Jobs[i]
			if (r.flags.target == "" || cmp.Or(j.Callback, cfg.Push.URL) == target) &&
				(r.flags.group == "" || failures.Fingerprint(j.LastError) == r.flags.group) {
				ids = append(ids, j.ID)
			}
		}

		done, err := r.requeueIDs(ctx, ids)
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

// requeueIDs requeues jobs by ID. done reports whether the command's limit is reached.
func (r *requeuer) requeueIDs(ctx context.Context, ids []string) (done bool, err error) {
	for part := range slices.Chunk(ids, r.batch) {
		call := r.flags.RequeueParams
		if call.N = 0; r.flags.N > 0 {
			// Results that failed do not count, so the limit is one of requeued jobs.
			part = part[:min(len(part), r.flags.N-int(r.counts.total()))]
		}
		if len(part) == 0 {
			return true, nil
		}
		call.IDs = part
		if _, err := r.call(ctx, call, len(part)); err != nil {
			return false, err
		}
	}
	return r.flags.N > 0 && int(r.counts.total()) >= r.flags.N, nil
}

// call waits for the time of the next call and requeues up to n jobs. It returns the
// number of results.
func (r *requeuer) call(ctx context.Context, p duly.RequeueParams, n int) (found int, err error) {
	if r.flags.rate > 0 {
		now := r.a.env.Clock.Now()
		if err := clock.Sleep(ctx, r.a.env.Clock, r.next.Sub(now)); err != nil {
			return 0, err
		}
		// After a slow call the rate is not exceeded to catch up.
		if r.next.Before(now) {
			r.next = now
		}
		r.next = r.next.Add(time.Duration(float64(n) / r.flags.rate * float64(time.Second)))
	}

	results, err := r.s.Requeue(ctx, r.queue, p)
	if err != nil {
		return 0, err
	}
	return len(results), r.a.printRequeued(r.out, r.queue.Name, results, &r.counts)
}

// printRequeued prints and counts results.
func (a *app) printRequeued(out *printer, queue string, results []duly.RequeueResult, c *requeueCounts) error {
	if out.json {
		// The lines go out unchanged. The loop below still counts the results for the exit status.
		out.lines(wire.RequeuedForm.Append(nil, results))
	}

	for _, r := range results {
		switch {
		case r.Err != nil:
			c.failed++
			if !out.json {
				code := duly.CodeOf(r.Err)
				hint := a.hint(nil, code, a.withJobHint(r.Err, queue, r.ID))
				a.printError(code, fmt.Errorf("%s: %w", r.ID, r.Err), hint)
			}
		case r.State == duly.StateBlocked:
			c.blocked++
		case r.State == duly.StateNone:
			c.merged++
		default:
			c.ready++
		}
	}
	return out.flush()
}

func deadPurgeCommand(a *app) *cobra.Command {
	var f purgeFlags
	cmd := a.command("purge QUEUE", "Remove dead jobs permanently",
		`Removes all dead jobs, or the oldest. Asks first, unless --yes is given.`,
		`  duly dead purge emails --yes
  duly dead purge emails --limit 1000 --yes`,
		func(ctx context.Context, p *printer, args []string) error {
			return a.purge(ctx, p, args[0], duly.StateDead, f)
		})

	cmd.Args = takesArgs("QUEUE")
	cmd.ValidArgsFunction = a.completeQueues(1)
	f.add(cmd.Flags(), "oldest")
	return cmd
}
