package cli

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/wire"
)

func topicGroupsCommand(a *app) *cobra.Command {
	var namesOnly bool
	cmd := a.command("groups TOPIC", "List the groups of a topic and their backlogs",
		`LAG is the number of messages that a group has not received yet. The messages under READY, DELAYED, BLOCKED and LEASED
were handed out before and are not done. OLDEST is the age of the oldest message that the group needs. The last column
marks a paused group, and a group that keeps its topic from trimming.`,
		`  duly topic groups events
  duly topic groups events --names`,
		func(ctx context.Context, p *printer, args []string) error {
			return a.withTopics(ctx, false, func(s *session, topics duly.Topics) error {
				return a.listGroups(ctx, p, s, topics, args[0], namesOnly)
			})
		})
	cmd.Args = wants("TOPIC")
	cmd.ValidArgsFunction = a.completeTopics(1)
	cmd.Flags().BoolVar(&namesOnly, "names", false, "print only the names")
	return cmd
}

func (a *app) listGroups(ctx context.Context, p *printer, s *session, topics duly.Topics, topic string, namesOnly bool) error {
	ref := s.queue(topic)
	info, err := topics.Topic(ctx, ref)
	if err != nil {
		return a.nearTopic(ctx, s, topics, err, topic)
	}
	floors := map[string]bool{}
	for _, f := range info.Stats.Floors {
		floors[f.Group] = true
	}

	t := p.newTable("GROUP", ">LAG", ">READY", ">DELAYED", ">BLOCKED", ">LEASED", ">DEAD", ">OLDEST", "")
	found := 0
	list := func(page duly.PageParams) (duly.NamePage, error) { return topics.Groups(ctx, ref, page) }
	err = eachName(ctx, list, func(names []string) error {
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
			case errs[i] != nil:
			case p.json:
				p.line(wire.QueueForm.Append(nil, groups[i]))
			default:
				t.addGroup(names[i], &groups[i], floors[names[i]])
			}
		}
		t.flush()
		return errors.Join(append(errs, p.flush())...)
	})
	if err == nil && found == 0 {
		a.remark("there are no groups of " + topic + "; it keeps every message")
	}
	return err
}

func (t *table) addGroup(name string, q *wire.Queue, floor bool) {
	size := func(state duly.State) cell {
		n := *q.Stats.Sizes.Of(state)
		if n == 0 {
			return cell{"0", dim}
		}
		return cell{countText(n), stateStyle(state)}
	}

	g := q.Stats.Group
	if g == nil {
		g = &duly.GroupStats{}
	}
	oldest := ""
	if g.OldestNeeded > 0 {
		oldest = roughly(g.OldestNeeded)
	}
	var notes []string
	for _, n := range []struct {
		note string
		set  bool
	}{{"at max held", g.AtMaxHeld}, {"holds back", floor}, {"parked", g.Parked}, {"paused", q.Config.Paused}} {
		if n.set {
			notes = append(notes, n.note)
		}
	}

	t.add(txt(name), txt(countText(g.Lag)), size(duly.StateReady), size(duly.StateDelayed), size(duly.StateBlocked),
		size(duly.StateLeased), size(duly.StateDead), txt(oldest), cell{strings.Join(notes, ", "), yellow})
}

func topicGroupCommand(a *app) *cobra.Command {
	return a.group("group", "Make or delete a consumer group", topicGroupCreateCommand(a), topicGroupDeleteCommand(a))
}

const fromHelp = "where it begins, a `place`: start, end, a time or a position"

