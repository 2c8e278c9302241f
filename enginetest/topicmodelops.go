package enginetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// topicsOf returns the topics of one side.
func topicsOf(s side, ref duly.QueueRef) contract.Topics {
	return s.in(ref.Namespace).(contract.Topics)
}

// messageSpec is a message to publish.
type messageSpec struct {
	At                    topicSpec
	Key, ID, Body, Header string
	Delay                 time.Duration
}

func (spec messageSpec) message() duly.Message {
	ref := spec.At.ref()
	m := duly.Message{Namespace: ref.Namespace, Topic: ref.Name, Key: spec.Key, ID: spec.ID, Body: []byte(spec.Body),
		Delay: spec.Delay}
	if m.Delay > 0 && m.ID == "" {
		m.ID = "c" // without it, each side would create a different ID
	}
	if spec.Header != "" {
		m.Headers = map[string]string{"H": spec.Header}
	}
	return m
}

// publishOp publishes messages in one call.
type publishOp struct{ Messages []messageSpec }

func (o publishOp) play(p *pair) {
	messages := make([]duly.Message, len(o.Messages))
	for i, spec := range o.Messages {
		messages[i] = spec.message()
	}

	p.both("publish", func(s side) (string, error) {
		results, err := topicsOf(s, scriptTopics[0]).Publish(p.ctx, messages)
		var b strings.Builder
		for _, r := range results {
			if r.Err != nil {
				fmt.Fprintf(&b, "%s; ", errorText(r.Err))
				continue
			}
			fmt.Fprintf(&b, "%s %q at %s; ", r.Status, r.ID, r.Position)
			p.found(r.Position)
		}
		return b.String(), err
	})

	for _, at := range scriptTopics {
		p.park(at)
	}
}

// found stores a position for later operations.
func (p *pair) found(n duly.Position) {
	if n != (duly.Position{}) && !slices.Contains(p.positions, n) {
		p.positions = append(p.positions, n)
	}
}

// position returns the position n places before the last one.
func (p *pair) position(back int) duly.Position {
	// Before the first message there is a position that does not exist.
	if len(p.positions) == 0 {
		return contract.PositionParts{Millis: 1, Ordinal: 1, Topic: contract.TopicChecksum(scriptTopics[0])}.Position()
	}
	return p.positions[max(0, len(p.positions)-1-back)]
}

func (f fromSpec) from(p *pair) duly.From {
	switch f.Kind {
	case contract.KindEnd:
		return duly.FromEnd
	case contract.KindTime:
		return duly.FromTime(p.h.Clock.Now().Truncate(time.Millisecond).Add(-f.Ago))
	case contract.KindPosition:
		return duly.FromPosition(p.position(f.Back))
	}
	return duly.FromStart
}

// topicReserveOp reserves messages, optionally after a Wait.
type topicReserveOp struct {
	At    []groupSpec
	Max   int
	Lease time.Duration
	Wait  bool
}

func (o topicReserveOp) play(p *pair) {
	params := duly.ReserveParams{Max: o.Max, Lease: o.Lease, Consumer: "c1"}
	for _, at := range o.At {
		params.Queues = append(params.Queues, at.ref().Name)
	}
	ready := [2]bool{true, true}
	if o.Wait {
		turn := 0
		p.both("wait", func(s side) (_ string, err error) {
			ready[turn], err = s.in("").Wait(p.ctx, duly.WaitParams{Queues: params.Queues})
			turn++
			return "", err
		})
	}

	var got [2][]duly.Delivery
	turn := 0
	p.both("reserve", func(s side) (text string, err error) {
		got[turn], err = s.in("").Reserve(p.ctx, params)
		text = deliveriesText(got[turn])
		turn++
		return text, err
	})
	if p.err != nil {
		return
	}
	// A Wait that reported nothing must not be followed by a message.
	if len(got[0]) > 0 && (!ready[0] || !ready[1]) {
		p.err = fmt.Errorf("wait returned %t (model %t), but reserve then returned %d messages", ready[0], ready[1],
			len(got[0]))
		return
	}
	for i, d := range got[0] {
		p.issued = append(p.issued, issued{d.Namespace, d.Queue, d.ID, d.Receipt, got[1][i].Receipt})
		p.getIssued(p.issued[len(p.issued)-1])
	}
}

