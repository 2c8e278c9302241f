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
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/httpengine"
	"github.com/dulymq/duly/internal/wire"
	"github.com/dulymq/duly/open"
)

func pushCommand(a *app) *cobra.Command {
	var job duly.Job
	var lines bool
	var kind string
	cmd := a.command("push QUEUE [BODY|-]", "Push a job, or one job per input line",
		`Without a BODY, push reads it from standard input if that is a pipe or a file. "-" always reads standard input, and
'' is an empty body. With --lines every line of standard input is the body of a job, without its line end. Lines that
are read while a batch is in flight form the next batch. It prints the number of lines, and the errors of the first
ten refused lines. With --json it prints a line for every input line, with its ID.

It warns on standard error if Redis drops keys when its memory is full, or has too few replicas for the durability of
the URL. duly check prints all warnings.

A duration is written 250ms, 90s, 1h30m or 7d. A flag that is not set has the queue's default.`,
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
			job.Queue, a.warnings = args[0], warnDataLoss
			if err := setKind(&job, kind); err != nil {
				return err
			}
			if !lines {
				return a.push(ctx, p, job, args[1:])
			}
			// With one job per line, an ID or a body in the arguments would not belong to any line.
			if err := checkLines(args[1:], job.ID, "job"); err != nil {
				return err
			}
			return a.pushLines(ctx, p, job)
		})

	cmd.Args = takesArgs("QUEUE", "[BODY]")
	cmd.ValidArgsFunction = a.completeQueues(1)

	f := cmd.Flags()
	f.BoolVar(&lines, "lines", false, "one job per line of standard input")
	f.Var(kindFlag{&kind}, "kind", "the job's `kind`, by which a worker chooses its handler")
	jobFlags(f, &job)
	completeValues(cmd, "merge-mode", string(duly.MergeKeep), string(duly.MergeReplace))
	completeValues(cmd, "merge-until", string(duly.UntilLeased), string(duly.UntilDone))
	return cmd
}

// jobFlags adds a flag for every field of a job.
func jobFlags(f *pflag.FlagSet, job *duly.Job) {
	textVar(f, &job.ID, "id", "the job's `ID`; a second push with it creates no second job (default: generated)")
	f.Var(durationFlag{to: &job.Delay, zero: true}, "delay", "due after this time (default: now)")
	f.Var(timeFlag{&job.Due, time.Local}, "due", "due at this time")
	templateFlags(f, job)
}

// templateFlags adds a flag for every field of the job of a schedule.
func templateFlags(f *pflag.FlagSet, job *duly.Job) {
	f.Var(headersFlag{&job.Headers}, "header", "a header; may be repeated")
	f.IntVar(&job.Priority, "priority", 0, "`n` from -1000 to 1000, higher first")
	ruleVars(f, "", jobRules{
		tries: &job.Tries, maxStalls: &job.MaxStalls, backoff: &job.Backoff,
		lease: &job.Lease, ttl: &job.TTL, retain: &job.Retain,
	})

	textVar(f, &job.OrderKey, "order-key", "jobs with the same `key` run one at a time, in order")
	textVar(f, &job.Merge.Key, "merge-key", "merge waiting jobs with the same `key`")
	f.StringVar((*string)(&job.Merge.Mode), "merge-mode", "",
		"`mode`: keep the waiting job, or replace it (without a key: equal bodies merge)")
	durationVar(f, &job.Merge.MaxWait, "merge-max-wait", "how long merges may delay the job")
	f.StringVar((*string)(&job.Merge.Until), "merge-until", "", "`when` the key is free again: leased, or done")

	f.StringVar(&job.Callback, "callback", "",
		"the server sends the job to this `URL`, or to target:NAME; creates a push queue")
	f.StringVar(&job.OnDone, "on-done", "", "`URL` or target:NAME that gets a notice when the job is done, or none")
	f.StringVar(&job.OnDead, "on-dead", "", "`URL` or target:NAME that gets a notice when the job is dead, or none")
}

// setKind adds the header of a kind, unless it is empty.
func setKind(job *duly.Job, kind string) error {
	if kind == "" {
		return nil
	}

	// Header names are not case-sensitive, so a duplicate may be spelled differently.
	for name := range job.Headers {
		if strings.EqualFold(name, duly.KindHeader) {
			return usageErrorf("--kind and --header %s both set the kind; leave one of them out", name)
		}
	}
	duly.Header(duly.KindHeader, kind)(job)
	return nil
}

