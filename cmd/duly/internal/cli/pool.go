package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/wire"
)

func poolCommand(a *app) *cobra.Command {
	return a.group("pool", "List the pools of a server, and move namespaces between them",
		poolListCommand(a), poolStatusCommand(a), poolMoveCommand(a))
}

func poolListCommand(a *app) *cobra.Command {
	cmd := a.command("list", "List the pools of a server",
		`Needs the server's admin address. The pool default is the server's own engine.`,
		`  duly pool list`,
		func(ctx context.Context, p *printer, _ []string) error {
			return a.withAdmin(ctx, func(admin Admin, _ endpoint) error {
				pools, err := admin.Pools(ctx)
				if err != nil {
					return err
				}
				if p.json {
					p.line(wire.PoolsForm.Append(nil, pools))
					return nil
				}
				t := p.newTable("POOL", "READY")
				for _, pool := range pools {
					ready := cell{"yes", green}
					if !pool.Ready {
						ready = cell{"no", red}
					}
					t.add(txt(pool.Name), ready)
				}
				t.flush()
				return nil
			})
		})

	cmd.Args = noArgs
	return cmd
}

func poolStatusCommand(a *app) *cobra.Command {
	cmd := a.command("status [NAMESPACE]", "Show the namespaces that move, and their remaining jobs",
		`Lists the namespaces that move from one pool to another, with the jobs that remain in the old pool. For one
namespace it prints the pool, even if it does not move.`,
		`  duly pool status
  duly pool status shop --json`,
		func(ctx context.Context, p *printer, args []string) error {
			return a.withAdmin(ctx, func(admin Admin, _ endpoint) error {
				moves, err := admin.Moves(ctx, strings.Join(args, ""))
				if err == nil {
					p.moves(moves)
				}
				return err
			})
		})

	cmd.Args = takesArgs("[NAMESPACE]")
	return cmd
}

// moves prints the pools and moves of namespaces.
func (p *printer) moves(moves []contract.MoveState) {
	if p.json {
		for i := range moves {
			p.line(wire.MoveForm.Append(nil, moves[i]))
		}
		return
	}
	t := p.newTable("NAMESPACE", "POOL", "FROM", "PHASE", "SINCE", ">QUEUES", "REMAINING")
	for i := range moves {
		m := &moves[i]
		since := ""

		// The phase and its start have a meaning only while the namespace moves.
		if m.From != "" {
			since = relative(m.Since, p.now())
		}
		t.add(txt(m.Namespace), txt(m.Pool), txt(m.From), txt(string(m.Phase)), txt(since), txt(queueCountText(m)),
			txt(remainingText(m)))
	}
	t.flush()
}

// queueCountText returns the number of queues that move, or "" if none do.
func queueCountText(m *contract.MoveState) string {
	if m.From == "" {
		return ""
	}
	return countText(int64(m.Queues))
}

// remainingText returns the jobs for which a move waits.
func remainingText(m *contract.MoveState) string {
	var parts []string
	for _, state := range duly.States {
		if n := *m.Left.Of(state); n > 0 {
			parts = append(parts, countText(n)+" "+state.String())
		}
	}
	return strings.Join(parts, ", ")
}

// moveInterval is the time between two requests for the state of a move.
const moveInterval = time.Second

func poolMoveCommand(a *app) *cobra.Command {
	var to string
	detach := false
	cmd := a.command("move NAMESPACE --to POOL", "Move a namespace to another pool while it is in use",
		`New jobs go to the new pool at once, and workers empty the old pool. Clients and tokens need no change. The command
shows the progress, and ends when the old pool is empty and its queues are removed. If the command is stopped, the
move continues, and the same command shows its progress again. Dead jobs stay until they are requeued or purged. --to
with the old pool reverses a move.`,
		`  duly pool move shop --to orders
  duly pool move shop --to orders --detach`,
		func(ctx context.Context, p *printer, args []string) error {
			if to == "" {
				return usageErrorf("the pool is missing; give --to POOL")
			}
			return a.withAdmin(ctx, func(admin Admin, _ endpoint) error {
				m, err := admin.Move(ctx, args[0], to)
				err = withHintFor(duly.CodeNotFound, err, "see the namespaces: %s queues --namespaces", a.program())
				err = withHintFor(duly.CodeConflict, err, "see its progress: %s pool status %s", a.program(), shellQuote(args[0]))
				// The server continues the move, so the command may end here.
				if err != nil || detach {
					if err == nil {
						p.moves([]contract.MoveState{m})
					}
					return err
				}
				return a.watchMove(ctx, p, admin, m)
			})
		})

	cmd.Args = takesArgs("NAMESPACE")
	cmd.Flags().StringVar(&to, "to", "", "`name` of the pool")
	cmd.Flags().BoolVar(&detach, "detach", false, "do not wait for the end")
	return cmd
}

// watchMove shows the progress of a move until its end.
func (a *app) watchMove(ctx context.Context, p *printer, admin Admin, m contract.MoveState) error {
	bar := a.newProgress("move", 0)
	defer bar.end()
	var total int64 // the largest number of remaining jobs
	var printed contract.MovePhase
	for m.From != "" {
		// Without a bar, a line per phase shows that the command is alive.
		if bar == nil && printed != m.Phase {
			printed = m.Phase
			a.printMovePhase(&m)
		}

		moves, err := admin.Moves(ctx, m.Namespace)

		// An interrupt does not fail the move. It only ends the view.
		if ctx.Err() != nil {
			return a.endWatch(ctx, m.Namespace)
		}
		if err != nil {
			return err
		}

		m = moves[0]
		remaining := int64(0)
		for _, state := range duly.States {
			remaining += *m.Left.Of(state)
		}

		// The number may rise, for example after a requeue. The maximum keeps the finished part at zero or more.
		total = max(total, remaining)
		bar.set(total-remaining, total, 0)
		if m.From == "" {
			break
		}
		if clock.Sleep(ctx, a.env.Clock, moveInterval) != nil {
			return a.endWatch(ctx, m.Namespace)
		}
	}
	p.moves([]contract.MoveState{m})
	return nil
}

// printMovePhase prints a line for a phase of a move, if there is no progress bar.
func (a *app) printMovePhase(m *contract.MoveState) {
	if a.json {
		return
	}
	text := "its queues are created there"
	if m.Phase == contract.Draining {
		text = "new jobs go there, and workers empty " + m.From
		if remaining := remainingText(m); remaining != "" {
			text += ": " + remaining
		}
	}
	fmt.Fprintf(a.env.Stderr, "%s moves from %s to %s: %s\n", m.Namespace, m.From, m.Pool, text)
}

// endWatch ends a command that was interrupted while it watched a move.
func (a *app) endWatch(ctx context.Context, namespace string) error {
	a.noteOnTerminal("the move continues without this command; see: %s pool status %s",
		a.program(), shellQuote(namespace))
	return ctx.Err()
}
