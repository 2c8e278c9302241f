package cli

import (
	"context"
	"errors"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/cmd/duly/internal/top"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/adaptive"
	"github.com/dulymq/duly/internal/wire"
)

func statsCommand(a *app) *cobra.Command {
	cmd := a.command("stats QUEUE", "Show the sizes, counters and settings of a queue",
		`The sizes are computed at call time. The counters start when the queue is created. Without calls in flight, pushed
is the sum of acked, merged, expired, deleted, dropped and of the delayed, ready, blocked, leased and dead jobs.

The limits say why ready jobs wait: a pause, a closing, max leased or the rate. Each delivery takes a token of the
rate. Without tokens, next is when the rate allows a delivery.

QUEUE may be a consumer group TOPIC@GROUP, or a topic.`,
		`  duly stats emails
  duly stats events
  duly stats events@mailer
  duly stats emails --json | jq .stats.sizes.ready
  duly stats emails --json | jq '.stats | .tokens, .next_token'`,
		func(ctx context.Context, p *printer, args []string) error {
			return a.withEngine(ctx, func(s *session) error {
				q, err := describeQueue(ctx, s, args[0])
				switch {
				case errors.Is(err, duly.ErrConflict): // the name belongs to a topic
					return topicStats(ctx, p, s, args[0])
				// An unused queue may be a misspelled name. A group reports its absence by itself.
				case err == nil && !isUsed(&q.Stats) && !s.queue(args[0]).IsGroup():
					err = a.checkListed(ctx, s, args[0])
				}
				if err != nil {
					return a.orMissing(ctx, s, err, args[0])
				}
				p.queue(&q)
				return nil
			})
		})

	cmd.Args = takesArgs("QUEUE")
	cmd.ValidArgsFunction = a.completeQueues(1)
	return cmd
}

// topicStats prints everything about a topic.
func topicStats(ctx context.Context, p *printer, s *session, name string) error {
	topics, err := s.topics()
	if err != nil {
		return err
	}
	info, err := topics.Topic(ctx, s.queue(name))
	if err != nil {
		return err
	}
	p.topic(&wire.Topic{Name: name, TopicInfo: info})
	return nil
}

// queue prints everything about one queue.
func (p *printer) queue(q *wire.Queue) {
	if p.json {
		p.line(wire.QueueForm.Append(nil, *q))
		return
	}
	p.sizes(&q.Stats)
	p.printf("\n")
	if n := q.Stats.Schedules; n > 0 {
		next := "no next tick"
		if !q.Stats.NextTick.IsZero() {
			next = "next tick " + relative(q.Stats.NextTick, p.now())
		}
		p.pairs(txt("schedules"), txt(countText(n)+", "+next))
		p.printf("\n")
	}
	p.limits(q)
	if g := q.Stats.Group; g != nil {
		p.group(g)
		p.printf("\n")
	}
	p.counters(&q.Stats.Counters, q.Stats.Group != nil)
	p.printf("\n")

	// The limits have the closing already.
	settings := q.Config
	settings.Closing = duly.Closing{}
	p.config(&settings)
}

// limits prints what may hold back the ready jobs of a queue. A queue that always delivers has no
// such table.
func (p *printer) limits(q *wire.Queue) {
	t := p.newTable("LIMIT", "NOW")
	if q.Config.Paused {
		t.add(txt("paused"), cell{"yes", yellow})
	}
	if q.Config.Closing != (duly.Closing{}) {
		t.add(txt("closed"), cell{p.closing(&q.Config.Closing), yellow})
	}
	config := inForce(q)
	if most := int64(config.MaxLeased); most > 0 {
		leased := cell{countText(q.Stats.Sizes.Leased) + " of " + countText(most), plain}
		if q.Stats.Sizes.Leased >= most {
			leased.style = yellow
		}
		t.add(txt("leased"), leased)
	}
	if q.Config.Rate.Limited() && q.Stats.Tokens != duly.None {
		t.add(txt("tokens"), p.tokens(&q.Stats, config.Rate.Burst))
	}
	if text := top.LimitText(&q.Stats, contract.ThrottleOf(q.Config)); text != "" {
		if q.Stats.Probing > 0 {
			text += ", probing"
		}
		t.add(txt("adapt"), txt(text))
	}
	if len(t.rows) > 0 {
		t.flush()
		p.printf("\n")
	}
}

// inForce returns the configuration with the limits that a queue enforces now. The factors of several
// shards differ, so their limits are the configured ones.
func inForce(q *wire.Queue) duly.QueueConfig {
	if q.Stats.Factor == 0 || q.Config.Shards > 1 {
		return q.Config
	}
	return (&adaptive.State{Factor: q.Stats.Factor}).Apply(q.Config)
}

// tokens returns how many deliveries the rate allows now, and when it allows the next one.
func (p *printer) tokens(s *duly.Stats, burst int) cell {
	text := countText(s.Tokens) + " of " + countText(int64(burst))
	if s.Tokens > 0 {
		return txt(text)
	}
	return cell{text + ", next " + relative(s.NextToken, p.now()), yellow}
}

