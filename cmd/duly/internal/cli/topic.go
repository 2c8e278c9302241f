package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/cmd/duly/internal/config"
	"github.com/dulymq/duly/internal/wire"
)

func topicCommand(a *app) *cobra.Command {
	return a.group("topic", "Publish messages, and read them with consumer groups",
		topicCreateCommand(a), topicSetCommand(a), topicListCommand(a), topicPublishCommand(a), topicTailCommand(a),
		topicDelayedCommand(a), topicCancelCommand(a), topicGroupsCommand(a), topicGroupCommand(a),
		topicConsumeCommand(a),
		topicSeekCommand(a), topicTrimCommand(a), topicDestroyCommand(a))
}

// topics returns the topics of the session's engine.
func (s *session) topics() (duly.Topics, error) {
	topics, ok := s.Contract.(duly.Topics)
	if !ok {
		return nil, advise(duly.Errorf(duly.CodeUnsupported, "this engine has no topics"),
			"use a queue, or an engine with topics")
	}
	return topics, nil
}

// withTopics is with for a command about topics. mayMake reports whether the command may
// create the storage.
func (a *app) withTopics(ctx context.Context, mayMake bool, do func(s *session, topics duly.Topics) error) error {
	return a.within(ctx, mayMake, func(s *session) error {
		topics, err := s.topics()
		if err != nil {
			return err
		}
		return do(s, topics)
	})
}

// group names a group of the session's namespace.
func (s *session) group(topic, name string) duly.QueueRef {
	return s.queue(duly.GroupName(topic, name))
}

func topicCreateCommand(a *app) *cobra.Command {
	var c duly.TopicConfig
	cmd := a.command("create TOPIC", "Make a topic, if it does not exist",
		`A topic is a log of messages. Each of its consumer groups sees every message. A topic without groups keeps all
messages. With groups, it deletes a message once every group is done with it; --keep keeps messages longer, for new
groups and for replay. The first publish makes a topic too. Prints the whole configuration.`,
		`  duly topic create events
  duly topic create events --keep 7d --dedupe 1h
  duly topic create clicks --shards 8 --max-count 1000000 --overflow drop`,
		func(ctx context.Context, p *printer, args []string) error {
			return a.withTopics(ctx, true, func(s *session, topics duly.Topics) error {
				return a.configureTopic(ctx, p, s, topics, args[0], c)
			})
		})
	cmd.Args = wants("TOPIC")
	cmd.ValidArgsFunction = noCompletion
	topicFlags(cmd, &c)
	return cmd
}

func topicSetCommand(a *app) *cobra.Command {
	var c duly.TopicConfig
	cmd := a.command("set TOPIC", "Change how long a topic keeps messages, and its bounds",
		`Changes the given settings at once and leaves the others. Prints the whole configuration. To change the settings of a
group, use duly queue set TOPIC@GROUP.`,
		`  duly topic set events --keep 7d
  duly topic set events --dedupe 24h
  duly topic set events --max-age 30d --max-bytes none`,
		func(ctx context.Context, p *printer, args []string) error {
			return a.withTopics(ctx, false, func(s *session, topics duly.Topics) error {
				if _, err := topics.Topic(ctx, s.queue(args[0])); err != nil {
					return a.nearTopic(ctx, s, topics, err, args[0])
				}
				return a.configureTopic(ctx, p, s, topics, args[0], c)
			})
		})

	cmd.Args = wants("TOPIC")
	cmd.ValidArgsFunction = a.completeTopics(1)
	topicFlags(cmd, &c)
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		if !anyGiven(cmd) {
			return misusef("nothing to change was given; %s stats TOPIC shows the settings", a.program())
		}
		return nil
	}
	return cmd
}

func topicFlags(cmd *cobra.Command, c *duly.TopicConfig) {
	f := cmd.Flags()
	countVar(f, &c.Shards, "shards", "parts, a power of two up to 256; fixed once the topic is made")
	spanVar(f, &c.Dedupe, "dedupe", "accept a message's ID once within this time, 1s to 24h")
	spanVar(f, &c.Keep, "keep", "keep a message this long although no group needs it")
	spanVar(f, &c.MaxAge, "max-age", "drop messages that are older, needed or not")
	boundVar(f, &c.MaxCount, "max-count", "maximum number of messages, including delayed ones")
	f.Var(bytesFlag{&c.MaxBytes}, "max-bytes", "maximum bytes, by the engine's estimate: 500MiB, or none")
	f.StringVar((*string)(&c.Overflow), "overflow", "",
		"at these two bounds: refuse the publish, or drop the oldest messages; `refuse|drop`")
	fixed(cmd, "overflow", string(duly.OverflowRefuse), string(duly.OverflowDrop))
}

