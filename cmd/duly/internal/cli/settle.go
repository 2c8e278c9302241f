package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dulymq/duly"
)

const receiptsLong = `A receipt comes from reserve and is good for that delivery alone. "-" reads receipts from standard input, one per
line, or the lines that reserve --json prints. Each receipt is settled by itself: one that is lost stops no other.`

func ackCommand(a *app) *cobra.Command {
	var result string
	cmd := a.settling(duly.Ack, "Report jobs as done", `  duly ack emails:0:01JZK7WQ0Z5X3GJ6J1V9V7T1QH:1
  duly ack RECEIPT --result 'sent as 4711'
  duly reserve emails --limit 100 --json | tee batch | duly ack -`,
		func(o *duly.Outcome) { o.Result = []byte(result) })
	cmd.Flags().StringVar(&result, "result", "", "`text` to keep with a job that was pushed with --retain")
	return cmd
}

func nackCommand(a *app) *cobra.Command {
	var text string
	var delay *time.Duration
	cmd := a.settling(duly.Nack, "Report jobs as failed: they are tried again, or dead after their last try", `  duly nack RECEIPT --reason 'mailbox is full'
  duly nack RECEIPT --delay 10m`,
		func(o *duly.Outcome) { o.Error, o.Delay = text, delay })
	cmd.Flags().StringVar(&text, "reason", "", "what went wrong, as a `text`")
	renamed(cmd.Flags(), "error", "reason")
	delayVar(cmd.Flags(), &delay, "delay", "try again after this time (default: the job's backoff)")
	return cmd
}

func releaseCommand(a *app) *cobra.Command {
	var delay *time.Duration
	cmd := a.settling(duly.Release, "Give jobs back; no try is used", `  duly release RECEIPT
  duly release RECEIPT --delay 1h`,
		func(o *duly.Outcome) { o.Delay = delay })
	delayVar(cmd.Flags(), &delay, "delay", "let it be due again after this time (default: as it was)")
	return cmd
}

func buryCommand(a *app) *cobra.Command {
	var reason string
	cmd := a.settling(duly.Bury, "Make jobs dead now, whatever tries they have left", `  duly bury RECEIPT --reason 'no such customer'`,
		func(o *duly.Outcome) { o.Error = reason })
	cmd.Flags().StringVar(&reason, "reason", "", "why, as a `text`")
	return cmd
}

// settling makes the command of one way to end deliveries.
func (a *app) settling(as duly.Settlement, short, examples string, fill func(*duly.Outcome)) *cobra.Command {
	cmd := a.command(as.String()+" RECEIPT…", short, receiptsLong, examples,
		func(ctx context.Context, p *printer, args []string) error {
			receipts, err := a.receipts(args)
			if err != nil {
				return err
			}
			return a.with(ctx, func(s *session) error {
				then := s.aftermaths(ctx, as, len(receipts), p.now)
				return a.eachBatch(p, receipts, past(as), then, func(batch []duly.Receipt) ([]error, error) {
					outcomes := make([]duly.Outcome, len(batch))
					for i, r := range batch {
						outcomes[i] = duly.Outcome{Receipt: r, As: as}
						fill(&outcomes[i])
					}
					return s.Settle(ctx, s.namespace, outcomes)
				})
			})
		})
	cmd.Args = wants("RECEIPT…")
	cmd.ValidArgsFunction = noCompletion
	return cmd
}

func extendCommand(a *app) *cobra.Command {
	var lease time.Duration
	cmd := a.command("extend RECEIPT…", "Hold jobs longer, counted from now", receiptsLong, `  duly extend RECEIPT
  duly extend RECEIPT --lease 10m`,
		func(ctx context.Context, p *printer, args []string) error {
			receipts, err := a.receipts(args)
			if err != nil {
				return err
			}
			return a.with(ctx, func(s *session) error {
				return a.eachBatch(p, receipts, "extended", nil, func(batch []duly.Receipt) ([]error, error) {
					return s.Extend(ctx, s.namespace, batch, lease)
				})
			})
		})
	cmd.Args = wants("RECEIPT…")
	cmd.ValidArgsFunction = noCompletion
	leaseVar(cmd.Flags(), &lease, "how long from now (default: as the job says)")
	return cmd
}

