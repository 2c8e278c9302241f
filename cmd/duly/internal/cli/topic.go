package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/wire"
)

func topicCommand(a *app) *cobra.Command {
	return a.group("topic", "Publish messages, and consume them with groups",
		topicCreateCommand(a), topicSetCommand(a), topicListCommand(a), topicPublishCommand(a), topicTailCommand(a),
		topicDelayedCommand(a), topicCancelCommand(a), topicGroupsCommand(a), topicGroupCommand(a),
		topicConsumeCommand(a), topicSeekCommand(a), topicTrimCommand(a), topicDestroyCommand(a))
}

// topics returns the topics of the session's engine.
func (s *session) topics() (contract.Topics, error) {
	topics, ok := s.Engine.(contract.Topics)
	if !ok {
		return nil, withHint(contract.Errorf(duly.CodeUnsupported, "this engine has no topics"),
			"use a queue, or SQLite, Redis, or a server on one of them")
	}
	return topics, nil
}

// withTopics is like withEngine for a command about topics. create allows it to create the file
// of the engine.
func (a *app) withTopics(ctx context.Context, create bool, do func(s *session, topics contract.Topics) error) error {
	return a.withSession(ctx, create, func(s *session) error {
		topics, err := s.topics()
		if err != nil {
			return err
		}
		return do(s, topics)
	})
}

// group returns a group of the session's namespace.
func (s *session) group(topic, name string) duly.QueueRef {
	return s.queue(duly.GroupName(topic, name))
}

func topicCreateCommand(a *app) *cobra.Command {
	var c duly.TopicConfig
	cmd := a.command("create TOPIC", "Create a topic, if it does not exist",
		`A topic is a log of messages. Each of its consumer groups sees every message. A topic without groups keeps all
messages. With groups, it deletes a message once every group is done with it; --keep keeps messages longer, for new
groups and for replay. The first publish creates a topic too. Prints the whole configuration.`,
		`  duly topic create events
  duly topic create events --keep 7d --dedupe 1h
  duly topic create clicks --max-count 1000000 --overflow drop
  duly topic create clicks --shards 8      # on Redis`,
		func(ctx context.Context, p *printer, args []string) error {
			return a.withTopics(ctx, true, func(s *session, topics contract.Topics) error {
				return a.configureTopic(ctx, p, s, topics, args[0], c)
			})
		})

	cmd.Args = takesArgs("TOPIC")
	cmd.ValidArgsFunction = noCompletion
	topicFlags(cmd, &c)
	return cmd
}

func topicSetCommand(a *app) *cobra.Command {
	var c duly.TopicConfig
	cmd := a.command("set TOPIC", "Change the settings of a topic",
		`Changes the given settings at once and leaves the others. Prints the whole configuration. To change the settings of
a group, use duly queue set TOPIC@GROUP.`,
		`  duly topic set events --keep 7d
  duly topic set events --dedupe 24h
  duly topic set events --max-age 30d --max-bytes none`,
		func(ctx context.Context, p *printer, args []string) error {
			return a.withTopics(ctx, false, func(s *session, topics contract.Topics) error {
				// A set of a misspelled topic would create it, so the topic must exist.
				if _, err := topics.Topic(ctx, s.queue(args[0])); err != nil {
					return a.missingTopic(ctx, s, topics, err, args[0])
				}
				return a.configureTopic(ctx, p, s, topics, args[0], c)
			})
		})

	cmd.Args = takesArgs("TOPIC")
	cmd.ValidArgsFunction = a.completeTopics(1)
	topicFlags(cmd, &c)
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		if !anyFlagSet(cmd) {
			return usageErrorf("nothing to change; %s stats TOPIC shows the settings", a.program())
		}
		return nil
	}
	return cmd
}

// topicFlags adds the flags for the settings of a topic.
func topicFlags(cmd *cobra.Command, c *duly.TopicConfig) {
	f := cmd.Flags()
	countVar(f, &c.Shards, "shards", "number of shards, a power of two up to 256; it never changes")
	optionalDurationVar(f, &c.Dedupe, "dedupe", "accept each message ID once within this time, 1s to 24h")
	optionalDurationVar(f, &c.Keep, "keep", "keep messages this long even if no group needs them")
	optionalDurationVar(f, &c.MaxAge, "max-age", "drop older messages, even if a group needs them")
	optionalCountVar(f, &c.MaxCount, "max-count", "maximum number of messages, including delayed ones")
	f.Var(byteCountFlag{&c.MaxBytes}, "max-bytes", "maximum bytes, by the engine's estimate: 500MiB, or none")
	f.StringVar((*string)(&c.Overflow), "overflow", "",
		"at max-count or max-bytes: refuse the publish, or drop the oldest messages; `refuse|drop`")
	completeValues(cmd, "overflow", string(duly.OverflowRefuse), string(duly.OverflowDrop))
}

