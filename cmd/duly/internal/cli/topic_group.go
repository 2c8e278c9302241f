package cli

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/wire"
)

func topicGroupsCommand(a *app) *cobra.Command {
	var namesOnly bool
	cmd := a.command("groups TOPIC", "List the groups of a topic and their backlogs",
		`LAG is the number of messages that a group has not received. READY, DELAYED, BLOCKED and LEASED are messages that it
has received and that are not done. OLDEST is the age of the oldest message that the group needs. The last column
marks a paused group, and a group because of which the topic cannot trim.`,
		`  duly topic groups events
  duly topic groups events --names`,
		func(ctx context.Context, p *printer, args []string) error {
			return a.withTopics(ctx, false, func(s *session, topics contract.Topics) error {
				return a.listGroups(ctx, p, s, topics, args[0], namesOnly)
			})
		})

	cmd.Args = takesArgs("TOPIC")
	cmd.ValidArgsFunction = a.completeTopics(1)
	cmd.Flags().BoolVar(&namesOnly, "names", false, "print only the names")
	return cmd
}

func (a *app) listGroups(
	ctx context.Context, p *printer, s *session, topics contract.Topics, topic string, namesOnly bool,
) error {
	ref := s.queue(topic)
	info, err := topics.Topic(ctx, ref)
	if err != nil {
		return a.missingTopic(ctx, s, topics, err, topic)
	}
	holdsBack := map[string]bool{} // groups that hold back the retention of the topic
	for _, f := range info.Stats.Floors {
		holdsBack[f.Group] = true
	}

	t := p.newTable("GROUP", ">LAG", ">READY", ">DELAYED", ">BLOCKED", ">LEASED", ">DEAD", ">OLDEST", "")
	found := 0
	list := func(page duly.PageParams) (duly.NamePage, error) { return topics.Groups(ctx, ref, page) }
	err = forEachPage(ctx, duly.MaxBatch, list, func(names []string) error {
		found += len(names)
		if namesOnly {
			return p.names(names)
		}

		full := make([]string, len(names))
		for i, name := range names {
			full[i] = duly.GroupName(topic, name)
		}
		groups, errs := describe(ctx, s, full)
		for i := range groups {
			switch {
			// The error of this group is returned with the others.
			case errs[i] != nil:
			case p.json:
				p.line(wire.QueueForm.Append(nil, groups[i]))
			default:
				t.addGroup(names[i], &groups[i], holdsBack[names[i]])
			}
		}
		t.flush()
		return errors.Join(append(errs, p.flush())...)
	})
	if err == nil && found == 0 {
		a.noteOnTerminal("there are no groups of %s; it keeps every message", topic)
	}
	return err
}

func (t *table) addGroup(name string, q *wire.Queue, holdsBack bool) {
	g := q.Stats.Group
	if g == nil {
		g = &duly.GroupStats{}
	}
	oldest := ""
	if g.OldestNeeded > 0 {
		oldest = shortDuration(g.OldestNeeded)
	}
	var notes []string
	for _, n := range []struct {
		note string
		set  bool
	}{{"at max held", g.AtMaxHeld}, {"holds back", holdsBack}, {"parked", g.Parked}, {"paused", q.Config.Paused}} {
		if n.set {
			notes = append(notes, n.note)
		}
	}

	row := []cell{txt(name), txt(countText(g.Lag))}
	for _, state := range []duly.State{
		duly.StateReady, duly.StateDelayed, duly.StateBlocked, duly.StateLeased, duly.StateDead,
	} {
		row = append(row, sizeCell(&q.Stats.Sizes, state))
	}
	t.add(append(row, txt(oldest), cell{strings.Join(notes, ", "), yellow})...)
}

func topicGroupCommand(a *app) *cobra.Command {
	return a.group("group", "Create or delete a consumer group", topicGroupCreateCommand(a), topicGroupDeleteCommand(a))
}

const fromHelp = "begin at this `position`: start, end, a time or a position of the topic"

