package cli

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/httpengine"
	"github.com/dulymq/duly/internal/wire"
)

func topicPublishCommand(a *app) *cobra.Command {
	var m duly.Message
	var lines bool
	cmd := a.command("publish TOPIC [BODY|-]", "Publish a message, or one message per input line",
		`Without a BODY, publish reads it from standard input if that is a pipe or a file. "-" always reads standard input,
and '' is an empty body. With --lines every line of standard input is the body of a message.

It prints the position of the message in the log. A delayed message has an ID instead, until it enters the log. A
topic with dedupe accepts an ID once, so publish retries a call whose answer was lost. Without dedupe it never
retries.`,
		`  duly topic publish events 'order 7 paid' --key customer-1 --header type=paid
  duly topic publish events < event.json
  duly topic publish events 'order 7 unpaid' --id reminder-7 --delay 1h
  duly topic publish clicks --lines < clicks.ndjson`,
		func(ctx context.Context, p *printer, args []string) error {
			m.Topic, a.warnings = args[0], warnDataLoss
			if !lines {
				return a.publish(ctx, p, m, args[1:])
			}
			if err := checkLines(args[1:], m.ID, "message"); err != nil {
				return err
			}
			return a.publishLines(ctx, p, m)
		})

	cmd.Args = takesArgs("TOPIC", "[BODY]")
	cmd.ValidArgsFunction = a.completeTopics(1)

	f := cmd.Flags()
	f.BoolVar(&lines, "lines", false, "one message per line of standard input")
	textVar(f, &m.ID, "id", "the message's `ID`, for dedupe and to find a delayed message")
	textVar(f, &m.Key, "key", "groups with --order key handle messages with the same `key` in order")
	f.Var(headersFlag{&m.Headers}, "header", "a header; may be repeated")
	f.Var(durationFlag{to: &m.Delay, zero: true}, "delay", "enter the log after this time (default: now)")
	f.Var(timeFlag{&m.Due, time.Local}, "due", "enter the log at this time")
	return cmd
}

// publish publishes one message.
func (a *app) publish(ctx context.Context, p *printer, m duly.Message, rest []string) (err error) {
	if m.Body, err = a.body(rest); err != nil {
		return err
	}
	return a.withTopics(ctx, true, func(s *session, topics contract.Topics) error {
		// Publish creates a missing topic, so the check must come before it.
		_, missing := topics.Topic(ctx, s.queue(m.Topic))
		result, err := a.client(s).Publish(ctx, m)
		if err != nil {
			return a.withPublishHint(err, m.Topic)
		}

		p.published(result, &m)
		if err := p.flush(); err != nil {
			return err
		}
		if errors.Is(missing, duly.ErrNotFound) && !a.json {
			a.note("created topic %s", m.Topic)
		}
		return nil
	})
}

// withPublishHint adds a hint to the error of a publish.
func (a *app) withPublishHint(err error, topic string) error {
	if httpengine.NotSent(err) { // nothing was stored; withSession adds the hint
		return err
	}
	program, name := a.program(), shellQuote(topic)
	err = withHintFor(duly.CodeFull, err,
		"see which groups need its messages: %s topic groups %s; to change its bounds: %s topic set %s --help",
		program, name, program, name)
	return withHintFor(duly.CodeUnavailable, err,
		"unless nothing was done, check the topic before you repeat it: without dedupe a repeat may add a second message")
}

// published prints the result of a publish.
func (p *printer) published(r duly.PublishResult, m *duly.Message) {
	if p.json {
		p.lines(wire.PublishedForm.Append(nil, []duly.PublishResult{r}))
		return
	}
	name := r.ID

	// A delayed message has no position until it enters the log.
	if r.Position != (duly.Position{}) {
		name = r.Position.String()
	}
	switch {
	case r.Status == duly.Exists:
		p.printf("%s  exists already in %s; nothing was changed\n", name, m.Topic)
	case r.Position == (duly.Position{}):
		p.printf("%s  enters %s %s\n", name, m.Topic, entry(m, p.now()))
	default:
		p.printf("%s  published to %s\n", name, m.Topic)
	}
}

func entry(m *duly.Message, now time.Time) string {
	if m.Delay > 0 {
		return "in " + shortDuration(m.Delay)
	}
	return relative(m.Due, now)
}

// publishLines publishes one message per line.
func (a *app) publishLines(ctx context.Context, p *printer, like duly.Message) error {
	return a.sendLines(ctx, p, func(s *session) (lineSender, error) {
		// An engine without topics should fail before the first line is read.
		if _, err := s.topics(); err != nil {
			return lineSender{}, err
		}
		client := a.client(s)
		send := func(ctx context.Context, bodies [][]byte) ([]duly.PushResult, []byte, error) {
			messages := make([]duly.Message, len(bodies))
			for i, body := range bodies {
				messages[i] = like
				messages[i].Body = body
			}

			results, err := client.PublishMany(ctx, messages)
			counted := make([]duly.PushResult, len(results))
			for i, r := range results {
				// sendLines counts only the status. The positions are in the JSON.
				counted[i] = duly.PushResult{Status: r.Status, Err: r.Err}
			}
			return counted, wire.PublishedForm.Append(nil, results), err
		}
		return lineSender{
			send:     send,
			withHint: func(err error) error { return a.withPublishHint(err, like.Topic) },
		}, nil
	})
}

