package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/wire"
)

func poolCommand(a *app) *cobra.Command {
	return a.group("pool", "List the pools of a server, and move namespaces between them",
		poolListCommand(a), poolStatusCommand(a), poolMoveCommand(a))
}

func poolListCommand(a *app) *cobra.Command {
	cmd := a.command("list", "List the pools of a server",
		`The server is asked at its admin address. The pool default is the one of its own engine.`,
		`  duly pool list`,
		func(ctx context.Context, p *printer, _ []string) error {
			return a.withAdmin(ctx, func(admin Admin, _ place) error {
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
	cmd := a.command("status [NAMESPACE]", "Show which namespaces move, and what is left of them",
		`Lists the namespaces that move from one pool to another, with the jobs that are left in the old one. Of one namespace it
tells the pool, also if it does not move.`,
		`  duly pool status
  duly pool status shop --json`,
		func(ctx context.Context, p *printer, args []string) error {
			return a.withAdmin(ctx, func(admin Admin, _ place) error {
				moves, err := admin.Moves(ctx, strings.Join(args, ""))
				if err == nil {
					p.moves(moves)
				}
				return err
			})
		})
	cmd.Args = wants("[NAMESPACE]")
	return cmd
}

// moves prints where namespaces are.
func (p *printer) moves(moves []duly.MoveState) {
	if p.json {
		for i := range moves {
			p.line(wire.MoveForm.Append(nil, moves[i]))
		}
		return
	}
	t := p.newTable("NAMESPACE", "POOL", "FROM", "PHASE", "SINCE", ">QUEUES", "LEFT THERE")
	for i := range moves {
		m := &moves[i]
		since := ""
		if m.From != "" {
			since = relative(m.Since, p.now())
		}
		t.add(txt(m.Namespace), txt(m.Pool), txt(m.From), txt(string(m.Phase)), txt(since), txt(countOr(m)), txt(leftText(m)))
	}
	t.flush()
}

func countOr(m *duly.MoveState) string {
	if m.From == "" {
		return ""
	}
	return countText(int64(m.Queues))
}

// leftText tells what a move waits for.
func leftText(m *duly.MoveState) string {
	var parts []string
	for _, state := range duly.States {
		if n := *m.Left.Of(state); n > 0 {
			parts = append(parts, countText(n)+" "+state.String())
		}
	}
	return strings.Join(parts, ", ")
}

// lookEvery is how often a command asks how far a move is.
const lookEvery = time.Second

func poolMoveCommand(a *app) *cobra.Command {
	var to string
	detach := false
	cmd := a.command("move NAMESPACE --to POOL", "Move a namespace to another pool while it is in use",
		`New jobs go to the new pool at once, and the old one is worked off; no client has to do anything, and tokens stay. The
command shows how far it is and ends when the old pool is empty and its queues are removed. To stop it leaves the move
going on; said again it looks at it again. Dead jobs do not go by themselves: requeue or purge them. --to the pool that
the namespace comes from turns a move around.`,
		`  duly pool move shop --to orders
  duly pool move shop --to orders --detach`,
		func(ctx context.Context, p *printer, args []string) error {
			if to == "" {
				return misusef("say where to: --to POOL")
			}
			return a.withAdmin(ctx, func(admin Admin, _ place) error {
				m, err := admin.Move(ctx, args[0], to)
				err = adviseOn(duly.CodeNotFound, err, "see which there are: %s queues --namespaces", a.program())
				err = adviseOn(duly.CodeConflict, err, "see how far it is: %s pool status %s", a.program(), shellQuote(args[0]))
				if err != nil || detach {
					if err == nil {
						p.moves([]duly.MoveState{m})
					}
					return err
				}
				return a.watchMove(ctx, p, admin, m)
			})
		})
	cmd.Args = wants("NAMESPACE")
	cmd.Flags().StringVar(&to, "to", "", "`name` of the pool")
	cmd.Flags().BoolVar(&detach, "detach", false, "do not wait for its end")
	return cmd
}

// watchMove waits for the end of a move.
func (a *app) watchMove(ctx context.Context, p *printer, admin Admin, m duly.MoveState) error {
	bar := a.newProgress("move", 0)
	defer bar.end()
	var most int64
	var told duly.MovePhase
	for m.From != "" {
		if bar == nil && told != m.Phase {
			told = m.Phase
			a.tellStage(&m)
		}
		moves, err := admin.Moves(ctx, m.Namespace)
		if ctx.Err() != nil {
			return a.leaveMove(ctx, m.Namespace)
		}
		if err != nil {
			return err
		}
		m = moves[0]
		left := int64(0)
		for _, state := range duly.States {
			left += *m.Left.Of(state)
		}
		most = max(most, left)
		bar.set(most-left, most, 0)
		if m.From == "" {
			break
		}
		if clock.Sleep(ctx, a.env.Clock, lookEvery) != nil {
			return a.leaveMove(ctx, m.Namespace)
		}
	}
	p.moves([]duly.MoveState{m})
	return nil
}

// tellStage is what somebody sees of a move who sees no bar: a line for each of
// its stages.
func (a *app) tellStage(m *duly.MoveState) {
	if a.json {
		return
	}
	now := "its queues are made there"
	if m.Phase == duly.Draining {
		now = "new jobs go there, and " + m.From + " is worked off"
		if left := leftText(m); left != "" {
			now += ": " + left
		}
	}
	fmt.Fprintf(a.env.Stderr, "%s moves from %s to %s: %s\n", m.Namespace, m.From, m.Pool, now)
}

// leaveMove ends a command that was told to stop while it watched a move.
func (a *app) leaveMove(ctx context.Context, namespace string) error {
	a.remark(fmt.Sprintf("the move goes on without this command; see: %s pool status %s", a.program(), shellQuote(namespace)))
	return ctx.Err()
}