func topicGroupCreateCommand(a *app) *cobra.Command {
	from := fromFlag{from: duly.FromStart}
	cmd := a.command("create TOPIC GROUP", "Make a consumer group, and its topic if that does not exist",
		`From then on the group sees every message that is published. It begins at the oldest stored message, the default
--from start, or with --from end at the next message that enters. A time is written 2030-12-24T18:00:00Z, or
2030-12-24T18:00 in this machine's zone.

Handle its messages with duly work TOPIC@GROUP. Change its settings with duly queue set TOPIC@GROUP.`,
		`  duly topic group create events mailer
  duly topic group create events audit --from end
  duly topic group create events report --from 2030-01-01T00:00:00Z`,
		func(ctx context.Context, p *printer, args []string) error {
			return a.withTopics(ctx, true, func(s *session, topics duly.Topics) error {
				existed, err := topics.CreateGroup(ctx, s.group(args[0], args[1]), from.from)
				switch {
				case err != nil:
					return err
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
	cmd.Args = wants("TOPIC", "GROUP")
	cmd.ValidArgsFunction = a.completeTopics(1)
	cmd.Flags().Var(&from, "from", fromHelp)
	return cmd
}

func topicGroupDeleteCommand(a *app) *cobra.Command {
	yes := false
	cmd := a.command("delete TOPIC GROUP", "Delete a group with its place in the log, its settings and its dead messages",
		`The messages of the log stay for the other groups. Asks first, unless --yes is given.`,
		`  duly topic group delete events mailer --yes`,
		func(ctx context.Context, p *printer, args []string) error {
			return a.withTopics(ctx, false, func(s *session, _ duly.Topics) error {
				name := duly.GroupName(args[0], args[1])
				if err := a.mustExist(ctx, s, name); err != nil {
					return err
				}

				if !yes {
					if err := a.confirm("this deletes the group " + name + " with its dead messages for good"); err != nil {
						return err
					}
				}
				return a.each(ctx, p, []string{name}, "deleted",
					func(name string) error { return s.Destroy(ctx, s.queue(name)) })
			})
		})
	cmd.Args = wants("TOPIC", "GROUP")
	cmd.ValidArgsFunction = a.completeTopics(1)
	cmd.Flags().BoolVar(&yes, "yes", false, "don't ask")
	return cmd
}

func topicSeekCommand(a *app) *cobra.Command {
	var to fromFlag
	cmd := a.command("seek TOPIC GROUP --to PLACE", "Move a group to another place of the log",
		`The group gives up every message that it holds, and continues at the new place. Moved back, it sees messages again;
moved forward, it skips some. Dead messages stay. Receipts of messages that are leased right now become invalid. A time
is written 2030-12-24T18:00:00Z, or 2030-12-24T18:00 in this machine's zone.`,
		`  duly topic seek events mailer --to start
  duly topic seek events mailer --to 2030-01-01T00:00:00Z
  duly topic seek events mailer --to end`,
		func(ctx context.Context, p *printer, args []string) error {
			if to.from == "" {
				return misusef("say where to: --to start, end, a time or a position")
			}
			return a.withTopics(ctx, false, func(s *session, topics duly.Topics) error {
				name := duly.GroupName(args[0], args[1])
				result, err := topics.Seek(ctx, s.queue(name), to.from)
				if err != nil {
					return adviseOn(duly.CodeUnavailable, a.orMissing(ctx, s, err, name), "repeat it, which is safe")
				}

				if p.json {
					p.line(wire.SeekedForm.Append(nil, result))
					return nil
				}
				p.printf("moved %s to %s: %s\n", name, to.from, seekText(result))
				return nil
			})
		})
	cmd.Args = wants("TOPIC", "GROUP")
	cmd.ValidArgsFunction = a.completeTopics(1)
	cmd.Flags().Var(&to, "to", "where it goes on, a `place`: start, end, a time or a position")
	return cmd
}

func seekText(r duly.SeekResult) string {
	var parts []string
	if r.Replayed > 0 {
		parts = append(parts, plural(r.Replayed, "message")+" to see again")
	}
	if r.Skipped > 0 {
		parts = append(parts, plural(r.Skipped, "message")+" skipped")
	}
	if len(parts) == 0 {
		parts = append(parts, "it was there already")
	}
	if r.Clipped {
		parts = append(parts, "older messages are gone, so it begins at the oldest stored message")
	}
	return strings.Join(parts, ", ")
}