func topicTailCommand(a *app) *cobra.Command {
	var f tailFlags
	cmd := a.command("tail TOPIC", "Print the messages of a topic as they enter",
		`Reads the log without a group, so it changes nothing. It begins at --from, else at the end, or with --once at the
start. It ends at Ctrl-C, after --limit messages, or with --once at the end of the log. Each line has the time when
the message entered, its position, key and body. If messages between --from and the oldest stored message are gone, a
line on standard error has their number.`,
		`  duly topic tail events
  duly topic tail events --once
  duly topic tail events --from 2026-01-31T00:00:00Z --limit 100 --json
  duly topic tail events --once --bodies > all.ndjson`,
		func(ctx context.Context, p *printer, args []string) error {
			if f.bodies && p.json {
				return usageErrorf("--bodies and --json are both set, give one of them")
			}
			switch {
			case f.from.from != "":
			case f.once:
				f.from.from = duly.FromStart
			default:
				f.from.from = duly.FromEnd
			}
			return a.withTopics(ctx, false, func(s *session, topics contract.Topics) error {
				return a.tail(ctx, p, s, topics, args[0], f)
			})
		})

	cmd.Args = takesArgs("TOPIC")
	cmd.ValidArgsFunction = a.completeTopics(1)
	cmd.Flags().Var(&f.from, "from", fromHelp+" (default end, with --once start)")
	countVar(cmd.Flags(), &f.limit, "limit", "exit after this many messages (default: no limit)")
	cmd.Flags().BoolVar(&f.once, "once", false, "exit at the end of the log")
	cmd.Flags().BoolVar(&f.bodies, "bodies", false, "print only the bodies, one per line")
	return cmd
}

// tailFlags are the flags of `duly topic tail`.
type tailFlags struct {
	from         fromFlag
	limit        int
	once, bodies bool
}

// tailWait is how long one read waits for a message.
const tailWait = 30 * time.Second

func (a *app) tail(
	ctx context.Context, p *printer, s *session, topics contract.Topics, topic string, f tailFlags,
) error {
	// A long wait saves calls, and ends at Ctrl-C all the same.
	read := contract.ReadParams{From: f.from.from, Wait: tailWait}
	if f.once {
		read.Wait = 0
	}
	for left := f.limit; ctx.Err() == nil; {
		read.Limit = duly.DefaultPage
		if f.limit > 0 {
			read.Limit = min(left, read.Limit)
		}

		page, err := topics.Read(ctx, s.queue(topic), read)
		switch {
		// Ctrl-C is the normal end of tail.
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return a.withTailHint(ctx, s, topics, err, topic)
		}

		// A reader that is slower than the retention must notice what it has missed.
		if page.Gap > 0 {
			a.note("%s gone before the oldest stored message", plural(page.Gap, "message"))
		}
		if err := p.entries(&page, f.bodies); err != nil {
			return err
		}

		left -= len(page.Entries)

		// Without --once, an empty page only means that no message was published during the wait.
		if f.limit > 0 && left <= 0 || f.once && len(page.Entries) == 0 {
			return nil
		}
		read.From = page.Next
	}
	return nil
}

// withTailHint adds a hint to the error of a read.
func (a *app) withTailHint(ctx context.Context, s *session, topics contract.Topics, err error, topic string) error {
	if duly.CodeOf(err) != duly.CodeConflict {
		return a.missingTopic(ctx, s, topics, err, topic)
	}
	// If the topic exists, the conflict is the position: it is beyond the end of the log.
	if _, topicErr := topics.Topic(ctx, s.queue(topic)); topicErr == nil {
		return withHint(err, "read the stored messages: %s topic tail %s --from start", a.program(), shellQuote(topic))
	}
	return err
}

// entries prints a page of a log.
func (p *printer) entries(page *contract.ReadPage, bodies bool) error {
	for i := range page.Entries {
		e := &page.Entries[i]
		switch {
		case p.json:
			p.lines(wire.EntriesForm.Append(nil, contract.ReadPage{Entries: page.Entries[i : i+1]}))
		case bodies:
			p.printf("%s\n", e.Body)
		default:
			key := e.Key
			// A column must not be empty, because awk and cut count fields.
			if key == "" {
				key = "-"
			}
			line := e.Position.String() + "  " + oneLine(key) + "  " + preview(e.Body, tailPreview)
			p.printf("%s  %s\n", p.paint(dim, stamp(e.EnteredAt)), strings.TrimRight(line, " "))
		}
	}
	return p.flush()
}

// tailPreview is the number of characters of a body in a line.
const tailPreview = 120

