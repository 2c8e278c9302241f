package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

const receiptsLong = `reserve prints a receipt, which is valid for that delivery only. "-" reads receipts from standard
input, one per line, or the output of reserve --json. If a lease is lost, the other receipts are settled nevertheless.`

func ackCommand(a *app) *cobra.Command {
	var result string
	cmd := a.settleCommand(duly.Ack, "Report jobs as done",
		`  duly ack emails:0:01JZK7WQ0Z5X3GJ6J1V9V7T1QH:1
  duly ack RECEIPT --result 'sent as 4711'
  duly reserve emails --limit 100 --json | tee batch | duly ack -`,
		func(o *duly.SettleRequest) { o.Result = []byte(result) })
	cmd.Flags().StringVar(&result, "result", "", "`text` to store with a job that has --retain")
	return cmd
}

func nackCommand(a *app) *cobra.Command {
	var text string
	var delay *time.Duration
	cmd := a.settleCommand(duly.Nack, "Report jobs as failed: they are tried again, or are dead after their last try",
		`  duly nack RECEIPT --reason 'mailbox is full'
  duly nack RECEIPT --delay 10m`,
		func(o *duly.SettleRequest) { o.Error, o.Delay = text, delay })
	cmd.Flags().StringVar(&text, "reason", "", "what went wrong, as a `text`")
	acceptOldName(cmd.Flags(), "error", "reason")
	delayVar(cmd.Flags(), &delay, "delay", "time until the next try (default: the job's backoff)")
	return cmd
}

func releaseCommand(a *app) *cobra.Command {
	var delay, slow *time.Duration
	var reason string
	cmd := a.settleCommand(duly.Release, "Release jobs without using a try",
		`  duly release RECEIPT
  duly release RECEIPT --delay 1h
  duly release RECEIPT --slow 30s --reason 'HTTP 429'`,
		func(o *duly.SettleRequest) { o.Delay, o.Slow, o.Error = delay, slow, reason })
	delayVar(cmd.Flags(), &delay, "delay", "time until the job is due again (default: its old due time)")
	boundedDelayVar(cmd.Flags(), &slow, duly.MaxSlow, "slow", "how long the queue delivers no job, up to 1h (default: it stays open)")
	cmd.Flags().StringVar(&reason, "reason", "", "with --slow: why the queue is closed, as a `text`")
	return cmd
}

func buryCommand(a *app) *cobra.Command {
	var reason string
	cmd := a.settleCommand(duly.Bury, "Make jobs dead now, even if they have tries left",
		`  duly bury RECEIPT --reason 'no such customer'`,
		func(o *duly.SettleRequest) { o.Error = reason })
	cmd.Flags().StringVar(&reason, "reason", "", "why, as a `text`")
	return cmd
}

// settleCommand returns the command for one settlement. fill sets the fields of an outcome.
func (a *app) settleCommand(as duly.Settlement, short, examples string, fill func(*duly.SettleRequest)) *cobra.Command {
	cmd := a.command(as.String()+" RECEIPT…", short, receiptsLong, examples,
		func(ctx context.Context, p *printer, args []string) error {
			// All receipts are read before the first call, so a wrong line settles nothing.
			receipts, err := a.receipts(args)
			if err != nil {
				return err
			}
			return a.withEngine(ctx, func(s *session) error {
				next := s.nextStates(ctx, as, len(receipts), p.now)
				return a.forEachBatch(p, receipts, pastTense(as), next, func(batch []duly.Receipt) ([]error, error) {
					outcomes := make([]duly.SettleRequest, len(batch))
					for i, r := range batch {
						outcomes[i] = duly.SettleRequest{Receipt: r, As: as}
						fill(&outcomes[i])
					}
					return s.Settle(ctx, s.namespace, outcomes)
				})
			})
		})

	cmd.Args = takesArgs("RECEIPT…")
	cmd.ValidArgsFunction = noCompletion
	return cmd
}

func extendCommand(a *app) *cobra.Command {
	var lease time.Duration
	cmd := a.command("extend RECEIPT…", "Extend leases, counted from now", receiptsLong,
		`  duly extend RECEIPT
  duly extend RECEIPT --lease 10m`,
		func(ctx context.Context, p *printer, args []string) error {
			receipts, err := a.receipts(args)
			if err != nil {
				return err
			}
			return a.withEngine(ctx, func(s *session) error {
				return a.forEachBatch(p, receipts, "extended", nil, func(batch []duly.Receipt) ([]error, error) {
					return s.Extend(ctx, s.namespace, batch, lease)
				})
			})
		})

	cmd.Args = takesArgs("RECEIPT…")
	cmd.ValidArgsFunction = noCompletion
	leaseVar(cmd.Flags(), &lease, "duration from now (default: the job's)")
	return cmd
}

// pastTense returns the past participle of a settlement, like "buried".
func pastTense(as duly.Settlement) string {
	switch as {
	case duly.Bury:
		return "buried"
	case duly.Release:
		return "released"
	}
	return as.String() + "ed"
}

// nextState is the state of a job after its delivery, for JSON and as text. Both are
// empty if the state is not known.
type nextState struct{ state, text string }

