package cli

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/httpengine"
	"github.com/dulymq/duly/internal/wire"
	"github.com/dulymq/duly/open"
)

func pushCommand(a *app) *cobra.Command {
	var job duly.Job
	var lines bool
	cmd := a.command("push QUEUE [BODY|-]", "Push a job, or one per input line",
		`Without a BODY, push reads it from standard input if that is a pipe or a file. "-" always reads standard input,
and '' is an empty body. With --lines every line of standard
input is the body of a job of its own, without its line end; what is read while a batch is on its way goes out as the next one.
It prints how many there were, and of those that are refused the first ten; with --json a line for every line, with its ID.

Of a Redis that drops keys when its memory is full, or has too few replicas for the URL's durability, it warns on standard
error; duly check says all that is not right with one.

A duration is written 250ms, 90s, 1h30m or 7d. Every flag that is left out takes the queue's default.`,
		`  duly push emails '{"to": "ada"}'
  duly push emails < mail.json
  date | duly push clock
  duly push reports --delay 30m --priority 10 --tries 3 --backoff 15s,3m,1h
  duly push emails 'Hello' --id welcome-4711 --header lang=de --retain 7d
  duly push orders '{"order": 7}' --callback https://crm.example/hook
  duly push index 'shop 12' --merge-key shop-12 --merge-mode replace --delay 5s --merge-max-wait 1m
  duly push import --lines --order-key customer-7 < lines.txt
  duly push import --lines --json < lines.txt > ids.ndjson`,
		func(ctx context.Context, p *printer, args []string) error {
			job.Queue, a.hears = args[0], hearLosses
			if !lines {
				return a.push(ctx, p, job, args[1:])
			}
			if err := checkLines(args[1:], job.ID, "job"); err != nil {
				return err
			}
			return a.pushLines(ctx, p, job)
		})
	cmd.Args = wants("QUEUE", "[BODY]")
	cmd.ValidArgsFunction = a.completeQueues(1)
	f := cmd.Flags()
	f.BoolVar(&lines, "lines", false, "one job per line of standard input")
	a.jobFlags(f, &job)
	fixed(cmd, "merge-mode", string(duly.MergeKeep), string(duly.MergeReplace))
	fixed(cmd, "merge-until", string(duly.UntilLeased), string(duly.UntilDone))
	return cmd
}

// jobFlags is one flag for every field of a job.
func (a *app) jobFlags(f *pflag.FlagSet, job *duly.Job) {
	f.StringVar(&job.ID, "id", "", "the job's `ID`: pushed twice, it is one job (default: one is made)")
	f.Var(headersFlag{&job.Headers}, "header", "a header; may be repeated")
	f.Var(durationFlag{to: &job.Delay, zero: true}, "delay", "due after this time (default: now)")
	f.Var(timeFlag{&job.Due, time.Local}, "due", "due at this time")
	f.IntVar(&job.Priority, "priority", 0, "`n` from -1000 to 1000, higher goes first")
	countVar(f, &job.Tries, "tries", "deliveries that may fail before the job is dead")
	boundVar(f, &job.MaxStalls, "max-stalls", "run-out leases that the job survives")
	f.StringVar((*string)(&job.Backoff), "backoff", "", "wait after a failure: fixed:5s, exp:1s:1h, or `steps` like 15s,3m,1h")
	spanVar(f, &job.TTL, "ttl", "drop the job when it has waited so long")
	leaseVar(f, &job.Lease, "how long a delivery holds the job")
	f.StringVar(&job.OrderKey, "order-key", "", "jobs of one `key` run one at a time, in order")
	f.StringVar(&job.Merge.Key, "merge-key", "", "waiting jobs of one `key` are one job")
	f.StringVar((*string)(&job.Merge.Mode), "merge-mode", "", "`mode`: keep the waiting job, or replace it (without a key: equal bodies merge)")
	durationVar(f, &job.Merge.MaxWait, "merge-max-wait", "how long replacing may put the job off")
	f.StringVar((*string)(&job.Merge.Until), "merge-until", "", "`when` the key is free again: leased, or done")
	f.StringVar(&job.Callback, "callback", "", "the server sends the job to this `URL`, or to target:NAME; makes a push queue")
	f.StringVar(&job.OnDone, "on-done", "", "`URL` or target:NAME that gets a notice when the job is done, or none")
	f.StringVar(&job.OnDead, "on-dead", "", "`URL` or target:NAME that gets a notice when the job is dead, or none")
	spanVar(f, &job.Retain, "retain", "keep the finished job and its result so long")
}

