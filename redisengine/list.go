package redisengine

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/dulymq/duly"
)

// cursor is the place behind which a list goes on.
type cursor struct {
	State  duly.State `json:"state"`
	Shard  int        `json:"shard"`
	Score  string     `json:"score"`
	Member []byte     `json:"member"`
}

func (c cursor) String() string {
	text, err := json.Marshal(c)
	if err != nil {
		panic(err) // plain fields
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

// placeScore is how Redis writes the score of a place: a whole number. Go reads
// more as a number than Redis does, such as nan and 1_0.
var placeScore = regexp.MustCompile(`^-?[0-9]{1,20}$`)

func readCursor(text string, state duly.State) (c cursor, err error) {
	if text == "" {
		return cursor{State: state}, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || json.Unmarshal(raw, &c) != nil || c.State != state || c.Shard < 0 {
		return c, duly.BadCursor()
	}
	if c.Score != "" {
		if !placeScore.MatchString(c.Score) || len(c.Member) < 16 {
			return c, duly.BadCursor()
		}
	}
	return c, nil
}

// List implements duly.Inspector. It walks shard by shard.
func (e *Engine) List(ctx context.Context, ref duly.QueueRef, p duly.ListParams) (page duly.ListPage, err error) {
	if err := p.Validate(); err != nil {
		return page, err
	}
	from, err := readCursor(p.Cursor, p.State)
	if err != nil {
		return page, err
	}
	if err := e.admit(ctx, ref); err != nil {
		return page, err
	}
	err = e.with(ctx, ref.Normal(), func(q *queue) error {
		page = duly.ListPage{}
		if q == nil {
			return nil
		}
		at, room := from, duly.MaxBatchBytes
		for {
			if at.Shard >= len(q.shards) {
				return nil
			}
			jobs, more, err := e.listShard(ctx, q, &at, p, p.Limit-len(page.Jobs), room)
			if err != nil {
				return err
			}
			for i := range jobs {
				info := jobs[i].job.info(p.State, jobs[i].score, p.Bodies)
				page.Jobs = append(page.Jobs, info)
				room -= len(info.Body) + len(info.Result)
			}
			if !more {
				at = cursor{State: p.State, Shard: at.Shard + 1}
			}
			if at.Shard < len(q.shards) && (more || len(page.Jobs) >= p.Limit) {
				page.Next = at.String()
				return nil
			}
		}
	})
	return page, err
}

// listShard reads a page of one shard, of so many jobs and bytes, and moves the
// cursor on.
func (e *Engine) listShard(ctx context.Context, q *queue, at *cursor, p duly.ListParams, most, room int) (jobs []told, more bool, err error) {
	bodies := "0"
	if p.Bodies {
		bodies = "1"
	}
	r, err := e.call(ctx, q, q.shards[at.Shard], scriptList,
		p.State.String(), strconv.Itoa(most), bodies, strconv.Itoa(room), at.Score, string(at.Member))
	if err != nil {
		return nil, false, err
	}
	for _, m := range elements(&r.rest[2]) {
		if m.IsNil() {
			continue
		}
		t, err := readTold(q.ref, &m, p.Bodies)
		if err != nil {
			return nil, false, err
		}
		jobs = append(jobs, t)
	}
	at.Score, at.Member = text(&r.rest[3]), []byte(text(&r.rest[4]))
	return jobs, integer(&r.rest[1]) == 1, nil
}

// Queues implements duly.Inspector.
func (e *Engine) Queues(ctx context.Context, namespace string, p duly.PageParams) (duly.NamePage, error) {
	if err := duly.ValidateNamespace(namespace); err != nil {
		return duly.NamePage{}, err
	}
	page, err := e.names(ctx, e.namesKey(duly.NamespaceOr(namespace)), noQueue, p)
	if err == nil && len(page.Names) == 0 && p.Cursor == "" { // there are none, or no more
		_, err = e.ask(ctx, duly.NamespaceOr(namespace), nil, nil)
	}
	return page, err
}

// names pages through a sorted set of names. It passes over what another
// program has written there and is none: nobody could call by that, nor is it the
// cursor of a page.
func (e *Engine) names(ctx context.Context, key string, none func(name string) bool, p duly.PageParams) (page duly.NamePage, err error) {
	if err := p.ValidateNames(); err != nil {
		return page, err
	}
	for after := p.Cursor; ; {
		some, err := e.members(ctx, key, after, p.Limit+1)
		if err != nil {
			return duly.NamePage{}, err
		}
		last := len(some) <= p.Limit
		if !last {
			after = some[p.Limit]
		}
		page.Names = append(page.Names, slices.DeleteFunc(some, none)...)
		if len(page.Names) > p.Limit {
			page.Names = page.Names[:p.Limit]
			page.Next = page.Names[p.Limit-1]
			return page, nil
		}
		if last {
			return page, nil
		}
	}
}

// members are the first of a sorted set of names behind one, "" for the very
// first.
func (e *Engine) members(ctx context.Context, key, after string, most int) ([]string, error) {
	if err := e.alive(ctx); err != nil {
		return nil, err
	}
	from := "-"
	if after != "" {
		from = "(" + after
	}
	msg, err := e.link.Do(ctx, e.link.B().Zrangebylex().Key(key).Min(from).Max("+").Limit(0, int64(most)).Build())
	if err != nil {
		return nil, err
	}
	names, err := msg.AsStrSlice()
	if err != nil {
		return nil, e.strange("zrangebylex " + key)
	}
	return names, nil
}

// noQueue tells whether a name can't be a queue's, noNamespace whether it can't
// be a namespace's.
func noQueue(name string) bool { return duly.QueueRef{Name: name}.Validate() != nil }

func noNamespace(name string) bool { return name == "" || duly.ValidateNamespace(name) != nil }

// pairs are what a script has told of a page, names and values in turn. next is
// the name behind which the next page begins, "" for none.
func pairs(msg *rueidis.RedisMessage) (items []rueidis.RedisMessage, next string) {
	all := elements(msg)
	if len(all) < 3 {
		return nil, ""
	}
	if integer(&all[0]) == 1 { // others follow
		next = text(&all[len(all)-2])
	}
	return all[1:], next
}