func topicGroupCreateCommand(a *app) *cobra.Command {
	from := fromFlag{from: duly.FromStart}
	cmd := a.command("create TOPIC GROUP", "Create a consumer group, and its topic if it does not exist",
		`The group receives every message that is published after its creation. By default it begins at the oldest stored
message, which is --from start. With --from end it begins at the next message that enters. A time is written
2030-12-24T18:00:00Z, or 2030-12-24T18:00 in this machine's time zone.

Handle its messages with duly work TOPIC@GROUP. Change its settings with duly queue set TOPIC@GROUP.`,
		`  duly topic group create events mailer
  duly topic group create events audit --from end
  duly topic group create events report --from 2026-01-31T00:00:00Z`,
		func(ctx context.Context, p *printer, args []string) error {
			return a.withTopics(ctx, true, func(s *session, topics contract.Topics) error {
				// The name of the group has the topic's, so the engine could not say which one is bad.
				if err := contract.ValidateTopic(s.queue(args[0])); err != nil {
					return err
				}
				existed, err := topics.CreateGroup(ctx, s.group(args[0], args[1]), from.from)
				switch {
				case err != nil:
					program, topic := a.program(), shellQuote(args[0])
					return withHintFor(duly.CodeFull, err,
						"see them: %s topic groups %s; to delete one: %s topic group delete %s GROUP",
						program, topic, program, topic)
				case p.json:
					p.line(wire.GroupCreatedForm.Append(nil, existed))
				case existed:
					p.printf("%s exists already; nothing was changed\n", duly.GroupName(args[0], args[1]))
				default:
					p.printf("created %s, from %s\n", duly.GroupName(args[0], args[1]), from.from)
				}
				return nil
			})
		})

	cmd.Args = takesArgs("TOPIC", "GROUP")
	cmd.ValidArgsFunction = a.completeTopics(1)
	cmd.Flags().Var(&from, "from", fromHelp)
	return cmd
}

func topicGroupDeleteCommand(a *app) *cobra.Command {
	yes := false
	cmd := a.command("delete TOPIC GROUP",
		"Delete a group with its position in the log, its settings and its dead messages",
		`The messages of the log stay for the other groups. Asks first, unless --yes is given.`,
		`  duly topic group delete events mailer --yes`,
		func(ctx context.Context, p *printer, args []string) error {
			return a.withTopics(ctx, false, func(s *session, _ contract.Topics) error {
				name := duly.GroupName(args[0], args[1])
				// The check comes before the question, so that nobody confirms the removal of a misspelled group.
				if err := a.mustExist(ctx, s, name); err != nil {
					return err
				}

				if !yes {
					what := "this deletes the group " + name + " with its dead messages permanently"
					if err := a.confirm(what); err != nil {
						return err
					}
				}
				return a.forEach(ctx, p, []string{name}, "deleted",
					func(name string) error { return s.Destroy(ctx, s.queue(name)) })
			})
		})

	cmd.Args = takesArgs("TOPIC", "GROUP")
	cmd.ValidArgsFunction = a.completeTopics(1)
	cmd.Flags().BoolVar(&yes, "yes", false, "don't ask")
	return cmd
}

func topicSeekCommand(a *app) *cobra.Command {
	var to fromFlag
	cmd := a.command("seek TOPIC GROUP --to FROM", "Move a group to another position in the log",
		`The group gives up every message that it holds, and continues at the new position. If it moves back, it receives
messages again. If it moves forward, it skips messages. Dead messages stay. Receipts of leased messages become
invalid. A time is written 2030-12-24T18:00:00Z, or 2030-12-24T18:00 in this machine's time zone.`,
		`  duly topic seek events mailer --to start
  duly topic seek events mailer --to 2026-01-31T00:00:00Z
  duly topic seek events mailer --to end`,
		func(ctx context.Context, p *printer, args []string) error {
			if to.from == "" {
				return usageErrorf("the position is missing; give --to start, end, a time or a position")
			}
			return a.withTopics(ctx, false, func(s *session, topics contract.Topics) error {
				name := duly.GroupName(args[0], args[1])
				result, err := topics.Seek(ctx, s.queue(name), to.from)
				if err != nil {
					return withHintFor(duly.CodeUnavailable, a.orMissing(ctx, s, err, name), "repeat it, which is safe")
				}

				if p.json {
					p.line(wire.SeekedForm.Append(nil, result))
					return nil
				}
				p.printf("moved %s to %s: %s\n", name, to.from, seekText(result))
				return nil
			})
		})

	cmd.Args = takesArgs("TOPIC", "GROUP")
	cmd.ValidArgsFunction = a.completeTopics(1)
	cmd.Flags().Var(&to, "to", "continue at this `position`: start, end, a time or a position of the topic")
	return cmd
}

func seekText(r contract.SeekResult) string {
	var parts []string
	if r.Replayed > 0 {
		parts = append(parts, plural(r.Replayed, "message")+" to receive again")
	}
	if r.Skipped > 0 {
		parts = append(parts, plural(r.Skipped, "message")+" skipped")
	}

	// A seek to the present position is valid and moves nothing.
	if len(parts) == 0 {
		parts = append(parts, "the position is unchanged")
	}
	if r.Clipped {
		parts = append(parts, "older messages are gone, so it continues at the oldest stored message")
	}
	return strings.Join(parts, ", ")
}