// sizes prints the sizes of a queue by state.
func (p *printer) sizes(stats *duly.Stats) {
	t := p.newTable("STATE", ">JOBS", "")
	for _, state := range duly.States {
		n, note := *stats.Sizes.Of(state), ""
		switch {
		case state == duly.StateReady && n > 0:
			note = "oldest for " + shortDuration(stats.OldestReady)
		case state == duly.StateDelayed && !stats.NextDue.IsZero():
			note = "next " + relative(stats.NextDue, p.now())
		}
		t.add(cell{state.String(), stateStyle(state)}, txt(countText(n)), txt(note))
	}
	t.flush()
}

// group prints the numbers that only a group has.
func (p *printer) group(g *duly.GroupStats) {
	t := p.newTable("LOG", ">MESSAGES", "")
	oldest := ""
	if g.OldestNeeded > 0 {
		oldest = "the oldest needed message is " + shortDuration(g.OldestNeeded) + " old"
	}
	if g.Parked {
		oldest = "parked: idle too long, so it needs no messages"
	}
	held := ""
	if g.AtMaxHeld {
		held = "max held stops the cursor"
		if g.Key != "" {
			held += "; the key " + g.Key + " blocks most"
		}
	}

	t.add(txt("lag"), txt(countText(g.Lag)), cell{held, yellow})
	t.add(txt("entered"), txt(countText(g.Entered)), txt(oldest))
	for _, row := range []struct {
		name string
		n    int64
	}{{"filtered", g.Filtered}, {"skipped", g.Skipped}, {"replayed", g.Replayed}, {"missed", g.Missed}} {
		t.add(txt(row.name), txt(countText(row.n)), txt(""))
	}
	t.flush()

	if len(g.Consumers) == 0 {
		return
	}
	p.printf("\n")
	t = p.newTable("CONSUMER", "LAST CALL")
	for _, c := range g.Consumers {
		t.add(txt(c.Name), txt(relative(c.LastCall, p.now())))
	}
	t.flush()
}

// counters prints the counters of a queue. A group has no pushed, merged and expired
// messages.
func (p *printer) counters(c *duly.Counters, group bool) {
	t := p.newTable("COUNTED", ">JOBS")
	for _, row := range contract.CountersOf(c) {
		if group && (row.Name == "pushed" || row.Name == "merged" || row.Name == "expired") {
			continue
		}
		t.add(txt(row.Name), txt(countText(row.Value)))
	}
	t.flush()
}

// closing returns how long a queue stays closed, and why.
func (p *printer) closing(c *duly.Closing) string {
	text := shortDuration(max(0, c.Until.Sub(p.now())))
	if c.Reason != "" {
		text += ": " + oneLine(c.Reason)
	}
	return text
}

// shareOrNone returns the floor of an adaptive limit.
func shareOrNone(floor float64) string {
	if floor <= 0 {
		return "none"
	}
	return strconv.FormatFloat(floor, 'f', -1, 64)
}

// config prints the settings of a queue.
func (p *printer) config(c *duly.QueueConfig) {
	t := p.newTable("SETTING", "VALUE")
	paused := cell{"no", plain}
	if c.Paused {
		paused = cell{"yes", yellow}
	}
	rate := "none"
	if c.Rate.Limited() {
		rate = rateText(c.Rate)
	}
	group := c.Group != (duly.GroupConfig{})

	t.add(txt("paused"), paused)
	// Only a closed queue has the row, because a closing is not a setting.
	if c.Closing != (duly.Closing{}) {
		t.add(txt("closed"), cell{p.closing(&c.Closing), yellow})
	}

	// The topic sets the shards of its groups.
	if !group {
		t.add(txt("shards"), txt(countOrNone(c.Shards)))
	}
	t.add(txt("tries"), txt(countOrNone(c.Defaults.Tries)))
	t.add(txt("max stalls"), txt(countOrNone(c.Defaults.MaxStalls)))
	t.add(txt("backoff"), txt(string(c.Defaults.Backoff)))
	t.add(txt("lease"), txt(durationText(c.Defaults.Lease)))
	if !group {
		t.add(txt("ttl"), txt(durationText(c.Defaults.TTL)))
		t.add(txt("retain"), txt(durationText(c.Defaults.Retain)))
	}
	t.add(txt("dead age"), txt(durationText(c.DeadAge)))
	t.add(txt("dead count"), txt(countOrNone(c.DeadCount)))
	if !group {
		t.add(txt("max jobs"), txt(countOrNone(c.MaxJobs)))
	}
	t.add(txt("max leased"), txt(countOrNone(c.MaxLeased)))
	t.add(txt("rate"), txt(rate))
	t.add(txt("adapt"), txt(shareOrNone(c.Adapt.Floor)))

	// Other queues have no destination, and empty rows would suggest a missing setting.
	if c.Delivery == duly.DeliverPush {
		t.add(txt("delivery"), txt(string(c.Delivery)))
		t.add(txt("push url"), txt(c.Push.URL))
		t.add(txt("on done"), txt(c.Push.OnDone))
		t.add(txt("on dead"), txt(c.Push.OnDead))
	}
	if group {
		t.add(txt("order"), txt(string(c.Group.Order)))
		t.add(txt("max held"), txt(countOrNone(c.Group.MaxHeld)))
		t.add(txt("filter"), txt(string(c.Group.Filter)))
		t.add(txt("idle"), txt(durationText(c.Group.Idle)))
		t.add(txt("target"), txt(c.Group.Target))
	}
	t.flush()
}
