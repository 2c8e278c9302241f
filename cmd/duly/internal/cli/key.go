package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/wire"
)

// laneLength is how many waiting jobs key get shows.
const laneLength = 20

func keyCommand(a *app) *cobra.Command {
	return a.group("key", "Inspect the order keys of a queue", keyListCommand(a), keyGetCommand(a))
}

// keyListFlags are the flags of a list of order keys.
type keyListFlags struct {
	prefix string
	limit  int // duly.None means all
	cursor string
}

func keyListCommand(a *app) *cobra.Command {
	f := keyListFlags{limit: duly.DefaultPage}
	cmd := a.command("list QUEUE", "List the order keys that jobs wait for",
		`Lists the order keys for which at least one job is blocked. Shorter keys come first, then the order is by bytes. In a
queue with several shards, each shard is listed in turn.

HEAD is the job that holds the key. WHEN is the time when the head is or was due, or when its lease ends. WAITING is the
number of blocked jobs, up to 1000. NEXT is the time when the first of them was due.

If there are more keys than --limit, a line on standard error has the flags for the next list.`,
		`  duly key list emails
  duly key list emails --prefix customer-
  duly key list emails --limit none --json | jq -r 'select(.waiting >= 100) | .key'`,
		func(ctx context.Context, p *printer, args []string) error {
			return a.withEngine(ctx, func(s *session) error { return a.listKeys(ctx, p, s, args[0], f) })
		})

	cmd.Args = takesArgs("QUEUE")
	cmd.ValidArgsFunction = a.completeQueues(1)
	flags := cmd.Flags()
	flags.StringVar(&f.prefix, "prefix", "", "list only the keys that begin with this `text`")
	optionalCountVar(flags, &f.limit, "limit", "maximum number of keys")
	flags.StringVar(&f.cursor, "cursor", "", "continue after the list that printed this `cursor`")
	return cmd
}

// listKeys lists order keys up to the limit.
func (a *app) listKeys(ctx context.Context, p *printer, s *session, queue string, f keyListFlags) error {
	t := p.newTable("KEY", "HEAD", "STATE", "WHEN", ">WAITING", "NEXT")
	params := contract.KeysParams{Prefix: f.prefix, PageParams: duly.PageParams{Cursor: f.cursor}}
	found := 0

	// Without a limit, left is negative and never reaches zero.
	for left, ended := f.limit, false; left != 0 && !ended; ended = params.Cursor == "" {
		params.Limit = duly.MaxBatch
		if left > 0 {
			params.Limit = min(left, params.Limit)
		}
		page, err := contract.KeyListerOf(s.Engine).Keys(ctx, s.queue(queue), params)
		if err != nil {
			// The keys before the error are still worth printing.
			t.flush()
			return a.orMissing(ctx, s, err, queue)
		}

		found += len(page.Keys)
		if left > 0 {
			left -= len(page.Keys)
		}
		if err := p.keys(t, page); err != nil {
			return err
		}
		params.Cursor = page.Next
	}

	if found == 0 && f.cursor == "" {
		if err := a.mustExist(ctx, s, queue); err != nil {
			return err
		}
		a.noteOnTerminal("no job of %s waits for such an order key", queue)
	}
	return a.noteMoreKeys(ctx, s, queue, params)
}

// keys prints a page of order keys.
func (p *printer) keys(t *table, page contract.KeyPage) error {
	if p.json {
		p.lines(wire.KeysForm.Append(nil, page))
		return p.flush()
	}
	now := p.now()
	for i := range page.Keys {
		k := &page.Keys[i]
		t.add(txt(k.Key), txt(k.Head.ID), cell{headState(k), stateStyle(k.Head.State)}, txt(relative(headMoment(k), now)),
			txt(waitingText(k)), txt(relative(k.FirstDue, now)))
	}
	t.flush()
	return p.flush()
}

// headState returns the state of the job that holds a key, or "" if no job holds it.
func headState(k *contract.KeyInfo) string {
	if k.Head.ID == "" {
		return ""
	}
	return k.Head.State.String()
}

// headMoment returns the end of the lease of the job that holds a key, or its due time.
func headMoment(k *contract.KeyInfo) time.Time {
	if !k.Head.LeaseEnd.IsZero() {
		return k.Head.LeaseEnd
	}
	return k.Head.Due
}

// waitingText returns the number of waiting jobs, like "12" or "1000+".
func waitingText(k *contract.KeyInfo) string {
	if k.More {
		return fmt.Sprintf("%d+", k.Waiting)
	}
	return fmt.Sprint(k.Waiting)
}