// push pushes one job.
func (a *app) push(ctx context.Context, p *printer, job duly.Job, rest []string) error {
	body, err := a.body(rest)
	if err != nil {
		return err
	}
	job.Body = body
	return a.withNewEngine(ctx, func(s *session) error {
		// PushMany writes the generated ID into the slice, and the hint below needs it.
		jobs := []duly.Job{job}
		result, err := a.client(s).PushMany(ctx, jobs)
		if err == nil {
			err = result[0].Err
		}
		if err != nil {
			return a.withPushHint(ctx, s, err, &jobs[0])
		}

		p.pushed(result[0], &job)
		// The result must be printed before the note on the other stream.
		if err := p.flush(); err != nil {
			return err
		}
		if result[0].Status == duly.Created {
			a.noteIfCreated(ctx, s, job.Queue, 1)
		}
		return nil
	})
}

// withPushHint adds a hint to the error of a push.
func (a *app) withPushHint(ctx context.Context, s *session, err error, job *duly.Job) error {
	// Nothing was stored. withSession adds the hint of a server that was not reached.
	if httpengine.NotSent(err) {
		return err
	}

	// A conflict may mean that the name belongs to a topic.
	if duly.CodeOf(err) == duly.CodeConflict {
		err = a.orMissing(ctx, s, err, job.Queue)
	}
	err = a.withFullHint(ctx, s, err, job.Queue)
	err = withHintFor(duly.CodeNotFound, err, "check that %s is the API's address, not the admin address",
		open.Redact(s.url))

	// An earlier try may have stored the job, even if the last one did not.
	err = withHintFor(duly.CodeNotDurable, err, "repeat it with --id %s", job.ID)
	return withHintFor(duly.CodeUnavailable, err, "repeat it with --id %s, which creates no second job", job.ID)
}

// client returns a client. It generates the IDs of jobs before the first try, so that a
// retry creates no second job.
func (a *app) client(s *session) *duly.Client {
	return duly.NewClient(s.Engine, duly.ClientConfig{Namespace: s.namespace, Clock: a.env.Clock})
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

// readInput reads standard input up to the largest body that any engine accepts.
func (a *app) readInput() ([]byte, error) {
	// One byte more than the limit shows that the input is too large, without reading all of it.
	body, err := io.ReadAll(io.LimitReader(a.env.Stdin, duly.MaxMaxBody+1))
	if err != nil {
		return nil, withHint(err, "check standard input")
	}
	if len(body) > duly.MaxMaxBody {
		return nil, contract.TooLarge("body", "has more than %d bytes", duly.MaxMaxBody)
	}
	return body, nil
}

// pushed prints the result of a push.
func (p *printer) pushed(r duly.PushResult, job *duly.Job) {
	if p.json {
		p.lines(wire.PushedForm.Append(nil, []duly.PushResult{r}))
		return
	}
	switch r.Status {
	case duly.Merged:
		p.printf("%s  merged into this job of %s\n", r.ID, job.Queue)
	case duly.Exists:
		p.printf("%s  exists already in %s and is %s; nothing was changed\n", r.ID, job.Queue, r.State)
	default:
		p.printf("%s  created in %s, due %s\n", r.ID, job.Queue, due(job, p.now()))
	}
}

// due returns the due time as text.
func due(job *duly.Job, now time.Time) string {
	switch {
	case job.Delay > 0:
		return "in " + shortDuration(job.Delay)
	case job.Due.After(now):
		return relative(job.Due, now)
	}
	return "now"
}

// lines prints the items of a JSON object with one list, an item per line.
func (p *printer) lines(list []byte) {
	var object map[string]json.RawMessage
	var items []json.RawMessage
	if json.Unmarshal(list, &object) != nil {
		return // package wire encodes valid JSON
	}

	// The list has one field besides the cursor. Its name differs from form to form.
	for name, value := range object {
		if name != "next" && json.Unmarshal(value, &items) == nil {
			for _, item := range items {
				p.line(item)
			}
		}
	}
}