func topicDelayedCommand(a *app) *cobra.Command {
	f := listFlags{limit: duly.DefaultPage}
	cmd := a.command("delayed TOPIC", "List the messages that have not entered the log",
		`Sorted by the time when they enter. duly topic cancel removes a message before it enters.`,
		`  duly topic delayed events
  duly topic delayed events --limit none --bodies --json`,
		func(ctx context.Context, p *printer, args []string) error {
			return a.withTopics(ctx, false, func(s *session, topics contract.Topics) error {
				return a.listDelayed(ctx, p, s, topics, args[0], f)
			})
		})

	cmd.Args = takesArgs("TOPIC")
	cmd.ValidArgsFunction = a.completeTopics(1)
	f.add(cmd.Flags())
	return cmd
}

func (a *app) listDelayed(
	ctx context.Context, p *printer, s *session, topics contract.Topics, topic string, f listFlags,
) error {
	t := p.newTable("ID", "ENTERS", "KEY", "BODY")
	params := contract.DelayedParams{PageParams: duly.PageParams{Cursor: f.cursor}, Bodies: f.bodies}
	found := 0

	for left := f.limit; left != 0; {
		params.Limit = duly.DefaultPage
		if left > 0 {
			params.Limit = min(left, params.Limit)
		}
		page, err := topics.Delayed(ctx, s.queue(topic), params)
		if err != nil {
			// The messages before the error are still worth printing.
			t.flush()
			return a.missingTopic(ctx, s, topics, err, topic)
		}
		if err := p.delayed(t, &page, f.bodies); err != nil {
			return err
		}

		found += len(page.Messages)
		if left > 0 {
			left -= len(page.Messages)
		}
		if params.Cursor = page.Next; params.Cursor == "" {
			break
		}
	}

	switch {
	case found == 0 && f.cursor == "":
		a.noteOnTerminal("there are no delayed messages of %s", topic)
	case params.Cursor != "" && !a.json:
		a.note("… more (--limit none, --cursor %s)", params.Cursor)
	}
	return nil
}

// delayed prints a page of delayed messages, as rows of t or as JSON.
func (p *printer) delayed(t *table, page *contract.DelayedPage, bodies bool) error {
	if p.json {
		p.lines(wire.AppendDelayed(nil, *page, bodies))
		return p.flush()
	}
	for i := range page.Messages {
		m := &page.Messages[i]
		t.add(txt(m.ID), txt(relative(m.Due, p.now())), txt(m.Key), txt(preview(m.Body, tailPreview)))
	}
	t.flush()
	return p.flush()
}

func topicCancelCommand(a *app) *cobra.Command {
	key := ""
	cmd := a.command("cancel TOPIC ID…", "Remove delayed messages before they enter the log",
		`If a message has a key, set --key too.`,
		`  duly topic cancel events reminder-7
  duly topic cancel events reminder-7 --key customer-1`,
		func(ctx context.Context, p *printer, args []string) error {
			return a.withTopics(ctx, false, func(s *session, topics contract.Topics) error {
				return a.forEach(ctx, p, args[1:], "canceled message", func(id string) error {
					err := topics.CancelDelayed(ctx, s.queue(args[0]), key, id)
					if !errors.Is(err, duly.ErrNotFound) {
						return err
					}

					// An unknown topic and an unknown message have the same code.
					if _, missing := topics.Topic(ctx, s.queue(args[0])); missing != nil {
						return a.missingTopic(ctx, s, topics, missing, args[0])
					}
					return withHint(err, "it may have entered the log, or have a --key; see: %s topic delayed %s",
						a.program(), shellQuote(args[0]))
				})
			})
		})

	cmd.Args = takesArgs("TOPIC", "ID…")
	cmd.ValidArgsFunction = a.completeTopics(1)
	cmd.Flags().StringVar(&key, "key", "", "the `key` of the messages")
	return cmd
}

func topicConsumeCommand(a *app) *cobra.Command {
	f := newWorkFlags()
	group := ""
	var cmd *cobra.Command
	cmd = a.command("consume TOPIC --group GROUP (--exec CMD | -- CMD [ARG…])",
		"Run a command for every message of a group",
		`The same as duly work TOPIC@GROUP: its help describes the command's input and exit status. DULY_JOB_ID is the
position of the message, DULY_JOB_ORDER_KEY its key. Processes share the messages of a group, and every group receives
all messages. --from creates the group if it does not exist.`,
		`  duly topic consume events --group mailer --exec ./send-mail
  duly topic consume events --group audit --from end --max 10 -- tee -a audit.log
  duly topic consume events --group report --until-empty --exec ./report --concurrency 8`,
		func(ctx context.Context, p *printer, args []string) error {
			topics, argv := splitAtDash(cmd, args)
			if group == "" {
				return usageErrorf("the group is missing; give --group GROUP")
			}
			return a.startWork(ctx, p, []string{duly.GroupName(topics[0], group)}, argv, f)
		})

	cmd.Args = func(cmd *cobra.Command, args []string) error {
		// The words after the dash are a command, not names.
		topics, _ := splitAtDash(cmd, args)
		return takesArgs("TOPIC")(cmd, topics)
	}
	cmd.ValidArgsFunction = a.completeTopics(1)
	cmd.Flags().StringVar(&group, "group", "", "the `group`")
	f.add(cmd.Flags())
	return cmd
}