// topicClockOp advances or sets the clock and then steps the topics. The steps are needed because
// positions contain the time, and because a limit may delete messages that later operations would
// find.
type topicClockOp struct {
	By  time.Duration
	Set bool
}

func (o topicClockOp) play(p *pair) {
	if o.Set {
		p.h.Clock.Step(o.By)
	} else {
		p.h.Advance(o.By)
	}
	p.tick()
	for _, at := range scriptTopics {
		info, err := topicsOf(p.sides[1], at).Topic(p.ctx, at)
		// Step only if something is due, so that scripts also leave topics unstepped.
		due := !info.Stats.NextDue.IsZero() && !info.Stats.NextDue.After(p.clock.Now())
		if err == nil && (due || info.Config.MaxAge != duly.None) {
			p.stepTopic(at)
		} else {
			p.park(at)
		}
	}
}

// park steps a topic if one of its groups has an idle time. Otherwise engines may delete messages
// of parked groups at different operations.
func (p *pair) park(topic duly.QueueRef) {
	for _, name := range scriptGroups {
		c, err := p.sides[1].in("").Config(p.ctx, groupOf(topic, name))
		if err == nil && c.Group.Idle != duly.None {
			p.stepTopic(topic)
			return
		}
	}
}

// stepTopicOp steps a topic.
type stepTopicOp struct{ At topicSpec }

func (o stepTopicOp) play(p *pair) { p.stepTopic(o.At.ref()) }

func (p *pair) stepTopic(ref duly.QueueRef) {
	p.both("step of "+ref.Name, func(s side) (string, error) {
		for range 1000 {
			if more, err := s.maintainer.Step(p.ctx, ref); !more || err != nil {
				return "", err
			}
		}
		return "more than 1000 steps", nil
	})
}

// createGroupOp creates a group.
type createGroupOp struct {
	At   groupSpec
	From fromSpec
}

func (o createGroupOp) play(p *pair) {
	p.stepTopic(o.At.Topic.ref()) // steps first, because a trimmed message changes where the group starts
	from := o.From.from(p)
	p.both("create group", func(s side) (string, error) {
		existed, err := topicsOf(s, o.At.ref()).CreateGroup(p.ctx, o.At.ref(), from)
		return fmt.Sprint(existed), err
	})
}

// seekOp moves the cursor of a group.
type seekOp struct {
	At groupSpec
	To fromSpec
}

func (o seekOp) play(p *pair) {
	p.stepTopic(o.At.Topic.ref())
	to := o.To.from(p)
	p.both("seek", func(s side) (string, error) {
		r, err := topicsOf(s, o.At.ref()).Seek(p.ctx, o.At.ref(), to)
		return fmt.Sprintf("%+v", r), err
	})
}

// configureGroupOp changes a group's settings.
type configureGroupOp struct {
	At    groupSpec
	Patch duly.QueueConfig
}

func (o configureGroupOp) play(p *pair) {
	patch := p.limits(o.Patch)
	p.both("configure", func(s side) (string, error) { return "", s.in("").Configure(p.ctx, o.At.ref(), patch) })
	p.groupConfig(o.At.ref())
	if o.Patch.Group.Idle != 0 {
		p.park(o.At.Topic.ref())
	}
}

func (p *pair) groupConfig(ref duly.QueueRef) {
	p.both("config of "+ref.Name, func(s side) (string, error) {
		c, err := s.in("").Config(p.ctx, ref)
		return fmt.Sprintf("%+v", c), err
	})
}

// configureTopicOp changes a topic's settings.
type configureTopicOp struct {
	At    topicSpec
	Patch duly.TopicConfig
}

func (o configureTopicOp) play(p *pair) {
	p.both("configure topic", func(s side) (string, error) {
		return "", topicsOf(s, o.At.ref()).ConfigureTopic(p.ctx, o.At.ref(), o.Patch)
	})
	p.stepTopic(o.At.ref()) // steps first, because a lower limit deletes messages
}

// topicJobOp is an operation on one message of a group.
type topicJobOp struct {
	At   groupSpec
	Back int
	Do   string
}

