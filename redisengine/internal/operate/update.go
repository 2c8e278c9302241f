package operate

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"math"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/redisengine/internal/catalog"
	"github.com/dulymq/duly/redisengine/internal/codec"
	"github.com/dulymq/duly/redisengine/internal/store"
)

// Promote implements contract.Operator.
func (e *Operator) Promote(ctx context.Context, ref duly.QueueRef, id string) error {
	if err := contract.ValidateID(id); err != nil {
		return err
	}
	errs, err := e.PromoteJobs(ctx, ref, []string{id})
	if err != nil {
		return err
	}
	return errs[0]
}

// PromoteJobs implements contract.Operator. The IDs of a shard share a script call.
func (e *Operator) PromoteJobs(ctx context.Context, ref duly.QueueRef, ids []string) ([]error, error) {
	if err := contract.ValidateIDs(ids); err != nil {
		return nil, err
	}
	if err := e.Admit(ctx, ref); err != nil {
		return nil, err
	}

	errs := make([]error, len(ids))
	list := catalog.NewIDs(ref, ids, func(i int, err error) { errs[i] = err })
	err := e.With(ctx, ref.Normal(), func(q *catalog.Queue) error {
		return list.EachShard(q, true, func(s *catalog.Shard, indexes []int) error {
			args := append([]string{s.Limits}, list.Aliases(indexes)...)
			r, err := e.Call(ctx, q, s, store.ScriptPromote, args...)
			if err != nil {
				return err
			}
			for k, i := range indexes {
				errs[i] = promoted(ref, ids[i], &r.Rest[k])
			}
			return nil
		})
	})
	if err = list.Finish(err); err != nil {
		return nil, err
	}
	return errs, nil
}

// promoted reads the outcome of one ID.
func promoted(ref duly.QueueRef, id string, outcome *rueidis.RedisMessage) error {
	switch codec.Text(outcome) {
	case "ok":
		return nil
	case "none":
		return contract.NotFound(ref, id)
	}
	return cannotChange(id, codec.State(outcome), contract.EventPromote)
}

// cannotChange returns the error for a job whose state does not allow an event.
func cannotChange(id string, s duly.State, event contract.Event) error {
	return contract.Conflict(s, "job %q is %s and can't be changed by %s", id, s, event)
}

// refusal returns the error for a script's first word.
func refusal(r catalog.Reply, ref duly.QueueRef, id string, event contract.Event) error {
	switch r.Word {
	case "none":
		return contract.NotFound(ref, id)
	case "conflict":
		return cannotChange(id, codec.State(&r.Rest[0]), event)
	}
	return nil
}

// Update implements contract.Operator. It reads the job, changes it, and writes it if it is
// unchanged in the store.
func (e *Operator) Update(ctx context.Context, ref duly.QueueRef, id string, u duly.Update) error {
	if err := contract.ValidateUpdate(&u, e.Settings.MaxBody); err != nil {
		return err
	}

	c := e.Retry(ctx)
	for c.Next() {
		r, err := e.ReadByID(ctx, ref, id)
		if err != nil {
			return err
		}
		// The script still deletes an expired job.
		args, ttl := nothingRead, u.TTL
		if r.Word != "none" {
			if args, ttl, err = UpdateArgs(ref, u, r.Rest); err != nil {
				return err
			}
		}
		if r, err = e.CallByID(ctx, ref, id, store.ScriptUpdate, true, args...); err != nil {
			return err
		}
		switch r.Word {
		case "changed":
			continue
		case "ttl":
			return contract.EndsTooSoon(ttl, false)
		}
		return refusal(r, ref, id, contract.EventUpdate)
	}

	return c.Failed("job %q keeps changing", id)
}

// nothingRead makes the script delete a job that has expired. If a job with the ID was pushed
// since, the job is read again.
var nothingRead = []string{"none", "", "", "0", "0", "", "", "", ""}

