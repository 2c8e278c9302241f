package cli

import (
	"context"
	"errors"
	"sync"

	"github.com/spf13/cobra"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/wire"
)

func queuesCommand(a *app) *cobra.Command {
	var names, namespaces bool
	cmd := a.command("queues", "List the queues with what they hold",
		`Lists the queues of the namespace by name. The sizes go by the clock: a delayed job that is due counts as ready.
With --namespaces it lists the namespaces that have queues instead; a server is asked for them at its admin address.`,
		`  duly queues
  duly queues --names
  duly queues --namespaces
  duly queues --json | jq 'select(.stats.sizes.dead > 0) | .name'`,
		func(ctx context.Context, p *printer, _ []string) error {
			if namespaces {
				return a.withAdmin(ctx, func(admin Admin, _ place) error { return listNamespaces(ctx, p, admin) })
			}
			return a.with(ctx, func(s *session) error { return listQueues(ctx, p, s, names) })
		})
	cmd.Aliases = []string{"ls"}
	cmd.Args = noArgs
	cmd.Flags().BoolVar(&names, "names", false, "the names alone")
	cmd.Flags().BoolVar(&namespaces, "namespaces", false, "the namespaces instead")
	return cmd
}

func listNamespaces(ctx context.Context, p *printer, admin Admin) error {
	var page duly.PageParams
	for {
		names, err := admin.Namespaces(ctx, page)
		if err == nil {
			err = p.names(names.Names)
		}
		if page.Cursor = names.Next; err != nil || page.Cursor == "" {
			return err
		}
	}
}

// listQueues prints page by page, so that a long list begins at once. A queue
// that can't be told of takes no other with it; what is wrong with it comes last.
func listQueues(ctx context.Context, p *printer, s *session, namesOnly bool) error {
	t := p.newTable("QUEUE", ">READY", ">DELAYED", ">BLOCKED", ">LEASED", ">DEAD", ">DONE", ">OLDEST", "NEXT DUE", "")
	var page duly.PageParams
	var untold error
	for {
		names, err := s.Queues(ctx, s.namespace, page)
		if err != nil {
			return err
		}
		if namesOnly {
			err = p.names(names.Names)
		} else if e := p.queueRows(ctx, s, t, names.Names); e != nil {
			untold = errors.Join(untold, e)
		}
		if err == nil {
			err = p.flush()
		}
		gone := ctx.Err() != nil || errors.Is(untold, duly.ErrUnavailable)
		if page.Cursor = names.Next; err != nil || gone || page.Cursor == "" {
			return errors.Join(err, untold)
		}
	}
}

func (p *printer) names(names []string) error {
	for _, name := range names {
		if !p.json {
			p.printf("%s\n", name)
			continue
		}
		if err := p.value(map[string]string{"name": name}); err != nil {
			return err
		}
	}
	return nil
}

func (p *printer) queueRows(ctx context.Context, s *session, t *table, names []string) error {
	queues, errs := describe(ctx, s, names)
	for i, q := range queues {
		switch {
		case errs[i] != nil:
		case p.json:
			p.line(wire.QueueForm.Append(nil, q))
		default:
			t.addQueue(&q)
		}
	}
	t.flush()
	return errors.Join(errs...)
}

// describe asks about queues, a few at once, and keeps their order.
func describe(ctx context.Context, s *session, names []string) ([]wire.Queue, []error) {
	const atOnce = 8
	queues, errs := make([]wire.Queue, len(names)), make([]error, len(names))
	slots := make(chan struct{}, atOnce)
	var wg sync.WaitGroup
	for i, name := range names {
		slots <- struct{}{}
		wg.Go(func() {
			queues[i], errs[i] = describeQueue(ctx, s, name)
			<-slots
		})
	}
	wg.Wait()
	return queues, errs
}

func describeQueue(ctx context.Context, s *session, name string) (q wire.Queue, err error) {
	q.Name = name
	if q.Stats, err = s.Stats(ctx, s.queue(name)); err != nil {
		return q, err
	}
	q.Config, err = s.Config(ctx, s.queue(name))
	return q, err
}

func (t *table) addQueue(q *wire.Queue) {
	size := func(state duly.State) cell {
		n := *q.Stats.Sizes.Of(state)
		if n == 0 {
			return cell{"0", dim}
		}
		return cell{countText(n), stateStyle(state)}
	}
	oldest := ""
	if q.Stats.Sizes.Ready > 0 {
		oldest = roughly(q.Stats.OldestReady)
	}
	note := ""
	if q.Config.Paused {
		note = "paused"
	}
	t.add(txt(q.Name), size(duly.StateReady), size(duly.StateDelayed), size(duly.StateBlocked), size(duly.StateLeased),
		size(duly.StateDead), size(duly.StateDone), txt(oldest), txt(relative(q.Stats.NextDue, t.p.now())), cell{note, yellow})
}