// push pushes one job.
func (a *app) push(ctx context.Context, p *printer, job duly.Job, rest []string) error {
	body, err := a.body(rest)
	if err != nil {
		return err
	}
	job.Body = body
	return a.withNew(ctx, func(s *session) error {
		jobs := []duly.Job{job}
		result, err := a.client(s).PushMany(ctx, jobs)
		if err == nil {
			err = result[0].Err
		}
		if err != nil {
			if httpengine.NotSent(err) { // nothing can be stored
				return err // who opened the engine says what to look at
			}
			err = adviseOn(duly.CodeNotFound, err, "check that %s is the API's address, not the admin one", open.Redact(s.url))
			return repeatable(err, jobs[0].ID)
		}
		p.pushed(result[0], &job)
		if err := p.flush(); err != nil {
			return err
		}
		if result[0].Outcome == duly.Created {
			a.hintCreated(ctx, s, job.Queue, 1)
		}
		return nil
	})
}

// repeatable names the ID under which a push is repeated, and adds to what the
// error says of its outcome nothing that it has said, or that it denies. An error
// speaks of the last try alone, and a try before it may have stored the job: so
// the ID is named also where nothing was done.
func repeatable(err error, id string) error {
	err = adviseOn(duly.CodeNotDurable, err, "repeat it with --id %s", id)
	next := "it may be stored; repeat it with --id %s, which doubles nothing"
	switch text := err.Error(); {
	case strings.Contains(text, nothingDone):
		next = "when that is mended, repeat it with --id %s"
	case strings.Contains(text, mayHave):
		next = "repeat it with --id %s, which doubles nothing"
	}
	return adviseOn(duly.CodeUnavailable, err, next, id)
}

// client pushes jobs under IDs that are made before the first try, so that a
// lost answer doubles nothing.
func (a *app) client(s *session) *duly.Client {
	return duly.NewClient(s.Contract, duly.ClientConfig{Namespace: s.namespace, Clock: a.env.Clock})
}

// body returns the argument. It reads standard input for "-", and without an
// argument if that is a pipe or a file.
func (a *app) body(rest []string) ([]byte, error) {
	switch {
	case len(rest) == 0 && !a.env.Piped(a.env.Stdin):
		return nil, nil
	case len(rest) > 0 && rest[0] != "-":
		return []byte(rest[0]), nil
	}
	return a.readInput()
}

// readInput reads standard input up to the largest body that any engine
// takes.
func (a *app) readInput() ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(a.env.Stdin, duly.MaxMaxBody+1))
	if err != nil {
		return nil, advise(err, "check what is piped into standard input")
	}
	if len(body) > duly.MaxMaxBody {
		return nil, duly.TooLarge("body", "has more than %d bytes", duly.MaxMaxBody)
	}
	return body, nil
}

// pushed prints what became of a job.
func (p *printer) pushed(r duly.PushResult, job *duly.Job) {
	if p.json {
		p.lines(wire.PushedForm.Append(nil, []duly.PushResult{r}))
		return
	}
	switch r.Outcome {
	case duly.Merged:
		p.printf("%s  merged into this job of %s\n", r.ID, job.Queue)
	case duly.Exists:
		p.printf("%s  exists already in %s and is %s; nothing was changed\n", r.ID, job.Queue, r.State)
	default:
		p.printf("%s  created in %s, due %s\n", r.ID, job.Queue, due(job, p.now()))
	}
}

func due(job *duly.Job, now time.Time) string {
	switch {
	case job.Delay > 0:
		return "in " + roughly(job.Delay)
	case job.Due.After(now):
		return relative(job.Due, now)
	}
	return "now"
}

// lines takes the items out of an object with one list, as the HTTP API has
// them, and prints each on a line of its own.
func (p *printer) lines(list []byte) {
	var object map[string]json.RawMessage
	var items []json.RawMessage
	if json.Unmarshal(list, &object) != nil {
		return // package wire writes JSON
	}
	for name, value := range object {
		if name != "next" && json.Unmarshal(value, &items) == nil {
			for _, item := range items {
				p.line(item)
			}
		}
	}
}