// noteMoreKeys prints on standard error the cursor to continue, if more keys follow.
func (a *app) noteMoreKeys(ctx context.Context, s *session, queue string, p contract.KeysParams) error {
	cursor := p.Cursor
	p.Limit = 1
	for more := false; !more; { // an empty page may have a next page
		if p.Cursor == "" {
			return nil
		}
		cursor = p.Cursor
		page, err := contract.KeyListerOf(s.Engine).Keys(ctx, s.queue(queue), p)
		if err != nil {
			return err
		}
		more, p.Cursor = len(page.Keys) > 0, page.Next
	}

	if a.json {
		line, _ := json.Marshal(map[string]moreKeysView{"more": {p.Prefix, cursor}})
		a.errorLine(line)
		return nil
	}
	flags := ""
	if p.Prefix != "" {
		flags = "--prefix " + shellQuote(p.Prefix) + " "
	}
	a.note("… more (--limit none, %s--cursor %s)", flags, cursor)
	return nil
}

// moreKeysView is the JSON of the keys that a list left out. The cursor is valid only with the prefix.
type moreKeysView struct {
	Prefix string `json:"prefix,omitempty"`
	Cursor string `json:"cursor"`
}

func keyGetCommand(a *app) *cobra.Command {
	limit := laneLength
	cmd := a.command("get QUEUE KEY", "Show an order key with its waiting jobs",
		`Shows the job that holds an order key, also if no other job waits for it, and the first waiting jobs in the order in
which they take the key. With --json, it is one line with the jobs in "jobs".`,
		`  duly key get emails customer-4711
  duly key get emails customer-4711 --limit none
  duly key get emails customer-4711 --json | jq -r .head.id`,
		func(ctx context.Context, p *printer, args []string) error {
			return a.withEngine(ctx, func(s *session) error { return a.getKey(ctx, p, s, args[0], args[1], limit) })
		})

	cmd.Args = takesArgs("QUEUE", "KEY")
	cmd.ValidArgsFunction = a.completeQueues(1)
	optionalCountVar(cmd.Flags(), &limit, "limit", "maximum number of waiting jobs")
	return cmd
}

// getKey prints an order key and its first waiting jobs.
func (a *app) getKey(ctx context.Context, p *printer, s *session, queue, key string, limit int) error {
	info, err := contract.KeyListerOf(s.Engine).Holder(ctx, s.queue(queue), key)
	if err != nil {
		return a.keyError(ctx, s, err, queue)
	}
	jobs, err := s.lane(ctx, queue, key, limit)
	if err != nil {
		return err
	}
	if p.json {
		return p.keyLine(info, jobs)
	}

	p.key(&info)
	if len(jobs) > 0 {
		p.printf("\n")
	}
	t := p.jobTable()
	for i := range jobs {
		t.addJob(&jobs[i])
	}
	t.flush()
	if err := p.flush(); err != nil {
		return err
	}
	if info.More || len(jobs) < info.Waiting {
		a.note("… more jobs wait (--limit none)")
	}
	return nil
}

// keyError returns the error of a call about an order key. An unknown queue looks like one without keys.
func (a *app) keyError(ctx context.Context, s *session, err error, queue string) error {
	if errors.Is(err, duly.ErrNotFound) {
		err = withHint(err, "see the keys that jobs wait for: %s key list %s", a.program(), shellQuote(queue))
	}
	return a.orMissing(ctx, s, err, queue)
}

// lane returns the first waiting jobs of an order key in the order in which they take the key.
func (s *session) lane(ctx context.Context, queue, key string, limit int) (jobs []duly.JobInfo, err error) {
	p := duly.ListParams{State: duly.StateBlocked, Key: key}
	for limit == duly.None || len(jobs) < limit {
		p.Limit = duly.MaxBatch
		if limit != duly.None {
			p.Limit = min(limit-len(jobs), p.Limit)
		}
		page, err := s.List(ctx, s.queue(queue), p)
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, page.Jobs...)
		if p.Cursor = page.Next; p.Cursor == "" {
			break
		}
	}
	return jobs, nil
}

// key prints everything about an order key.
func (p *printer) key(k *contract.KeyInfo) {
	now := p.now()
	head := k.Head.ID
	if head == "" {
		head = "none until the next step"
	}
	p.pairs(
		txt("key"), txt(k.Key),
		txt("head"), txt(head),
		txt("state"), cell{headState(k), stateStyle(k.Head.State)},
		txt("due"), txt(momentText(k.Head.Due, now)),
		txt("lease ends"), txt(momentText(k.Head.LeaseEnd, now)),
		txt("waiting"), txt(waitingText(k)),
		txt("next due"), txt(momentText(k.FirstDue, now)),
	)
}

// keyLine prints an order key as JSON, with its waiting jobs.
func (p *printer) keyLine(k contract.KeyInfo, jobs []duly.JobInfo) error {
	line := wire.KeyForm.Append(nil, k)
	list := wire.AppendJobs(nil, duly.ListPage{Jobs: jobs}, false)
	var page struct {
		Jobs json.RawMessage `json:"jobs"`
	}
	if err := json.Unmarshal(list, &page); err != nil {
		return err
	}
	line = append(bytes.TrimSuffix(line, []byte("}")), `,"jobs":`...)
	p.line(append(append(line, page.Jobs...), '}'))
	return p.flush()
}
