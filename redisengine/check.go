package redisengine

import (
	"context"
	"fmt"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
)

const (
	// checkPage is about how many entries one script call looks at: some
	// 0.3 ms of the server's time.
	checkPage = 50
	// checkPasses bounds how often a repair walks over a shard. A mend may bring
	// up what was hidden, so a pass that has mended is followed by another.
	checkPasses = 4
)

// Check implements duly.Maintainer. It walks over every shard, page by page,
// each page judged by one script as it stands at that moment; what is suspect
// is judged again, and mended, in one script call of its own. So others may
// work beside it.
func (e *Engine) Check(ctx context.Context, p duly.CheckParams) (duly.CheckReport, error) {
	if err := e.alive(ctx); err != nil {
		return duly.CheckReport{}, err
	}
	c := &check{e: e, p: p}
	err := e.eachPage(ctx, e.namespacesKey(), func(namespaces []string) error {
		for _, namespace := range namespaces {
			look := c.namespace
			if noNamespace(namespace) {
				look = c.dropNamespace
			}
			if err := look(ctx, namespace); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		err = c.markersAgain(ctx)
	}
	if err == nil && p.Repair {
		e.libraries.tidy(ctx)
	}
	return c.report, err
}

// check is one Check under way.
type check struct {
	e      *Engine
	p      duly.CheckParams
	before int64 // jobs of the shards that were looked at before this one
	report duly.CheckReport
	// silent are shards where jobs are deliverable and no marker says so, with
	// how they stood.
	silent []silent
}

type silent struct {
	part
	standing string
}

func (c *check) queue(ctx context.Context, ref duly.QueueRef) error {
	for at := (part{ref: ref}); ; at.index++ {
		if there, err := c.shard(ctx, at); err != nil || !there {
			return err
		}
	}
}

// shard walks over one shard, and again as long as that mends something.
func (c *check) shard(ctx context.Context, at part) (there bool, err error) {
	for pass := range checkPasses {
		mended := c.report.Repaired
		jobs, there, err := c.walk(ctx, at, pass == 0)
		if err != nil || !there {
			return there, err
		}
		standing, err := c.totals(ctx, at, "")
		if err != nil {
			return false, err
		}
		if pass == 0 {
			c.before += jobs
			if standing != "" {
				c.silent = append(c.silent, silent{at, standing})
			}
		}
		if c.report.Repaired == mended {
			break
		}
	}
	return true, ctx.Err()
}

// walk looks at everything that a shard holds.
func (c *check) walk(ctx context.Context, at part, counts bool) (jobs int64, there bool, err error) {
	where, cursor := "1", "0"
	for where != "0" {
		var suspects []rueidis.RedisMessage
		there, err = c.e.withShard(ctx, at, func(q *queue, s *shard) error {
			r, err := c.e.call(ctx, q, s, scriptCheckPage, where, cursor, strconv.Itoa(checkPage))
			if err != nil {
				return err
			}
			where, cursor = strconv.FormatInt(integer(&r.rest[0]), 10), text(&r.rest[1])
			jobs += integer(&r.rest[2])
			if counts {
				c.progress(integer(&r.rest[2]), integer(&r.rest[3]))
			}
			suspects = elements(&r.rest[4])
			return nil
		})
		if err != nil || !there {
			return jobs, there, err
		}
		for i := range suspects {
			suspect := elements(&suspects[i])
			if err := c.suspect(ctx, at, text(&suspect[0]), text(&suspect[1])); err != nil {
				return jobs, true, err
			}
		}
	}
	return jobs, true, nil
}

// progress tells how far the check is: jobs were looked at in a shard of all.
func (c *check) progress(jobs, all int64) {
	c.report.Jobs += jobs
	if c.p.Progress != nil {
		c.p.Progress(c.report.Jobs, max(c.before+all, c.report.Jobs))
	}
}

func (c *check) repair() string {
	if c.p.Repair {
		return "1"
	}
	return "0"
}

// suspect judges what a page has named, by itself.
func (c *check) suspect(ctx context.Context, at part, of, name string) error {
	_, err := c.e.withShard(ctx, at, func(q *queue, s *shard) error {
		switch of {
		case "alias", "busy", "policies":
			return c.entry(ctx, q, s, of, name)
		case "blocked":
			return c.job(ctx, q, s, name[max(0, len(name)-len(duly.Number{})):], name)
		}
		return c.job(ctx, q, s, name, "")
	})
	return err
}

// job judges a number, which the blocked set knows by the member.
func (c *check) job(ctx context.Context, q *queue, s *shard, n, member string) error {
	r, err := c.e.call(ctx, q, s, scriptCheckJob, s.limits, n, member, c.repair(), fallbackAlias(q.fallback(n, s.index)))
	if err != nil {
		return err
	}
	id := idOf(text(&r.rest[1]))
	if id == "" {
		id = numberText(n)
	}
	mended := c.p.Repair && integer(&r.rest[2]) == 1
	for _, f := range readFaults(&r.rest[0]) {
		c.found(q.ref, id, f, mended)
	}
	log := c.e.cfg.Logger.With("queue", q.ref.String(), "shard", s.index, "number", numberText(n))
	if integer(&r.rest[3]) == 1 {
		log.Error("what is left of a job was removed: its record is lost")
	}
	if reason := text(&r.rest[4]); reason != "" {
		log.Error("a damaged job is a dead letter now", "id", id, "reason", reason)
	}
	return nil
}

// entry judges an alias, a busy key or a policy.
func (c *check) entry(ctx context.Context, q *queue, s *shard, of, name string) error {
	r, err := c.e.call(ctx, q, s, scriptCheckEntry, s.limits, of, name, c.repair())
	if err != nil {
		return err
	}
	for _, f := range readFaults(&r.rest[0]) {
		f.detail = entryText(of, name, text(&r.rest[1]))
		id := ""
		if f.kind == faultAliasStray && name != "" {
			id = idOf(name)
		}
		c.found(q.ref, id, f, c.p.Repair)
	}
	return nil
}

// entryText is an entry of a hash as it is reported.
func entryText(of, name, value string) string {
	switch {
	case of != "policies":
		return fmt.Sprintf("%q names %s", name, numberText(value))
	case len(name) == 1:
		return fmt.Sprintf("policy %d", name[0])
	}
	return fmt.Sprintf("%q leads to policy %q", name, value)
}

// totals judges a shard's counters and its marker. It answers how the shard
// stands if jobs are deliverable that no marker tells of.
func (c *check) totals(ctx context.Context, at part, seen string) (standing string, err error) {
	_, err = c.e.withShard(ctx, at, func(q *queue, s *shard) error {
		r, err := c.e.call(ctx, q, s, scriptCheckShard, s.limits, c.repair(), seen)
		if err != nil {
			return err
		}
		for _, f := range readFaults(&r.rest[0]) {
			f.detail += fmt.Sprintf(" (shard %d)", s.index)
			c.found(q.ref, "", f, c.p.Repair)
		}
		standing = text(&r.rest[1])
		return nil
	})
	return standing, err
}

// markersAgain judges the missing markers. The process that took one may be about
// to reserve; it has had its time when every waiting process has looked around. A
// clock that a test moves stands still meanwhile: nobody's time is over.
func (c *check) markersAgain(ctx context.Context) error {
	if len(c.silent) == 0 || c.e.cfg.Clock != nil {
		return nil
	}
	if err := clock.Sleep(ctx, clock.System(), recheck); err != nil {
		return err
	}
	for _, s := range c.silent {
		if _, err := c.totals(ctx, s.part, s.standing); err != nil {
			return err
		}
	}
	return nil
}

func (c *check) found(ref duly.QueueRef, id string, f scriptFault, mended bool) {
	c.report.Faults = append(c.report.Faults, duly.Fault{Kind: f.kind, Queue: ref, ID: id, Detail: f.detail, Repaired: mended})
	if mended {
		c.report.Repaired++
	}
}

// numberText is a job's number as it is told; what is none is quoted.
func numberText(n string) string {
	var number duly.Number
	if len(n) != len(number) {
		return strconv.Quote(n)
	}
	copy(number[:], n)
	return number.String()
}

// fallbackAlias is the alias of a fallback, "" for none.
func fallbackAlias(id string) string {
	if id == "" {
		return ""
	}
	return alias(id)
}

// fallback is the ID of a job that has lost its own: its number, said by "",
// if that leads to this shard; else one that does.
func (q *queue) fallback(n string, index int) string {
	id := numberText(n)
	if len(n) != len(duly.Number{}) || duly.ShardOf(id, len(q.shards)) == index {
		return ""
	}
	for i := 0; ; i++ {
		if own := id + "-" + strconv.Itoa(i); duly.ShardOf(own, len(q.shards)) == index {
			return own
		}
	}
}