// configureTopic changes a topic and prints it.
func (a *app) configureTopic(
	ctx context.Context, p *printer, s *session, topics contract.Topics, name string, patch duly.TopicConfig,
) error {
	if err := topics.ConfigureTopic(ctx, s.queue(name), patch); err != nil {
		if patch.Shards != 0 {
			err = withHintFor(duly.CodeUnsupported, err, "") // the text already says to leave out shards
		}
		return err
	}

	// The configuration is read back, so that the output has the values that the engine filled in.
	info, err := topics.Topic(ctx, s.queue(name))
	if err != nil {
		return err
	}
	if p.json {
		p.line(wire.TopicForm.Append(nil, wire.Topic{Name: name, TopicInfo: info}))
		return nil
	}
	p.topicConfig(&info.Config)
	return nil
}

// topicConfig prints the settings of a topic.
func (p *printer) topicConfig(c *duly.TopicConfig) {
	t := p.newTable("SETTING", "VALUE")
	t.add(txt("shards"), txt(countOrNone(c.Shards)))
	t.add(txt("dedupe"), txt(durationText(c.Dedupe)))
	t.add(txt("keep"), txt(durationText(c.Keep)))
	t.add(txt("max age"), txt(durationText(c.MaxAge)))
	t.add(txt("max count"), txt(countOrNone(c.MaxCount)))
	maxBytes := "none"
	if c.MaxBytes > 0 {
		maxBytes = bytesText(c.MaxBytes)
	}
	t.add(txt("max bytes"), txt(maxBytes))
	t.add(txt("overflow"), txt(string(c.Overflow)))
	t.flush()
}

// topic prints everything about one topic.
func (p *printer) topic(topic *wire.Topic) {
	if p.json {
		p.line(wire.TopicForm.Append(nil, *topic))
		return
	}

	stats, now := &topic.Stats, p.now()
	entered := func(at duly.Position) string {
		if at == (duly.Position{}) {
			return ""
		}
		return at.String() + ", " + relative(contract.PositionPartsOf(at).EnteredAt(), now)
	}
	next := ""
	if !stats.NextDue.IsZero() {
		next = ", next enters " + relative(stats.NextDue, now)
	}
	p.pairs(
		txt("messages"), txt(countText(stats.Messages)+" ("+bytesText(stats.Bytes)+")"),
		txt("first"), txt(entered(stats.First)),
		txt("last"), txt(entered(stats.Last)),
		txt("delayed"), txt(countText(stats.Delayed)+next),
	)
	p.printf("\n")

	t := p.newTable("COUNTED", ">MESSAGES")
	for _, row := range []struct {
		name string
		n    int64
	}{
		{"published", stats.Published}, {"exists", stats.Exists}, {"entered", stats.Entered},
		{"canceled", stats.Canceled}, {"trimmed", stats.Trimmed}, {"dropped", stats.Dropped},
		{"forgotten IDs", stats.Forgotten},
	} {
		t.add(txt(row.name), txt(countText(row.n)))
	}
	t.flush()
	p.printf("\n")

	if len(stats.Floors) > 0 {
		t := p.newTable(">SHARD", "HELD BACK BY", "SINCE", ">ALONE", "FROM")
		for _, f := range stats.Floors {
			t.add(txt(countText(int64(f.Shard))), txt(duly.GroupName(topic.Name, f.Group)), txt(relative(f.Since, now)),
				txt(countText(f.Alone)), txt(entered(f.Position)))
		}
		t.flush()
		p.printf("\n")
	}
	p.topicConfig(&topic.Config)
}

func topicListCommand(a *app) *cobra.Command {
	var names bool
	cmd := a.command("list", "List the topics and their sizes",
		`Lists the topics of the namespace by name. duly stats TOPIC shows everything about one topic.`,
		`  duly topic list
  duly topic list --names`,
		func(ctx context.Context, p *printer, _ []string) error {
			return a.withTopics(ctx, false, func(s *session, topics contract.Topics) error {
				return listTopics(ctx, p, s, topics, names)
			})
		})
	cmd.Aliases = []string{"ls"}
	cmd.Args = noArgs
	cmd.Flags().BoolVar(&names, "names", false, "print only the names")
	return cmd
}

