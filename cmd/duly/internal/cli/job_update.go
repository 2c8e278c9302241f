package cli

import (
	"context"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dulymq/duly"
)

func jobUpdateCommand(a *app) *cobra.Command {
	var u duly.Update
	var body *string
	var noHeaders bool
	cmd := a.command("update QUEUE ID", "Change a job that waits",
		`Changes only what is given, in one step. The job must be delayed, ready or blocked; its ID, keys and merge rules stay,
and so do its failures.`,
		`  duly job update emails welcome-4711 --delay 1h
  duly job update emails welcome-4711 --priority 100 --ttl none
  duly job update emails welcome-4711 --body - < mail.json`,
		func(ctx context.Context, p *printer, args []string) error {
			if err := a.newBody(&u, body); err != nil {
				return err
			}
			if noHeaders && u.Headers != nil {
				return misusef("--header and --no-headers are both set, give one of them")
			}
			if noHeaders {
				u.Headers = map[string]string{}
			}
			return a.with(ctx, func(s *session) error {
				if err := s.Update(ctx, s.queue(args[0]), args[1], u); err != nil {
					return a.aboutJob(ctx, s, err, args[0], args[1])
				}
				if p.json {
					return p.value(idView{ID: args[1], OK: true})
				}
				p.printf("updated job %s\n", args[1])
				return nil
			})
		})
	cmd.Args = wants("QUEUE", "ID")
	cmd.ValidArgsFunction = a.completeQueues(1)
	f := cmd.Flags()
	dueVars(f, &u)
	f.Var(optional[int]{&u.Priority, "n", parseInt}, "priority", "`n` from -1000 to 1000, higher goes first")
	f.Var(optional[string]{&body, "text", func(s string) (string, error) { return s, nil }}, "body", `the new body; "-" reads standard input`)
	f.Var(headersFlag{&u.Headers}, "header", "a header in place of those it has; may be repeated")
	f.BoolVar(&noHeaders, "no-headers", false, "take all headers away")
	countVar(f, &u.Tries, "tries", "deliveries that may fail before the job is dead")
	boundVar(f, &u.MaxStalls, "max-stalls", "run-out leases that the job survives")
	f.StringVar((*string)(&u.Backoff), "backoff", "", "wait after a failure: fixed:5s, exp:1s:1h, or `steps` like 15s,3m,1h")
	spanVar(f, &u.TTL, "ttl", "drop the job when it has waited so long from now")
	leaseVar(f, &u.Lease, "how long a delivery holds the job")
	spanVar(f, &u.Retain, "retain", "keep the finished job and its result so long")
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		if !anyGiven(cmd) {
			return misusef("nothing to change was given")
		}
		return nil
	}
	return cmd
}

// dueVars adds the flags that change when a job is due.
func dueVars(f *pflag.FlagSet, u *duly.Update) {
	delayVar(f, &u.Delay, "delay", "due after this time from now")
	f.Var(timeFlag{&u.Due, time.Local}, "due", "due at this time")
}

func parseInt(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, misusef("write a whole number")
	}
	return n, nil
}

// newBody sets the body if one was given; an empty one is not nil.
func (a *app) newBody(u *duly.Update, text *string) (err error) {
	switch {
	case text == nil:
		return nil
	case *text == "-":
		u.Body, err = a.readInput()
	default:
		u.Body = []byte(*text)
	}
	if u.Body == nil {
		u.Body = []byte{}
	}
	return err
}