// configureTopic changes a topic and prints it.
func (a *app) configureTopic(ctx context.Context, p *printer, s *session, topics duly.Topics, name string, patch duly.TopicConfig) error {
	if err := topics.ConfigureTopic(ctx, s.queue(name), patch); err != nil {
		return err
	}
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

func (p *printer) topicConfig(c *duly.TopicConfig) {
	t := p.newTable("SETTING", "VALUE")
	t.add(txt("shards"), txt(bound(c.Shards)))
	t.add(txt("dedupe"), txt(span(c.Dedupe)))
	t.add(txt("keep"), txt(span(c.Keep)))
	t.add(txt("max age"), txt(span(c.MaxAge)))
	t.add(txt("max count"), txt(bound(c.MaxCount)))
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
		return at.String() + ", " + relative(duly.PositionPartsOf(at).EnteredAt(), now)
	}
	next := ""
	if !stats.NextDue.IsZero() {
		next = ", the next enters " + relative(stats.NextDue, now)
	}
	p.pairs(txt("messages"), txt(countText(stats.Messages)+" ("+bytesText(stats.Bytes)+")"), txt("first"),
		txt(entered(stats.First)),
		txt("last"), txt(entered(stats.Last)), txt("delayed"), txt(countText(stats.Delayed)+next))
	p.printf("\n")

	t := p.newTable("COUNTED", ">MESSAGES")
	for _, row := range []struct {
		name string
		n    int64
	}{
		{"published", stats.Published}, {"exists", stats.Exists}, {"entered", stats.Entered},
		{"canceled", stats.Canceled},
		{"trimmed", stats.Trimmed}, {"dropped", stats.Dropped}, {"forgotten IDs", stats.Forgotten},
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
			return a.withTopics(ctx, false, func(s *session, topics duly.Topics) error {
				return listTopics(ctx, p, s, topics, names)
			})
		})
	cmd.Aliases = []string{"ls"}
	cmd.Args = noArgs
	cmd.Flags().BoolVar(&names, "names", false, "print only the names")
	return cmd
}

func listTopics(ctx context.Context, p *printer, s *session, topics duly.Topics, namesOnly bool) error {
	t := p.newTable("TOPIC", ">MESSAGES", ">BYTES", ">DELAYED", ">PUBLISHED", ">DROPPED", "NEWEST")
	list := func(page duly.PageParams) (duly.NamePage, error) { return topics.Topics(ctx, s.namespace, page) }

	return eachName(ctx, list, func(names []string) error {
		if namesOnly {
			return p.names(names)
		}
		for _, name := range names {
			info, err := topics.Topic(ctx, s.queue(name))
			switch {
			case errors.Is(err, duly.ErrNotFound): // destroyed meanwhile
				continue
			case err != nil:
				return err
			case p.json:
				p.line(wire.TopicForm.Append(nil, wire.Topic{Name: name, TopicInfo: info}))
				continue
			}

			stats, newest := &info.Stats, ""
			if stats.Last != (duly.Position{}) {
				newest = relative(duly.PositionPartsOf(stats.Last).EnteredAt(), p.now())
			}
			t.add(txt(name), txt(countText(stats.Messages)), txt(bytesText(stats.Bytes)), txt(countText(stats.Delayed)),
				txt(countText(stats.Published)), txt(countText(stats.Dropped)), txt(newest))
		}
		t.flush()
		return p.flush()
	})
}

// eachName walks over the pages of a list of names.
func eachName(ctx context.Context, list func(duly.PageParams) (duly.NamePage, error), do func(names []string) error) error {
	for page := (duly.PageParams{Limit: duly.MaxBatch}); ; {
		names, err := list(page)
		if err == nil {
			err = do(names.Names)
		}
		if page.Cursor = names.Next; err != nil || page.Cursor == "" || ctx.Err() != nil {
			return err
		}
	}
}

func topicTrimCommand(a *app) *cobra.Command {
	cmd := a.command("trim TOPIC", "Delete the messages that no group needs, now",
		`An engine trims by itself, a few messages at a time. trim never deletes a message that a group needs; only the bounds
of the topic do. duly stats TOPIC names the group that holds messages back.`,
		`  duly topic trim events`,
		func(ctx context.Context, p *printer, args []string) error {
			return a.withTopics(ctx, false, func(s *session, topics duly.Topics) error {
				return a.trim(ctx, p, s, topics, args[0])
			})
		})
	cmd.Args = wants("TOPIC")
	cmd.ValidArgsFunction = a.completeTopics(1)
	return cmd
}

// trimView is the result of a trim.
type trimView struct {
	Trimmed int64 `json:"trimmed"`
	Dropped int64 `json:"dropped"`
}

