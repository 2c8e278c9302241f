package maintain

import (
	"context"
	"fmt"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/redisengine/internal/catalog"
	"github.com/dulymq/duly/redisengine/internal/codec"
	"github.com/dulymq/duly/redisengine/internal/store"
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
func (e *Maintainer) Check(ctx context.Context, p duly.CheckParams) (duly.CheckReport, error) {
	if err := e.Alive(ctx); err != nil {
		return duly.CheckReport{}, err
	}
	c := &check{e: e.Catalog, p: p}
	err := e.EachPage(ctx, e.NamespacesKey(), func(namespaces []string) error {
		for _, namespace := range namespaces {
			look := c.namespace
			if store.InvalidNamespace(namespace) {
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
		e.Libraries.clean(ctx)
	}
	return c.report, err
}

// check is one Check under way.
type check struct {
	e      *catalog.Catalog
	p      duly.CheckParams
	before int64 // jobs of the shards that were looked at before this one
	report duly.CheckReport
	// silent are shards where jobs are deliverable and no marker says so, with
	// how they stood.
	silent []silent
}

type silent struct {
	catalog.ShardRef
	standing string
}

func (c *check) queue(ctx context.Context, ref duly.QueueRef) error {
	for at := (catalog.ShardRef{Ref: ref}); ; at.Index++ {
		if there, err := c.shard(ctx, at); err != nil || !there {
			return err
		}
	}
}

// shard walks over one shard, and again as long as that mends something.
func (c *check) shard(ctx context.Context, at catalog.ShardRef) (there bool, err error) {
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
func (c *check) walk(ctx context.Context, at catalog.ShardRef, counts bool) (jobs int64, there bool, err error) {
	where, cursor := "1", "0"
	for where != "0" {
		var suspects []rueidis.RedisMessage
		there, err = c.e.WithShard(ctx, at, func(q *catalog.Queue, s *catalog.Shard) error {
			r, err := c.e.Call(ctx, q, s, store.ScriptCheckPage, where, cursor, strconv.Itoa(checkPage))
			if err != nil {
				return err
			}
			where, cursor = strconv.FormatInt(codec.Integer(&r.Rest[0]), 10), codec.Text(&r.Rest[1])
			jobs += codec.Integer(&r.Rest[2])
			if counts {
				c.progress(codec.Integer(&r.Rest[2]), codec.Integer(&r.Rest[3]))
			}
			suspects = codec.Elements(&r.Rest[4])
			return nil
		})
		if err != nil || !there {
			return jobs, there, err
		}
		for i := range suspects {
			suspect := codec.Elements(&suspects[i])
			if err := c.suspect(ctx, at, codec.Text(&suspect[0]), codec.Text(&suspect[1])); err != nil {
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
func (c *check) suspect(ctx context.Context, at catalog.ShardRef, of, name string) error {
	_, err := c.e.WithShard(ctx, at, func(q *catalog.Queue, s *catalog.Shard) error {
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
func (c *check) job(ctx context.Context, q *catalog.Queue, s *catalog.Shard, n, member string) error {
	r, err := c.e.Call(ctx, q, s, store.ScriptCheckJob, s.Limits, n, member, c.repair(), fallbackAlias(fallback(q, n, s.Index)))
	if err != nil {
		return err
	}
	id := codec.IDOf(codec.Text(&r.Rest[1]))
	if id == "" {
		id = codec.NumberText(n)
	}
	mended := c.p.Repair && codec.Integer(&r.Rest[2]) == 1
	for _, f := range readFaults(&r.Rest[0]) {
		c.found(q.Ref, id, f, mended)
	}
	log := c.e.Settings.Logger.With("queue", q.Ref.String(), "shard", s.Index, "number", codec.NumberText(n))
	if codec.Integer(&r.Rest[3]) == 1 {
		log.Error("what is left of a job was removed: its record is lost")
	}
	if reason := codec.Text(&r.Rest[4]); reason != "" {
		log.Error("a damaged job is a dead letter now", "id", id, "reason", reason)
	}
	return nil
}

// entry judges an alias, a busy key or a policy.
func (c *check) entry(ctx context.Context, q *catalog.Queue, s *catalog.Shard, of, name string) error {
	r, err := c.e.Call(ctx, q, s, store.ScriptCheckEntry, s.Limits, of, name, c.repair())
	if err != nil {
		return err
	}
	for _, f := range readFaults(&r.Rest[0]) {
		f.detail = entryText(of, name, codec.Text(&r.Rest[1]))
		id := ""
		if f.kind == faultAliasStray && name != "" {
			id = codec.IDOf(name)
		}
		c.found(q.Ref, id, f, c.p.Repair)
	}
	return nil
}

// entryText is an entry of a hash as it is reported.
func entryText(of, name, value string) string {
	switch {
	case of != "policies":
		return fmt.Sprintf("%q names %s", name, codec.NumberText(value))
	case len(name) == 1:
		return fmt.Sprintf("policy %d", name[0])
	}
	return fmt.Sprintf("%q leads to policy %q", name, value)
}

// totals judges a shard's counters and its marker. It answers how the shard
// stands if jobs are deliverable that no marker tells of.
func (c *check) totals(ctx context.Context, at catalog.ShardRef, seen string) (standing string, err error) {
	_, err = c.e.WithShard(ctx, at, func(q *catalog.Queue, s *catalog.Shard) error {
		r, err := c.e.Call(ctx, q, s, store.ScriptCheckShard, s.Limits, c.repair(), seen)
		if err != nil {
			return err
		}
		for _, f := range readFaults(&r.Rest[0]) {
			f.detail += fmt.Sprintf(" (shard %d)", s.Index)
			c.found(q.Ref, "", f, c.p.Repair)
		}
		standing = codec.Text(&r.Rest[1])
		return nil
	})
	return standing, err
}

// markersAgain judges the missing markers. The process that took one may be about
// to reserve; it has had its time when every waiting process has looked around. A
// clock that a test moves stands still meanwhile: nobody's time is over.
func (c *check) markersAgain(ctx context.Context) error {
	if len(c.silent) == 0 || c.e.Settings.Clock != nil {
		return nil
	}
	if err := clock.Sleep(ctx, clock.System(), store.Recheck); err != nil {
		return err
	}
	for _, s := range c.silent {
		if _, err := c.totals(ctx, s.ShardRef, s.standing); err != nil {
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

// fallbackAlias is the alias of a fallback, "" for none.
func fallbackAlias(id string) string {
	if id == "" {
		return ""
	}
	return codec.Alias(id)
}

// fallback is the ID of a job of q that has lost its own: its number, said by "",
// if that leads to this shard; else one that does.
func fallback(q *catalog.Queue, n string, index int) string {
	id := codec.NumberText(n)
	if len(n) != len(duly.Number{}) || duly.ShardOf(id, len(q.Shards)) == index {
		return ""
	}
	for i := 0; ; i++ {
		if own := id + "-" + strconv.Itoa(i); duly.ShardOf(own, len(q.Shards)) == index {
			return own
		}
	}
}