func (o topicJobOp) play(p *pair) {
	id, ref := p.position(o.Back).String(), o.At.ref()
	// Steps first, because a trimmed message no longer counts as beyond the cursor.
	p.stepTopic(o.At.Topic.ref())
	switch o.Do {
	case "delete":
		p.both("delete "+id, func(s side) (string, error) { return "", s.in("").Delete(p.ctx, ref, id) })
	case "delete dead", "delete ready":
		state, _ := contract.ParseState(strings.TrimPrefix(o.Do, "delete "))
		p.both(o.Do+" "+id, func(s side) (string, error) {
			errs, err := s.in("").DeleteJobs(p.ctx, ref, []string{id}, state)
			return errorTexts(errs), err
		})
	case "get all":
		p.both("get all "+id, func(s side) (string, error) {
			results, err := s.in("").GetJobs(p.ctx, ref, []string{id, id}, true)
			return resultTexts(results), err
		})
	case "requeue":
		p.both("requeue "+id, func(s side) (string, error) {
			results, err := s.in("").Requeue(p.ctx, ref, duly.RequeueParams{IDs: []string{id}})
			return requeuesText(results), err
		})
	}
	p.getIssued(issued{namespace: ref.Namespace, queue: ref.Name, id: id})
}

// topicRequeueOp requeues the oldest dead messages.
type topicRequeueOp struct {
	At groupSpec
	N  int
}

func (o topicRequeueOp) play(p *pair) {
	p.stepTopic(o.At.Topic.ref())
	p.both("requeue", func(s side) (string, error) {
		results, err := s.in("").Requeue(p.ctx, o.At.ref(), duly.RequeueParams{N: o.N})
		return requeuesText(results), err
	})
}

// topicPurgeOp purges messages of one state.
type topicPurgeOp struct {
	At    groupSpec
	State duly.State
	N     int
}

func (o topicPurgeOp) play(p *pair) {
	p.stepTopic(o.At.Topic.ref())
	p.both("purge", func(s side) (string, error) {
		n, err := s.in("").Purge(p.ctx, o.At.ref(), o.State, o.N)
		return fmt.Sprint(n), err
	})
}

// topicPauseOp pauses or resumes a group.
type topicPauseOp struct {
	At     groupSpec
	Resume bool
}

func (o topicPauseOp) play(p *pair) {
	p.both("pause", func(s side) (string, error) {
		if o.Resume {
			return "", s.in("").Resume(p.ctx, o.At.ref())
		}
		return "", s.in("").Pause(p.ctx, o.At.ref())
	})
}

// cancelDelayedOp gets a delayed message and cancels it.
type cancelDelayedOp struct {
	At      topicSpec
	Key, ID string
}

func (o cancelDelayedOp) play(p *pair) {
	if o.ID == "" {
		return
	}
	p.both("delayed message", func(s side) (string, error) {
		m, err := topicsOf(s, o.At.ref()).DelayedMessage(p.ctx, o.At.ref(), o.Key, o.ID)
		return messageText(m), err
	})
	p.both("cancel", func(s side) (string, error) {
		return "", topicsOf(s, o.At.ref()).CancelDelayed(p.ctx, o.At.ref(), o.Key, o.ID)
	})
}

// readOp reads two pages of a log.
type readOp struct {
	At    topicSpec
	From  fromSpec
	Limit int
}

func (o readOp) play(p *pair) {
	p.stepTopic(o.At.ref())
	from := o.From.from(p)
	p.both("read from "+string(from), func(s side) (string, error) {
		text := ""
		next := from
		for range 2 {
			page, err := topicsOf(s, o.At.ref()).Read(p.ctx, o.At.ref(), contract.ReadParams{From: next, Limit: o.Limit})
			if err != nil {
				return "", err
			}
			text += fmt.Sprintf("\ngap %d: %s", page.Gap, entriesText(page.Entries))
			next = page.Next
		}
		return text, nil
	})
}

// destroyGroupOp destroys a group.
type destroyGroupOp struct{ At groupSpec }

func (o destroyGroupOp) play(p *pair) {
	p.both("destroy", func(s side) (string, error) { return "", s.in("").Destroy(p.ctx, o.At.ref()) })
	p.park(o.At.Topic.ref())
}

// destroyTopicOp destroys a topic.
type destroyTopicOp struct{ At topicSpec }

func (o destroyTopicOp) play(p *pair) {
	p.both("destroy topic", func(s side) (string, error) {
		return "",
			topicsOf(s, o.At.ref()).DestroyTopic(p.ctx, o.At.ref())
	})
}

// lookTopicsOp compares everything that the API shows of the topics, after a step.
type lookTopicsOp struct{}

