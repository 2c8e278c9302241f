package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/wire"
)

func statsCommand(a *app) *cobra.Command {
	cmd := a.command("stats QUEUE", "Show what a queue holds, what it has done, and how it is set",
		`The sizes go by the clock; the counters count since the queue was made. At rest, pushed is the sum of acked, merged,
expired, deleted, dropped and of the jobs that are delayed, ready, blocked, leased and dead.`,
		`  duly stats emails
  duly stats emails --json | jq .stats.sizes.ready`,
		func(ctx context.Context, p *printer, args []string) error {
			return a.with(ctx, func(s *session) error {
				q, err := describeQueue(ctx, s, args[0])
				if err == nil && !used(&q.Stats) {
					err = a.mustBeListed(ctx, s, args[0])
				}
				if err != nil {
					return err
				}
				p.queue(&q)
				return nil
			})
		})
	cmd.Args = wants("QUEUE")
	cmd.ValidArgsFunction = a.completeQueues(1)
	return cmd
}

// queue prints everything about one queue.
func (p *printer) queue(q *wire.Queue) {
	if p.json {
		p.line(wire.AppendQueue(nil, *q))
		return
	}
	p.sizes(&q.Stats)
	p.printf("\n")
	p.counters(&q.Stats.Counters)
	p.printf("\n")
	p.config(&q.Config)
}

func (p *printer) sizes(stats *duly.Stats) {
	t := p.newTable("STATE", ">JOBS", "")
	for _, state := range duly.States {
		n, note := *stats.Sizes.Of(state), ""
		switch {
		case state == duly.StateReady && n > 0:
			note = "the oldest for " + roughly(stats.OldestReady)
		case state == duly.StateDelayed && !stats.NextDue.IsZero():
			note = "the next " + relative(stats.NextDue, p.now())
		}
		t.add(cell{state.String(), stateStyle(state)}, txt(countText(n)), txt(note))
	}
	t.flush()
}

func (p *printer) counters(c *duly.Counters) {
	t := p.newTable("COUNTED", ">JOBS")
	for _, row := range []struct {
		name string
		n    int64
	}{
		{"pushed", c.Pushed}, {"merged", c.Merged}, {"delivered", c.Delivered}, {"acked", c.Acked},
		{"failed", c.Failed}, {"stalled", c.Stalled}, {"released", c.Released}, {"dead", c.Dead},
		{"requeued", c.Requeued}, {"expired", c.Expired}, {"deleted", c.Deleted}, {"dropped", c.Dropped},
	} {
		t.add(txt(row.name), txt(countText(row.n)))
	}
	t.flush()
}

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
	t.add(txt("paused"), paused)
	t.add(txt("shards"), txt(bound(c.Shards)))
	t.add(txt("tries"), txt(bound(c.Defaults.Tries)))
	t.add(txt("max stalls"), txt(bound(c.Defaults.MaxStalls)))
	t.add(txt("backoff"), txt(string(c.Defaults.Backoff)))
	t.add(txt("lease"), txt(span(c.Defaults.Lease)))
	t.add(txt("ttl"), txt(span(c.Defaults.TTL)))
	t.add(txt("retain"), txt(span(c.Defaults.Retain)))
	t.add(txt("dead age"), txt(span(c.DeadAge)))
	t.add(txt("dead count"), txt(bound(c.DeadCount)))
	t.add(txt("max jobs"), txt(bound(c.MaxJobs)))
	t.add(txt("max leased"), txt(bound(c.MaxLeased)))
	t.add(txt("rate"), txt(rate))
	t.flush()
}
