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
	cmd := a.command("update QUEUE ID", "Change a waiting job",
		`Changes only the given fields, in one step. The job must be delayed, ready or blocked. Its ID, keys, merge rules and
failures do not change.`,
		`  duly job update emails welcome-4711 --delay 1h
  duly job update emails welcome-4711 --priority 100 --ttl none
  duly job update emails welcome-4711 --body - < mail.json`,
		func(ctx context.Context, p *printer, args []string) error {
			if err := a.newBody(&u, body); err != nil {
				return err
			}
			if noHeaders && u.Headers != nil {
				return usageErrorf("--header and --no-headers are both set, give one of them")
			}
			if noHeaders {
				// nil headers mean no change. Only an empty map removes them.
				u.Headers = map[string]string{}
			}

			return a.withEngine(ctx, func(s *session) error {
				if err := s.Update(ctx, s.queue(args[0]), args[1], u); err != nil {
					return a.jobError(ctx, s, err, args[0], args[1])
				}
				if p.json {
					return p.value(idView{ID: args[1], OK: true})
				}
				p.printf("updated job %s\n", args[1])
				return nil
			})
		})

	cmd.Args = takesArgs("QUEUE", "ID")
	cmd.ValidArgsFunction = a.completeQueues(1)

	f := cmd.Flags()
	dueVars(f, &u)
	f.Var(optional[int]{&u.Priority, "n", parseInt}, "priority", "`n` from -1000 to 1000, higher first")
	f.Var(optional[string]{&body, "text", func(s string) (string, error) { return s, nil }}, "body",
		`the new body; "-" reads standard input`)
	f.Var(headersFlag{&u.Headers}, "header", "a header that replaces all headers; may be repeated")
	f.BoolVar(&noHeaders, "no-headers", false, "remove all headers")
	ruleVars(f, "", jobRules{
		tries: &u.Tries, maxStalls: &u.MaxStalls, backoff: &u.Backoff, lease: &u.Lease, ttl: &u.TTL, retain: &u.Retain,
	})

	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		if !anyFlagSet(cmd) {
			return usageErrorf("nothing to change; give a flag")
		}
		return nil
	}
	return cmd
}

// dueVars adds the flags that change when a job is due.
func dueVars(f *pflag.FlagSet, u *duly.Update) {
	delayVar(f, &u.Delay, "delay", "due after this time, from now")
	f.Var(timeFlag{&u.Due, time.Local}, "due", "due at this time")
}

func parseInt(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, usageErrorf("write an integer")
	}
	return n, nil
}

// newBody sets the body if it is given. An empty body is not nil.
func (a *app) newBody(u *duly.Update, text *string) (err error) {
	switch {
	case text == nil:
		return nil
	case *text == "-":
		u.Body, err = a.readInput()
	default:
		u.Body = []byte(*text)
	}

	// nil means no change, so empty input must become an empty body.
	if u.Body == nil {
		u.Body = []byte{}
	}
	return err
}