func listTopics(ctx context.Context, p *printer, s *session, topics contract.Topics, namesOnly bool) error {
	t := p.newTable("TOPIC", ">MESSAGES", ">BYTES", ">DELAYED", ">PUBLISHED", ">DROPPED", "NEWEST")
	list := func(page duly.PageParams) (duly.NamePage, error) { return topics.Topics(ctx, s.namespace, page) }

	return forEachPage(ctx, duly.MaxBatch, list, func(names []string) error {
		if namesOnly {
			return p.names(names)
		}
		for _, name := range names {
			info, err := topics.Topic(ctx, s.queue(name))
			switch {
			case errors.Is(err, duly.ErrNotFound): // the topic was destroyed since
				continue
			case err != nil:
				return err
			case p.json:
				p.line(wire.TopicForm.Append(nil, wire.Topic{Name: name, TopicInfo: info}))
				continue
			}

			stats, newest := &info.Stats, ""
			if stats.Last != (duly.Position{}) {
				newest = relative(contract.PositionPartsOf(stats.Last).EnteredAt(), p.now())
			}
			t.add(txt(name), txt(countText(stats.Messages)), txt(bytesText(stats.Bytes)), txt(countText(stats.Delayed)),
				txt(countText(stats.Published)), txt(countText(stats.Dropped)), txt(newest))
		}
		t.flush()
		return p.flush()
	})
}

func topicTrimCommand(a *app) *cobra.Command {
	cmd := a.command("trim TOPIC", "Delete the messages that no group needs",
		`An engine trims by itself, a few messages at a time. trim never deletes a message that a group needs. Only the
bounds of the topic do. duly stats TOPIC names the group that holds messages back.`,
		`  duly topic trim events`,
		func(ctx context.Context, p *printer, args []string) error {
			return a.withTopics(ctx, false, func(s *session, topics contract.Topics) error {
				return a.trim(ctx, p, s, topics, args[0])
			})
		})

	cmd.Args = takesArgs("TOPIC")
	cmd.ValidArgsFunction = a.completeTopics(1)
	return cmd
}

// trimView is the JSON of a trim.
type trimView struct {
	Trimmed int64 `json:"trimmed"`
	Dropped int64 `json:"dropped"`
}

// trim steps until there is nothing to trim. It prints the difference of the counters, so
// the result includes messages that the engine trimmed by itself meanwhile.
func (a *app) trim(ctx context.Context, p *printer, s *session, topics contract.Topics, name string) error {
	ref := s.queue(name)
	before, err := topics.Topic(ctx, ref)
	if err != nil {
		return a.missingTopic(ctx, s, topics, err, name)
	}
	step, err := trimStep(s)
	if err != nil {
		return err
	}

	// A step is small, so a signal ends the loop soon.
	for more := true; more && ctx.Err() == nil; {
		if more, err = step(ctx, ref); err != nil {
			return err
		}
	}
	after, err := topics.Topic(ctx, ref)
	if err != nil {
		return err
	}

	result := trimView{after.Stats.Trimmed - before.Stats.Trimmed, after.Stats.Dropped - before.Stats.Dropped}
	if p.json {
		return p.value(result)
	}
	p.printf("trimmed %s of %s; %s left\n", plural(result.Trimmed, "message"), name, countText(after.Stats.Messages))
	if result.Dropped > 0 {
		p.printf("the topic's bounds dropped %s\n", plural(result.Dropped, "message"))
	}
	return nil
}

// trimStep returns the function that trims a topic: a call to the server, or Step for an engine in
// this process.
func trimStep(s *session) (func(context.Context, duly.QueueRef) (more bool, err error), error) {
	// A server has a route for trims. An engine in this process trims in Step.
	switch e := s.Engine.(type) {
	case interface {
		Trim(ctx context.Context, topic duly.QueueRef) (more bool, err error)
	}:
		return e.Trim, nil
	case contract.Maintainer:
		return e.Step, nil
	}
	return nil, withHint(contract.Errorf(duly.CodeUnsupported, "this engine does not trim on demand"), "it trims by itself")
}

func topicDestroyCommand(a *app) *cobra.Command {
	yes := false
	cmd := a.command("destroy TOPIC", "Remove a topic with its log, delayed messages, groups and settings",
		`This cannot be undone. Asks first, unless --yes is given.`,
		`  duly topic destroy events --yes`,
		func(ctx context.Context, p *printer, args []string) error {
			return a.withTopics(ctx, false, func(s *session, topics contract.Topics) error {
				// The check comes before the question, so that nobody confirms the removal of a misspelled topic.
				if _, err := topics.Topic(ctx, s.queue(args[0])); err != nil {
					return a.missingTopic(ctx, s, topics, err, args[0])
				}

				if !yes {
					what := "this removes the topic " + args[0] + " with all its messages and groups permanently"
					if err := a.confirm(what); err != nil {
						return err
					}
				}
				return a.forEach(ctx, p, args, "destroyed",
					func(name string) error { return topics.DestroyTopic(ctx, s.queue(name)) })
			})
		})

	cmd.Args = takesArgs("TOPIC")
	cmd.ValidArgsFunction = a.completeTopics(1)
	cmd.Flags().BoolVar(&yes, "yes", false, "don't ask")
	return cmd
}
