package maintain

import (
	"context"
	"fmt"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/redisengine/internal/catalog"
	"github.com/dulymq/duly/redisengine/internal/codec"
	"github.com/dulymq/duly/redisengine/internal/store"
)

func (c *check) queue(ctx context.Context, ref duly.QueueRef) error {
	for at := (catalog.ShardRef{Ref: ref}); ; at.Index++ {
		if there, err := c.shard(ctx, at); err != nil || !there {
			return err
		}
	}
}

// shard checks one shard, and repeats that while it repairs faults.
func (c *check) shard(ctx context.Context, at catalog.ShardRef) (there bool, err error) {
	if c.p.Repair {
		// The repair of a job adds to the counters, which fails for a counter that is no number.
		if _, err := c.totals(ctx, at, "numbers", ""); err != nil {
			return false, err
		}
	}

	for pass := range checkPasses {
		repaired := c.report.Repaired
		jobs, there, err := c.walk(ctx, at, pass == 0)
		if err != nil || !there {
			return there, err
		}

		if err := c.schedules(ctx, at); err != nil {
			return false, err
		}
		standing, err := c.totals(ctx, at, c.repair(), "")
		if err != nil {
			return false, err
		}

		if pass == 0 {
			// Later passes count the same jobs again.
			c.before += jobs
			if standing != "" {
				c.silent = append(c.silent, silent{at, standing})
			}
		}

		if c.report.Repaired == repaired {
			break
		}
	}

	return true, ctx.Err()
}

// walk reads all entries of a shard.
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

		// Each suspect is checked in a script call that sees only its current state.
		for i := range suspects {
			suspect := codec.Elements(&suspects[i])
			if err := c.suspect(ctx, at, codec.Text(&suspect[0]), codec.Text(&suspect[1])); err != nil {
				return jobs, true, err
			}
		}
	}

	return jobs, true, nil
}

// suspect checks one entry that a page has reported.
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

// job checks the job with a number. member is its entry in the blocked set, or "".
func (c *check) job(ctx context.Context, q *catalog.Queue, s *catalog.Shard, n, member string) error {
	r, err := c.e.Call(ctx, q, s, store.ScriptCheckJob, s.Limits, n, member, c.repair(),
		fallbackAlias(fallback(q, n, s.Index)))
	if err != nil {
		return err
	}

	id := codec.IDOf(codec.Text(&r.Rest[1]))
	if id == "" {
		id = codec.NumberText(n)
	}

	// The script repairs the entry only if the fault still exists.
	mended := c.p.Repair && codec.Integer(&r.Rest[2]) == 1
	for _, f := range readFaults(&r.Rest[0]) {
		c.found(q.Ref, id, f, mended)
	}

	log := c.e.Settings.Logger.With("queue", q.Ref.String(), "shard", s.Index, "number", codec.NumberText(n))
	if codec.Integer(&r.Rest[3]) == 1 {
		log.Error("the rest of a job whose record is lost was removed")
	}
	if reason := codec.Text(&r.Rest[4]); reason != "" {
		log.Error("a damaged job is a dead letter now", "id", id, "reason", reason)
	}

	return nil
}

// entry checks an alias, a busy key or a policy.
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

// entryText describes an entry of a hash.
func entryText(of, name, value string) string {
	switch {
	case of != "policies":
		return fmt.Sprintf("%q names %s", name, codec.NumberText(value))
	case len(name) == 1:
		return fmt.Sprintf("policy %d", name[0])
	}
	return fmt.Sprintf("%q leads to policy %q", name, value)
}

// totals checks a shard's counters and its marker. If jobs are deliverable without a marker, it
// returns the state of the shard. repair is an argument of the script. seen is the state at the
// previous check, or "".
func (c *check) totals(ctx context.Context, at catalog.ShardRef, repair, seen string) (standing string, err error) {
	_, err = c.e.WithShard(ctx, at, func(q *catalog.Queue, s *catalog.Shard) error {
		r, err := c.e.Call(ctx, q, s, store.ScriptCheckShard, s.Limits, repair, seen)
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

// fallbackAlias returns the alias of a fallback ID, or "" if there is none.
func fallbackAlias(id string) string {
	if id == "" {
		return ""
	}
	return codec.Alias(id)
}

// fallback returns a new ID for a job of q that has lost its own. It is "" if the job's number
// leads to this shard.
func fallback(q *catalog.Queue, n string, index int) string {
	id := codec.NumberText(n)
	if len(n) != len(duly.Number{}) || contract.ShardOf(id, len(q.Shards)) == index {
		return ""
	}
	for i := 0; ; i++ {
		if own := id + "-" + strconv.Itoa(i); contract.ShardOf(own, len(q.Shards)) == index {
			return own
		}
	}
}