// past is what has happened to a job that was settled so.
func past(as duly.Settlement) string {
	switch as {
	case duly.Bury:
		return "buried"
	case duly.Release:
		return "released"
	}
	return as.String() + "ed"
}

// aftermath is the state of a job after its delivery, for machines and as text.
// Both are empty if the state is unknown.
type aftermath struct{ state, text string }

// mostAftermaths bounds the extra calls of one command.
const mostAftermaths = 100

// aftermaths returns a function that reads the job of a receipt after its
// delivery, or nil for acks and for too many receipts. The state is unknown if the
// job is gone or can't be read.
func (s *session) aftermaths(
	ctx context.Context, as duly.Settlement, n int, now func() time.Time,
) func(duly.Receipt) aftermath {
	if as == duly.Ack || n > mostAftermaths {
		return nil
	}
	return func(r duly.Receipt) aftermath {
		j, err := s.GetByReceipt(ctx, s.namespace, r)
		if err != nil {
			return aftermath{}
		}
		return aftermath{j.State.String(), afterwards(&j, now())}
	}
}

// receiptView is the answer for one receipt.
type receiptView struct {
	Receipt duly.Receipt `json:"receipt"`
	OK      bool         `json:"ok"`
	State   string       `json:"state,omitempty"` // of a job that was not acked, if known
	Error   *errorView   `json:"error,omitempty"`
}

// eachBatch calls do with as many receipts as one call carries, and tells what
// became of each.
//
// then, if set, returns the aftermath for a receipt that was accepted.
func (a *app) eachBatch(
	p *printer, receipts []duly.Receipt, done string,
	then func(duly.Receipt) aftermath, do func([]duly.Receipt) ([]error, error),
) error {
	ok, failed := 0, 0
	single := len(receipts) == 1
	text := ""
	defer func() { // also after an error: the batches before it are done
		if !p.json && ok > 0 {
			p.printf("%s %s%s\n", done, plural(int64(ok), "job"), text)
		}
	}()
	for len(receipts) > 0 {
		batch := receipts[:min(len(receipts), duly.MaxBatch)]
		receipts = receipts[len(batch):]
		errs, err := do(batch)
		if err != nil {
			return err
		}
		for i, err := range errs {
			if err == nil {
				ok++
			} else {
				failed++
			}
			var after aftermath
			if err == nil && then != nil {
				after = then(batch[i])
			}
			if text = ""; after.text != "" && single {
				text = ", " + after.text
			} else if after.text != "" && !p.json {
				p.printf("%s  %s\n", oneLine(string(batch[i])), after.text)
			}
			if err := a.settled(p, batch[i], after, err); err != nil {
				return err
			}
		}
	}
	if failed > 0 {
		return errReported
	}
	return nil
}

func (a *app) settled(p *printer, r duly.Receipt, after aftermath, err error) error {
	if err == nil {
		if p.json {
			return p.value(receiptView{Receipt: r, OK: true, State: after.state})
		}
		return nil
	}
	code := duly.CodeOf(err)
	next := nexts(code, a.program())
	if p.json {
		return p.value(receiptView{Receipt: r, Error: a.errorView(code, err, next)})
	}
	a.complain(code, fmt.Errorf("%s: %w", oneLine(string(r)), err), next)
	return nil
}

// receipts are the arguments; "-" stands for the lines of standard input.
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

func (a *app) readReceipts() (receipts []duly.Receipt, err error) {
	scan := bufio.NewScanner(a.env.Stdin)
	scan.Buffer(nil, 2*duly.MaxMaxBody) // a delivery carries its body
	for n := 1; scan.Scan(); n++ {
		text := strings.TrimSpace(scan.Text())
		if text == "" {
			continue
		}
		if strings.HasPrefix(text, "{") {
			var d struct {
				Receipt string `json:"receipt"`
			}
			if json.Unmarshal([]byte(text), &d) != nil || d.Receipt == "" {
				return nil, misusef("line %d of standard input is JSON without a receipt", n)
			}
			text = d.Receipt
		}
		receipts = append(receipts, duly.Receipt(text))
	}
	return receipts, scan.Err()
}
