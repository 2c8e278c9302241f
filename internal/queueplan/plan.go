package queueplan

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// Engine answers the questions of a plan. Every engine implements it.
type Engine interface {
	// Config returns the configuration of a queue.
	Config(ctx context.Context, q duly.QueueRef) (duly.QueueConfig, error)
	// Stats returns the sizes of a queue.
	Stats(ctx context.Context, q duly.QueueRef) (duly.Stats, error)
	// List returns a page of jobs of one state.
	List(ctx context.Context, q duly.QueueRef, p duly.ListParams) (duly.ListPage, error)
}

// Plan is a change that has not been made.
type Plan struct {
	// Before and After are the whole configurations. Creates is set if the queue does not exist. It then has the defaults
	// before.
	Before, After duly.QueueConfig
	Creates       bool
	// Changes are the settings that differ, in the order of the HTTP API.
	Changes []Change
	// Effects are sentences about the jobs that the queue has now.
	Effects []string
}

// Change is a setting that changes. Its field has the name of the HTTP API, such as defaults.tries.
type Change struct {
	Field, From, To string
}

// Of returns the plan of a patch. It returns the errors that Configure would return for the patch.
func Of(ctx context.Context, e Engine, q duly.QueueRef, patch duly.QueueConfig, now time.Time) (*Plan, error) {
	if err := contract.ValidateConfigFor(patch, q); err != nil {
		return nil, err
	}
	p, stats, err := read(ctx, e, q)
	if err != nil {
		return nil, err
	}
	p.After = contract.PatchConfig(p.Before, patch)
	if err := p.check(q, &stats); err != nil {
		return nil, err
	}
	p.Changes = changes(p.Before, p.After)
	if until := p.Before.Closing.Until; patch.Reopen && until.After(now) {
		p.add("The queue opens now, %s before its closing ends.", duly.FormatDuration(until.Sub(now).Truncate(time.Millisecond)))
	}
	p.limits(&stats)
	return p, p.dropped(ctx, e, q, &stats, now)
}

// read returns a plan without a change, and the stats of the queue.
func read(ctx context.Context, e Engine, q duly.QueueRef) (p *Plan, stats duly.Stats, err error) {
	p = &Plan{}
	if p.Before, err = e.Config(ctx, q); err == nil {
		stats, err = e.Stats(ctx, q)
	}

	// Only a group must exist. Some engines return the defaults of a queue that does not exist, and empty stats.
	if errors.Is(err, duly.ErrNotFound) && !q.IsGroup() {
		return &Plan{Before: contract.DefaultQueueConfig(), Creates: true}, stats, nil
	}
	p.Creates = stats.Delivery == "" && !q.IsGroup()
	return p, stats, err
}

// check returns the error of a change that Configure would refuse.
func (p *Plan) check(q duly.QueueRef, s *duly.Stats) error {
	if p.After.Shards != p.Before.Shards && !p.Creates {
		return contract.ShardsFixed(p.Before.Shards)
	}
	if p.After.Delivery != p.Before.Delivery && s.Sizes != (duly.Sizes{}) {
		return contract.DeliveryInUse(q, p.Before.Delivery)
	}
	return contract.CheckConfig(p.After)
}

// add adds an effect.
func (p *Plan) add(format string, args ...any) {
	p.Effects = append(p.Effects, fmt.Sprintf(format, args...))
}

// limits adds the effects of limits on pushes and deliveries.
func (p *Plan) limits(s *duly.Stats) {
	old, new := &p.Before, &p.After
	if leased := s.Sizes.Leased; lower(old.MaxLeased, new.MaxLeased) && leased >= int64(new.MaxLeased) {
		p.add("%s leased now and max_leased is %d: no job is reserved before %s ended.", jobs(leased, "is", "are"),
			new.MaxLeased, leases(leased-int64(new.MaxLeased)+1))
	}

	held := s.Sizes.Delayed + s.Sizes.Ready + s.Sizes.Blocked + s.Sizes.Leased
	if lower(old.MaxJobs, new.MaxJobs) && held >= int64(new.MaxJobs) {
		p.add("%s not finished and max_jobs is %d: pushes are refused before %s finished.", jobs(held, "is", "are"),
			new.MaxJobs, jobs(held-int64(new.MaxJobs)+1, "has", "have"))
	}

	if rate := new.Rate; rate != old.Rate && rate.Limited() && s.Sizes.Ready > 0 {
		seconds := math.Ceil(math.Max(0, float64(s.Sizes.Ready)-float64(rate.Burst)) / rate.PerSecond)
		if after := time.Duration(math.Min(seconds, 1e9)) * time.Second; after > 0 {
			p.add("%s ready now: at this rate, the last one is delivered after %s.", jobs(s.Sizes.Ready, "is", "are"),
				duly.FormatDuration(after))
		}
	}

	// Some shards use up their part before others.
	if len(p.Effects) > 0 && new.Shards > 1 {
		p.add("Each of the %d shards enforces its part of a limit, so these numbers may be lower.", new.Shards)
	}
	if old.Defaults != new.Defaults {
		p.add("The jobs of the queue keep their values. The defaults are for jobs that are pushed from now on.")
	}
}

// dropped adds the effects of bounds on dead jobs.
func (p *Plan) dropped(ctx context.Context, e Engine, q duly.QueueRef, s *duly.Stats, now time.Time) error {
	dead := s.Sizes.Dead
	if lower(p.Before.DeadCount, p.After.DeadCount) && dead > int64(p.After.DeadCount) {
		p.add("%s dropped, the oldest first: the queue has %d and dead_count is %d.",
			deadJobs(dead-int64(p.After.DeadCount), "is", "are"), dead, p.After.DeadCount)
	}
	if p.After.DeadAge == duly.None || p.Before.DeadAge != duly.None && p.After.DeadAge >= p.Before.DeadAge || dead == 0 {
		return nil
	}

	// The oldest dead jobs come first in a list, in each shard.
	page, err := e.List(ctx, q, duly.ListParams{State: duly.StateDead, PageParams: duly.PageParams{Limit: duly.MaxBatch}})
	if err != nil {
		return err
	}
	old := int64(0)
	for i := range page.Jobs {
		if now.Sub(page.Jobs[i].FinishedAt) > p.After.DeadAge {
			old++
		}
	}
	switch {
	case old > 0 && page.Next != "":
		p.add("%d or more dead jobs are dropped: they are older than the dead_age of %s.", old,
			duly.FormatDuration(p.After.DeadAge))
	case old > 0:
		p.add("%s dropped: older than the dead_age of %s.", deadJobs(old, "is", "are"), duly.FormatDuration(p.After.DeadAge))
	}
	return nil
}

// lower reports whether a bound becomes lower. None is no bound.
func lower(from, to int) bool { return to != duly.None && (from == duly.None || to < from) }

func jobs(n int64, one, several string) string     { return count(n, "job", one, several) }
func deadJobs(n int64, one, several string) string { return count(n, "dead job", one, several) }
func leases(n int64) string                        { return count(n, "lease", "has", "have") }

// count returns a number of things with a verb, such as 2 jobs are.
func count(n int64, thing, one, several string) string {
	if n == 1 {
		return fmt.Sprintf("1 %s %s", thing, one)
	}
	return fmt.Sprintf("%d %ss %s", n, thing, several)
}