func (lookTopicsOp) play(p *pair) {
	for _, at := range scriptTopics {
		p.stepTopic(at)
		p.lookTopic(at)
		for _, group := range scriptGroups {
			p.lookGroup(groupOf(at, group))
		}
	}

	p.both("topics", func(s side) (string, error) {
		page, err := topicsOf(s, scriptTopics[0]).Topics(p.ctx, "", duly.PageParams{})
		return namesText(page.Names) + page.Next, err
	})
	p.both("survey", func(s side) (string, error) {
		page, err := contract.SurveyorOf(s.in("")).Survey(p.ctx, "", duly.PageParams{})
		text := page.Next
		for _, q := range page.Queues {
			text += fmt.Sprintf("\n%s %s %+v %v", q.Name, groupStatsText(q.Stats), q.Throttle, q.Err)
		}
		return text, err
	})
}

func (p *pair) lookTopic(at duly.QueueRef) {
	var dropped []int64
	p.both("topic "+at.Name, func(s side) (string, error) {
		info, err := topicsOf(s, at).Topic(p.ctx, at)
		st := &info.Stats
		st.Bytes = 0 // ignored, because engines estimate bytes differently
		// Compare the sum of trimmed and dropped messages.
		dropped = append(dropped, st.Dropped)
		st.Trimmed, st.Dropped = st.Trimmed+st.Dropped, 0
		// Engines may differ in the time at which they notice a floor.
		for i := range st.Floors {
			st.Floors[i].Since = time.Time{}
		}
		due := moment(st.NextDue)
		st.NextDue = time.Time{}
		return fmt.Sprintf("%+v next due %s", info, due), err
	})

	// An engine may count messages after a dropped one as dropped (C12.158).
	if p.err == nil && dropped[0] < dropped[1] {
		p.err = fmt.Errorf("topic %s has dropped %d messages, in the model %d", at.Name, dropped[0], dropped[1])
	}

	p.both("log of "+at.Name, func(s side) (string, error) {
		page, err := topicsOf(s, at).Read(p.ctx, at, contract.ReadParams{Limit: duly.MaxBatch})
		for _, e := range page.Entries {
			p.found(e.Position)
		}
		return entriesText(page.Entries), err
	})

	p.both("delayed messages of "+at.Name, func(s side) (string, error) {
		page, err := topicsOf(s, at).Delayed(p.ctx, at, contract.DelayedParams{Bodies: true})
		text := ""
		for _, m := range page.Messages {
			text += "\n  " + messageText(m)
		}
		return text, err
	})

	p.both("groups of "+at.Name, func(s side) (string, error) {
		page, err := topicsOf(s, at).Groups(p.ctx, at, duly.PageParams{})
		return namesText(page.Names) + page.Next, err
	})
}

func (p *pair) lookGroup(ref duly.QueueRef) {
	p.groupConfig(ref)
	p.both("stats of "+ref.Name, func(s side) (string, error) {
		st, err := s.in("").Stats(p.ctx, ref)
		return groupStatsText(st), err
	})
	for _, state := range duly.States {
		p.listOf(ref, state)
	}
	for back := range scriptBack {
		p.getIssued(issued{namespace: ref.Namespace, queue: ref.Name, id: p.position(back).String()})
	}
}

// groupStatsText returns the statistics of a group. It omits the key at the bound, because
// several keys may be correct, and the consumers, because an engine may store a call up to a
// minute late.
func groupStatsText(st duly.Stats) string {
	g := st.Group
	if g == nil {
		return statsLine(st)
	}
	return fmt.Sprintf("%s lag %d entered %d filtered %d skipped %d replayed %d missed %d oldest %s parked %t "+
		"max held %t",
		statsLine(st), g.Lag, g.Entered, g.Filtered, g.Skipped, g.Replayed, g.Missed, g.OldestNeeded, g.Parked,
		g.AtMaxHeld)
}

func entriesText(entries []contract.Entry) string {
	text := ""
	for _, e := range entries {
		text += fmt.Sprintf("\n  %s entered %s %s", e.Position, moment(e.EnteredAt), messageText(e.Message))
	}
	return text
}

func messageText(m duly.Message) string {
	return fmt.Sprintf("%s/%s id %q key %q %q %q due %s delay %s", m.Namespace, m.Topic, m.ID, m.Key, m.Body,
		m.Headers, moment(m.Due), m.Delay)
}
