package cli

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/cmd/duly/internal/top"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/wire"
)

func queuesCommand(a *app) *cobra.Command {
	var names, namespaces bool
	cmd := a.command("queues", "List the queues with their sizes",
		`Lists the queues of the namespace by name. The sizes are computed at call time: a delayed job that is due counts as
ready. With --namespaces it lists the namespaces with queues instead, which needs the admin address of a server.`,
		`  duly queues
  duly queues --names
  duly queues --namespaces
  duly queues --json | jq 'select(.stats.sizes.dead > 0) | .name'`,
		func(ctx context.Context, p *printer, _ []string) error {
			if namespaces {
				return a.withAdmin(ctx, func(admin Admin, _ endpoint) error { return listNamespaces(ctx, p, admin) })
			}
			return a.withEngine(ctx, func(s *session) error { return listQueues(ctx, p, s, names) })
		})

	cmd.Aliases = []string{"ls"}
	cmd.Args = noArgs
	cmd.Flags().BoolVar(&names, "names", false, "print only the names")
	cmd.Flags().BoolVar(&namespaces, "namespaces", false, "list the namespaces instead")
	return cmd
}

func listNamespaces(ctx context.Context, p *printer, admin Admin) error {
	list := func(page duly.PageParams) (duly.NamePage, error) { return admin.Namespaces(ctx, page) }
	return forEachPage(ctx, duly.DefaultPage, list, p.names)
}

// listQueues prints the queues page by page. It leaves out queues that fail, and returns
// their errors at the end.
func listQueues(ctx context.Context, p *printer, s *session, namesOnly bool) error {
	t := p.newTable("QUEUE", ">READY", ">DELAYED", ">BLOCKED", ">LEASED", ">DEAD", ">DONE", ">OLDEST", "NEXT DUE", "")
	list := func(page duly.PageParams) (duly.NamePage, error) { return s.Queues(ctx, s.namespace, page) }

	var failures error
	err := forEachPage(ctx, duly.DefaultPage, list, func(names []string) error {
		if namesOnly {
			if err := p.names(names); err != nil {
				return err
			}
			return p.flush()
		}

		// A queue that fails does not end the list: the others are still worth seeing.
		failures = errors.Join(failures, p.queueRows(ctx, s, t, names))
		if err := p.flush(); err != nil {
			return err
		}

		// If the engine is unavailable, every further page would wait and fail too.
		if errors.Is(failures, duly.ErrUnavailable) {
			return errReported // ends the list; failures has the errors
		}
		return nil
	})
	if errors.Is(err, errReported) {
		return failures
	}
	return errors.Join(err, failures)
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
		// The error of this queue is returned with the others.
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

// describe reads stats and configurations of queues, a few concurrently.
func describe(ctx context.Context, s *session, names []string) ([]wire.Queue, []error) {
	const concurrency = 8
	queues, errs := make([]wire.Queue, len(names)), make([]error, len(names))

	// The slots limit the calls in flight, because a page has many queues and a server limits
	// calls.
	slots := make(chan struct{}, concurrency)
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

// sizeCell returns the cell of a size, dimmed if it is 0.
func sizeCell(sizes *duly.Sizes, state duly.State) cell {
	n := *sizes.Of(state)
	if n == 0 {
		return cell{"0", dim}
	}
	return cell{countText(n), stateStyle(state)}
}

// queueNote says why a queue delivers few jobs or none, or returns "".
func queueNote(q *wire.Queue, now time.Time) string {
	closing, probing := &q.Config.Closing, q.Stats.Probing > 0
	switch {
	case q.Config.Paused:
		return "paused"
	case !closing.Until.IsZero():
		note := "closed " + shortDuration(max(0, closing.Until.Sub(now)))
		if probing {
			note += ", probing"
		}
		return note
	case probing:
		return "probing"
	case q.Stats.Factor < 1:
		return top.LimitText(&q.Stats, contract.ThrottleOf(q.Config))
	}
	return ""
}

func (t *table) addQueue(q *wire.Queue) {
	oldest := ""
	if q.Stats.Sizes.Ready > 0 {
		oldest = shortDuration(q.Stats.OldestReady)
	}
	note := queueNote(q, t.p.now())

	row := []cell{txt(q.Name)}
	for _, state := range []duly.State{
		duly.StateReady, duly.StateDelayed, duly.StateBlocked, duly.StateLeased, duly.StateDead, duly.StateDone,
	} {
		row = append(row, sizeCell(&q.Stats.Sizes, state))
	}
	t.add(append(row, txt(oldest), txt(relative(q.Stats.NextDue, t.p.now())), cell{note, yellow})...)
}