// trim steps until nothing is left to trim. It reports the difference of the counters,
// so the result includes messages that the engine trimmed by itself meanwhile.
func (a *app) trim(ctx context.Context, p *printer, s *session, topics duly.Topics, name string) error {
	ref := s.queue(name)
	before, err := topics.Topic(ctx, ref)
	if err != nil {
		return a.nearTopic(ctx, s, topics, err, name)
	}
	step, err := stepOf(s)
	if err != nil {
		return err
	}
	for more := true; more && ctx.Err() == nil; {
		if more, err = step(ctx, ref); err != nil {
			return err
		}
	}
	after, err := topics.Topic(ctx, ref)
	if err != nil {
		return err
	}

	did := trimView{after.Stats.Trimmed - before.Stats.Trimmed, after.Stats.Dropped - before.Stats.Dropped}
	if p.json {
		return p.value(did)
	}
	p.printf("trimmed %s of %s; %s left\n", plural(did.Trimmed, "message"), name, countText(after.Stats.Messages))
	if did.Dropped > 0 {
		p.printf("the topic's bounds dropped %s\n", plural(did.Dropped, "message"))
	}
	return nil
}

// stepOf returns the engine's trim step. It is a call to the server for a remote engine,
// and Step for an engine with a storage of its own.
func stepOf(s *session) (func(context.Context, duly.QueueRef) (more bool, err error), error) {
	switch e := s.Contract.(type) {
	case interface {
		Trim(ctx context.Context, topic duly.QueueRef) (more bool, err error)
	}:
		return e.Trim, nil
	case duly.Maintainer:
		return e.Step, nil
	}
	return nil, advise(duly.Errorf(duly.CodeUnsupported, "this engine does not trim on demand"), "it trims by itself")
}

func topicDestroyCommand(a *app) *cobra.Command {
	yes := false
	cmd := a.command("destroy TOPIC", "Remove a topic with its log, its delayed messages, its groups and its settings",
		`This cannot be undone. Asks first, unless --yes is given.`,
		`  duly topic destroy events --yes`,
		func(ctx context.Context, p *printer, args []string) error {
			return a.withTopics(ctx, false, func(s *session, topics duly.Topics) error {
				if _, err := topics.Topic(ctx, s.queue(args[0])); err != nil {
					return a.nearTopic(ctx, s, topics, err, args[0])
				}

				if !yes {
					if err := a.confirm("this removes the topic " + args[0] + " with all its messages and groups for good"); err != nil {
						return err
					}
				}
				return a.each(ctx, p, args, "destroyed",
					func(name string) error { return topics.DestroyTopic(ctx, s.queue(name)) })
			})
		})
	cmd.Args = wants("TOPIC")
	cmd.ValidArgsFunction = a.completeTopics(1)
	cmd.Flags().BoolVar(&yes, "yes", false, "don't ask")
	return cmd
}

// nearest returns the listed name that is most like name, empty if none is.
func nearest(ctx context.Context, name string, list func(duly.PageParams) (duly.NamePage, error)) (string, error) {
	looking := config.NearTo(name)
	err := eachName(ctx, list, func(names []string) error {
		for _, other := range names {
			looking.See(other)
		}
		return nil
	})
	return looking.Best(), err
}

// nearTopic adds the nearest name to the error of a topic that does not exist.
func (a *app) nearTopic(ctx context.Context, s *session, topics duly.Topics, err error, name string) error {
	if !errors.Is(err, duly.ErrNotFound) {
		return err
	}
	near, _ := nearest(ctx, name, func(page duly.PageParams) (duly.NamePage, error) {
		return topics.Topics(ctx, s.namespace, page)
	})
	if near != "" {
		return advise(noSuchTopic(s, name), "did you mean %s?", near)
	}
	return advise(noSuchTopic(s, name), "make it: %s topic create %s", a.program(), shellQuote(name))
}

func noSuchTopic(s *session, name string) error {
	return duly.Errorf(duly.CodeNotFound, "no such topic %s in namespace %s", name, s.namespace)
}

// nearGroup adds the nearest name to the error of a group that does not exist.
func (a *app) nearGroup(ctx context.Context, s *session, err error, full string) error {
	topics, unsupported := s.topics()
	if unsupported != nil {
		return err
	}

	ref, group, _ := s.queue(full).Group()
	near, listed := nearest(ctx, group, func(page duly.PageParams) (duly.NamePage, error) {
		return topics.Groups(ctx, ref, page)
	})
	if errors.Is(listed, duly.ErrNotFound) {
		return a.nearTopic(ctx, s, topics, listed, ref.Name)
	}

	missing := duly.Errorf(duly.CodeNotFound, "no such group %s of topic %s in namespace %s", group, ref.Name,
		s.namespace)
	if near != "" {
		return advise(missing, "did you mean %s?", duly.GroupName(ref.Name, near))
	}
	return advise(missing, "make it: %s topic group create %s %s", a.program(), shellQuote(ref.Name), shellQuote(group))
}

// isTopic reports whether an error says that the name of a queue belongs to a topic.
func isTopic(err error) bool {
	return errors.Is(err, duly.ErrConflict) && strings.Contains(fmt.Sprint(err), " is a topic; name a group")
}
