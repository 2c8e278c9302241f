package maintain

import (
	"context"
	"strconv"

	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/redisengine/internal/catalog"
	"github.com/dulymq/duly/redisengine/internal/codec"
	"github.com/dulymq/duly/redisengine/internal/store"
)

// schedules checks every schedule of a shard. A second script call checks each suspect entry again,
// and repairs it.
func (c *check) schedules(ctx context.Context, at catalog.ShardRef) error {
	for part, cursor := "1", "0"; part != "0"; {
		there, err := c.e.WithShard(ctx, at, func(q *catalog.Queue, s *catalog.Shard) error {
			r, err := c.e.Call(ctx, q, s, store.ScriptCheckSchedules, part, cursor, strconv.Itoa(checkPage))
			if err != nil {
				return err
			}
			part, cursor = codec.Text(&r.Rest[1]), codec.Text(&r.Rest[2])
			list := codec.Elements(&r.Rest[3])
			for i := 0; i+2 < len(list); i += 3 {
				if err := c.schedule(ctx, q, s, codec.Text(&list[i]), codec.Text(&list[i+1]), codec.Text(&list[i+2])); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil || !there {
			return err
		}
	}
	return nil
}

// schedule checks one schedule. record and score are the values that a page has returned, or "" if
// they are missing.
func (c *check) schedule(ctx context.Context, q *catalog.Queue, s *catalog.Shard, name, record, score string) error {
	if record != "" {
		r, err := codec.ReadSchedule(q.Ref, name, record)
		if err != nil {
			return c.unreadableSchedule(ctx, q, s, name, record, err)
		}
		if score == codec.TickScore(&r) {
			return nil
		}
	}

	r, err := c.e.Call(ctx, q, s, store.ScriptCheckSchedule, s.Limits, name, c.repair())
	if err != nil {
		return err
	}
	for _, f := range readFaults(&r.Rest[0]) {
		f.detail = "schedule " + contract.Quoted(name)
		c.found(q.Ref, "", f, c.p.Repair)
	}
	return nil
}

// unreadableSchedule reports a schedule whose record can't be read, so that no process can fire it.
// A repair moves the record aside, so that it does not block other schedules. The bytes of the
// record stay in the hash.
func (c *check) unreadableSchedule(
	ctx context.Context, q *catalog.Queue, s *catalog.Shard, name, record string, cause error,
) error {
	moved := false
	if c.p.Repair {
		r, err := c.e.Call(ctx, q, s, store.ScriptScheduleDrop, name, "", "", record)
		if err != nil {
			return err
		}
		moved = r.Word == "ok"
	}
	detail := "schedule " + contract.Quoted(name) + ": " + cause.Error() + "; put it again"
	c.found(q.Ref, "", scriptFault{faultSchedule, detail}, moved)
	return nil
}