// maxNextStates limits the additional calls of one command.
const maxNextStates = 100

// nextStates returns a function that reads the job of a receipt after its delivery. It
// returns nil for acks and for too many receipts. The state is not known if the job is
// gone or the call fails.
func (s *session) nextStates(
	ctx context.Context, as duly.Settlement, n int, now func() time.Time,
) func(duly.Receipt) nextState {
	// An acked job has no next state. Many receipts would need a call each.
	if as == duly.Ack || n > maxNextStates {
		return nil
	}
	return func(r duly.Receipt) nextState {
		j, err := s.GetByReceipt(ctx, s.namespace, r)
		if err != nil {
			return nextState{}
		}
		text := nextStateOf(ctx, s.Engine, duly.QueueRef{Namespace: s.namespace, Name: j.Queue}, &j, now)
		return nextState{j.State.String(), text}
	}
}

// nextStateOf is like nextStateText. A ready job waits as long as its queue is closed.
func nextStateOf(
	ctx context.Context, engine contract.Inspector, q duly.QueueRef, j *duly.JobInfo, now func() time.Time,
) string {
	if j.State == duly.StateReady {
		stats, err := engine.Stats(ctx, q)
		if until := stats.Closing.Until; err == nil && until.After(now()) {
			return "again " + relative(until, now()) + ", when its queue opens"
		}
	}
	return nextStateText(j, now())
}

// receiptView is the JSON of the result for one receipt.
type receiptView struct {
	Receipt duly.Receipt `json:"receipt"`
	OK      bool         `json:"ok"`
	State   string       `json:"state,omitempty"` // state of a job that was not acked, if it is known
	Error   *errorView   `json:"error,omitempty"`
}

// forEachBatch calls do for batches of receipts and prints the results. done is the
// participle that it prints. next returns the next state of a settled job. It may be nil.
func (a *app) forEachBatch(
	p *printer, receipts []duly.Receipt, done string,
	next func(duly.Receipt) nextState, do func([]duly.Receipt) ([]error, error),
) error {
	ok, failed := 0, 0
	single := len(receipts) == 1
	text := ""
	defer func() { // runs even after an error, because the earlier batches are done
		if !p.json && ok > 0 {
			p.printf("%s %s%s\n", done, plural(int64(ok), "job"), text)
		}
	}()

	for batch := range slices.Chunk(receipts, duly.MaxBatch) {
		// An error of the call concerns the whole batch, and the rest is not tried.
		errs, err := do(batch)
		if err != nil {
			return err
		}
		for i, err := range errs {
			var state nextState
			if err != nil {
				failed++
			} else if ok++; next != nil {
				state = next(batch[i])
			}
			// The text for a single receipt belongs to the last line.
			if single && state.text != "" {
				text = ", " + state.text
			} else if state.text != "" && !p.json {
				p.printf("%s  %s\n", oneLine(string(batch[i])), state.text)
			}
			if err := a.printSettled(p, batch[i], state, err); err != nil {
				return err
			}
		}
	}
	if failed > 0 {
		return errReported
	}
	return nil
}

// printSettled prints the result for one receipt: JSON, or an error.
func (a *app) printSettled(p *printer, r duly.Receipt, state nextState, err error) error {
	if err == nil {
		if p.json {
			return p.value(receiptView{Receipt: r, OK: true, State: state.state})
		}
		return nil
	}
	code := duly.CodeOf(err)
	hint := a.hint(nil, code, err)
	if p.json {
		return p.value(receiptView{Receipt: r, Error: a.errorView(code, err, hint)})
	}
	a.printError(code, fmt.Errorf("%s: %w", oneLine(string(r)), err), hint)
	return nil
}

// receipts returns the receipts of the arguments. The argument "-" is replaced by the receipts on
// standard input.
func (a *app) receipts(args []string) (receipts []duly.Receipt, err error) {
	for _, arg := range args {
		if arg != "-" {
			receipts = append(receipts, duly.Receipt(arg))
			continue
		}
		read, err := a.readReceipts()
		if err != nil {
			return nil, err
		}
		receipts = append(receipts, read...)
	}
	return receipts, nil
}

// readReceipts reads receipts from the lines of standard input: bare, or as JSON.
func (a *app) readReceipts() (receipts []duly.Receipt, err error) {
	scan := bufio.NewScanner(a.env.Stdin)
	scan.Buffer(nil, 2*duly.MaxMaxBody) // the JSON of a delivery has its body
	for n := 1; scan.Scan(); n++ {
		text := strings.TrimSpace(scan.Text())
		if text == "" {
			continue
		}

		// The output of reserve --json can be piped into this command.
		if strings.HasPrefix(text, "{") {
			var d struct {
				Receipt string `json:"receipt"`
			}

			// A JSON line without a receipt is the output of another command.
			if json.Unmarshal([]byte(text), &d) != nil || d.Receipt == "" {
				return nil, usageErrorf("line %d of standard input is JSON without a receipt", n)
			}
			text = d.Receipt
		}
		receipts = append(receipts, duly.Receipt(text))
	}
	return receipts, scan.Err()
}
