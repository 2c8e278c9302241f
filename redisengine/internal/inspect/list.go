package inspect

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"regexp"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/redisengine/internal/catalog"
	"github.com/dulymq/duly/redisengine/internal/codec"
	"github.com/dulymq/duly/redisengine/internal/store"
)

// Cursor is the position after which a list continues.
type Cursor struct {
	State  duly.State `json:"state"`
	Shard  int        `json:"shard"`
	Score  string     `json:"score"`
	Member []byte     `json:"member"`
}

// String returns the cursor as callers pass it back.
func (c Cursor) String() string {
	text, err := json.Marshal(c)
	if err != nil {
		// Marshal can't fail for plain fields.
		panic(err)
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

// placeScore matches the score of a position as Redis writes it: a whole number. Go also parses
// texts such as nan and 1_0, which Redis does not.
var placeScore = regexp.MustCompile(`^-?[0-9]{1,20}$`)

func readCursor(text string, state duly.State) (c Cursor, err error) {
	if text == "" {
		return Cursor{State: state}, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || json.Unmarshal(raw, &c) != nil || c.State != state || c.Shard < 0 {
		return c, contract.BadCursor()
	}
	if c.Score != "" {
		// The cursor comes from callers, and its parts become arguments of commands.
		if !placeScore.MatchString(c.Score) || len(c.Member) < 16 {
			return c, contract.BadCursor()
		}
	}
	return c, nil
}

// List implements contract.Inspector. It lists the shards one after the other.
func (e *Inspector) List(ctx context.Context, ref duly.QueueRef, p duly.ListParams) (page duly.ListPage, err error) {
	if err := contract.ValidateList(&p); err != nil {
		return page, err
	}

	from, err := readCursor(p.Cursor, p.State)
	if err != nil {
		return page, err
	}
	if err := e.Admit(ctx, ref); err != nil {
		return page, err
	}

	err = e.With(ctx, ref.Normal(), func(q *catalog.Queue) error {
		page = duly.ListPage{}
		if q == nil {
			return nil
		}
		at, room := from, duly.MaxBatchBytes
		begin, end := contract.ListShards(&p, len(q.Shards))
		if at.Shard < begin {
			at = Cursor{State: p.State, Shard: begin}
		}
		for {
			if at.Shard >= end {
				return nil
			}
			jobs, more, err := ListShard(ctx, e.Catalog, q, &at, p, p.Limit-len(page.Jobs), room)
			if err != nil {
				return err
			}
			for i := range jobs {
				info := jobs[i].Job.Info(p.State, jobs[i].Score, p.Bodies)
				page.Jobs = append(page.Jobs, info)
				room -= len(info.Body) + len(info.Result)
			}
			// The next shard starts at its beginning, or at From.
			if !more {
				at = Cursor{State: p.State, Shard: at.Shard + 1}
			}
			// A page also ends at its byte limit, with more jobs in the same shard.
			if at.Shard < end && (more || len(page.Jobs) >= p.Limit) {
				page.Next = at.String()
				return nil
			}
		}
	})

	return page, err
}

// ListShard reads a page of one shard, of at most `most` jobs and `room` bytes, and advances the
// cursor.
func ListShard(
	ctx context.Context, e *catalog.Catalog, q *catalog.Queue, at *Cursor, p duly.ListParams, most, room int,
) (jobs []codec.Listed, more bool, err error) {
	score, member := codec.ListStart(&p, at.Score, at.Member)
	r, err := e.Call(ctx, q, q.Shards[at.Shard], store.ScriptList, p.State.String(), strconv.Itoa(most),
		codec.Flag(p.Bodies), strconv.Itoa(room), score, string(member), codec.Flag(p.Newest), codec.OnlyKey(p.Key))
	if err != nil {
		return nil, false, err
	}

	for _, m := range codec.Elements(&r.Rest[2]) {
		if m.IsNil() {
			continue
		}
		t, err := codec.ReadListed(q.Ref, &m, p.Bodies)
		if err != nil {
			return nil, false, err
		}
		jobs = append(jobs, t)
	}

	// An empty page returns no place, so the cursor stays.
	if last := codec.Text(&r.Rest[4]); last != "" {
		at.Score, at.Member = codec.Text(&r.Rest[3]), []byte(last)
	}
	return jobs, codec.Integer(&r.Rest[1]) == 1, nil
}

// Queues implements contract.Inspector.
func (e *Inspector) Queues(ctx context.Context, namespace string, p duly.PageParams) (duly.NamePage, error) {
	if err := contract.ValidateNamespace(namespace); err != nil {
		return duly.NamePage{}, err
	}
	page, err := e.Names(ctx, e.NamesKey(contract.NamespaceOr(namespace)), store.InvalidQueue, p)
	// No names: the queues may be lost, which the mark shows.
	if err == nil && len(page.Names) == 0 && p.Cursor == "" {
		_, err = e.AskMark(ctx, contract.NamespaceOr(namespace), nil, nil)
	}
	return page, err
}

// maxEmptyPages bounds how many pages of names one call to Namespaces reads to find namespaces
// with queues.
const maxEmptyPages = 10

// Namespaces implements contract.Registry. A namespace stays in the list after its last queue is
// destroyed. Removing it could lose a queue that is created at the same time.
func (e *Inspector) Namespaces(ctx context.Context, p duly.PageParams) (page duly.NamePage, err error) {
	if err := contract.ValidatePage(&p); err != nil {
		return page, err
	}

	for range maxEmptyPages {
		some, err := e.Names(ctx, e.NamespacesKey(), store.InvalidNamespace, p)
		if err != nil {
			return duly.NamePage{}, err
		}
		names, err := e.withQueues(ctx, some.Names)
		if err != nil {
			return duly.NamePage{}, err
		}
		page.Names = append(page.Names, names...)
		page.Next, p.Cursor = some.Next, some.Next
		if p.Cursor == "" || len(page.Names) >= p.Limit {
			break
		}
	}

	if len(page.Names) > p.Limit {
		page.Names = page.Names[:p.Limit]
		page.Next = page.Names[p.Limit-1]
	}

	return page, nil
}

// withQueues returns the namespaces that have queues or topics.
func (e *Inspector) withQueues(ctx context.Context, namespaces []string) (some []string, err error) {
	sizes := make([]rueidis.Completed, len(namespaces))
	for i, name := range namespaces {
		sizes[i] = e.Link.B().Exists().Key(e.NamesKey(name), e.TopicsKey(name)).Build()
	}
	for i, r := range e.Link.DoAll(ctx, sizes...) {
		if r.Err != nil {
			return nil, r.Err
		}
		if codec.Integer(&r.Msg) > 0 {
			some = append(some, namespaces[i])
		}
	}
	return some, nil
}