// UpdateArgs returns the script's arguments for an update of a job that was read, and the TTL
// that the job then has.
func UpdateArgs(ref duly.QueueRef, u duly.Update, r []rueidis.RedisMessage) (args []string, ttl time.Duration,
	err error) {
	t, err := codec.ReadListed(ref.Normal(), &r[1], true)
	if err != nil {
		return nil, 0, err
	}

	fields := codec.Elements(&r[1])
	record, run := codec.Text(&fields[1]), codec.Text(&fields[4])
	if t.Job.Size > codec.BigBody {
		// The body follows the record.
		record = record[:len(record)-t.Job.Size]
	}

	j := t.Job.Planned
	// The script applies times by the server's clock, so they are left out here.
	timeless := u
	timeless.Delay, timeless.Due, timeless.TTL = nil, time.Time{}, 0
	if err := contract.ApplyUpdate(&timeless, &j, time.Time{}); err != nil {
		return nil, 0, err
	}
	if u.TTL != 0 {
		j.TTL = u.TTL
	}

	own, text, body := "", "", ""
	if t.Job.OwnID != "" {
		own = codec.Alias(t.Job.OwnID)
	}
	// A bare job needs no policy.
	if !codec.IsBare(&j, own) {
		text = codec.PolicyOf(&j).Pack()
	}
	if len(j.Body) > codec.BigBody {
		body = string(j.Body)
	}

	when, ttlText := "", ""
	switch {
	case u.Delay != nil:
		when = strconv.FormatInt(codec.Micros(*u.Delay), 10)
	case !u.Due.IsZero():
		when = strconv.FormatInt(-max(1, clock.CeilMilli(u.Due)), 10)
	}

	if u.TTL != 0 {
		ttlText = strconv.FormatInt(codec.MicrosOrNone(u.TTL), 10)
	}

	// The script compares the hash to detect a concurrent change.
	sum := sha1.Sum([]byte(record))
	return []string{
		run, hex.EncodeToString(sum[:]), text, strconv.Itoa(j.Priority),
		strconv.Itoa(int(codec.Flags(&j, own) &^ codec.HasPriority)), string(codec.AppendTail(nil, &j, own)), body, when,
		ttlText,
	}, j.TTL, nil
}

// Purge implements contract.Operator.
func (e *Operator) Purge(ctx context.Context, ref duly.QueueRef, st duly.State, n int) (removed int, err error) {
	if err := contract.ValidatePurge(st, n); err != nil {
		return 0, err
	}
	if err := e.Admit(ctx, ref); err != nil {
		return 0, err
	}

	var w catalog.Walk
	err = e.With(ctx, ref.Normal(), func(q *catalog.Queue) error {
		if q == nil {
			return nil
		}
		return w.Each(q, 0, func(s *catalog.Shard) error {
			got, err := e.purgeShard(ctx, q, s, st, n-removed, n == 0)
			removed += got
			return err
		})
	})

	// Workers may be running the removed jobs.
	if st == duly.StateLeased && removed > 0 {
		e.Cancels.Report(ref.Normal())
	}

	return removed, err
}

// purgeShard removes up to n jobs of one shard. Without a limit it removes the jobs that exist when
// it begins.
func (e *Operator) purgeShard(
	ctx context.Context, q *catalog.Queue, s *catalog.Shard, st duly.State, n int, all bool,
) (removed int, err error) {
	if all {
		// The limit is set by the first answer: the number of jobs that exist at that time.
		n = math.MaxInt
	}
	for n > 0 {
		r, err := e.Call(ctx, q, s, store.ScriptPurge, s.Limits, st.String(), strconv.Itoa(min(n, duly.MaxBatch)))
		if err != nil {
			return removed, err
		}
		// Jobs that are pushed during the purge are not purged, so that the call ends.
		got, there := int(codec.Integer(&r.Rest[0])), int(codec.Integer(&r.Rest[1]))
		removed += got
		if n = min(n, there) - got; got == 0 {
			break
		}
	}
	return removed, nil
}
