package cli

import (
	"context"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/httpengine"
	"github.com/dulymq/duly/internal/wire"
)

func targetCommand(a *app) *cobra.Command {
	return a.group("target", "Manage the destinations that push queues send jobs to",
		targetListCommand(a), targetSetCommand(a), targetTestCommand(a), targetRotateCommand(a), targetSecretCommand(a),
		targetEnableCommand(a, true), targetEnableCommand(a, false), targetDeleteCommand(a))
}

// targetStore is the part of a server that stores targets and secrets. See
// [httpengine.Push].
type targetStore interface {
	contract.PushTargets
	Secret(ctx context.Context, name string) (contract.PushSecret, error)
}

// withTargets opens the engine and calls do with the targets of its server. Only a server
// has the keys that seal secrets.
func (a *app) withTargets(ctx context.Context, do func(t targetStore) error) error {
	return a.withEngine(ctx, func(s *session) error {
		var targets targetStore
		switch e := s.Engine.(type) {
		case targetStore:
			targets = e
		// A client of a server reaches the targets through HTTPPush.
		case interface{ HTTPPush() *httpengine.Push }:
			targets = e.HTTPPush()
		}
		if targets != nil {
			return withHintFor(duly.CodeNotFound, do(targets), "see the targets: %s target list", a.program())
		}
		return withHint(unsupported("targets"), "only a server can seal their secrets: set its address with --url")
	})
}

func targetListCommand(a *app) *cobra.Command {
	cmd := a.command("list", "List targets",
		`Lists the targets by name, each with the gate of its host in the server that answers: how many requests it admits
concurrently, and how many jobs wait for it. Secrets and the values of headers are not shown.`,
		`  duly target list
  duly target list --json | jq -r 'select(.enabled | not) | .name'`,
		func(ctx context.Context, p *printer, _ []string) error {
			return a.withTargets(ctx, func(targets targetStore) error { return listTargets(ctx, p, targets) })
		})

	cmd.Args = noArgs
	return cmd
}

func listTargets(ctx context.Context, p *printer, targets targetStore) error {
	t := p.newTable("TARGET", "URL", "STATE", "LIMIT", "HELD BACK", "SECRET")
	for page := (duly.PageParams{}); ; {
		found, next, err := targets.Targets(ctx, page)
		if err != nil {
			return err
		}

		for i := range found {
			if p.json {
				p.line(wire.TargetForm.Append(nil, found[i]))
			} else {
				t.addTarget(&found[i])
			}
		}

		// A table needs all rows for its widths. JSON lines are printed at once.
		if page.Cursor = next; next == "" {
			t.flush()
			return p.flush()
		}
	}
}

func (t *table) addTarget(target *contract.PushTarget) {
	state, limit, heldBack := "enabled", "", ""
	if h := target.Host; h != nil {
		limit, heldBack = strconv.Itoa(h.Limit), strconv.Itoa(h.HeldBack)
		if !h.Open {
			state = "closed"
		}
	}

	// Disabled comes last, because it overrides the state of the host's gate.
	if target.Settings.Disabled {
		state = "disabled"
	}
	t.add(txt(target.Name), txt(target.Settings.URL), txt(state), txt(limit), txt(heldBack), txt(t.p.secretText(target)))
}

func targetSetCommand(a *app) *cobra.Command {
	var s contract.PushTargetSettings
	var ca, secret string
	cmd := a.command("set NAME URL", "Create a target, or replace its settings",
		`Jobs and queues name it as target:NAME. A setting that is not given gets its default, except the secret, which
stays. Headers are sealed: no command shows their values again. Every server applies the new settings within two
seconds, also to existing jobs.`,
		`  duly target set crm https://crm.example/hook
  duly target set crm https://crm.example/hook --header x-key=7 --concurrency 20 --rate 50
  duly target set old https://old.example/ --success 409 --permanent 404 --timeout 30s
  pass show crm | duly target set crm https://crm.example/hook --secret-file -`,
		func(ctx context.Context, p *printer, args []string) (err error) {
			s.URL = args[1]
			if s.CA, err = a.readFileFlag(ca); err != nil {
				return err
			}
			if s.Secret, err = a.readSecretFlag(secret); err != nil {
				return err
			}
			return a.withTargets(ctx, func(targets targetStore) error {
				if err := targets.SetTarget(ctx, args[0], s); err != nil {
					return err
				}
				return p.target(ctx, targets, args[0])
			})
		})

	cmd.Args = takesArgs("NAME", "URL")
	cmd.ValidArgsFunction = noCompletion

	f := cmd.Flags()
	f.StringVar(&s.Method, "method", "", "`method` of the requests: POST, PUT or PATCH (default POST)")
	f.Var(headersFlag{&s.Headers}, "header", "a header of each request, sealed; may be repeated")
	f.Var(durationFlag{to: &s.Timeout, min: time.Second, max: 10 * time.Minute}, "timeout",
		"maximum duration of a try (default 10s)")
	f.IntSliceVar(&s.Success, "success", nil, "`statuses` that are a success, in addition to 2xx; with commas")
	f.IntSliceVar(&s.Permanent, "permanent", nil, "`statuses` that make a job dead; with commas")
	countVar(f, &s.Concurrency, "concurrency", "maximum requests in flight per server (default 64)")
	f.Var(rateFlag{&s.Rate.PerSecond}, "rate", "requests per second per server (default none)")
	countVar(f, &s.Rate.Burst, "burst", "requests at once after a pause")
	f.StringSliceVar(&s.Sign, "sign", nil, "`signatures`: v1, v1a, or both with a comma (default v1)")
	f.StringVar(&ca, "ca", "", "`file` with additional authorities for the receiver's certificate, in PEM")
	f.BoolVar(&s.Disabled, "disabled", false, "create it disabled")
	secretFlag(cmd, &secret)
	completeValues(cmd, "method", "POST", "PUT", "PATCH")
	completeValues(cmd, "sign", "v1", "v1a", "v1,v1a")
	return cmd
}

// secretFlag adds the flag for the file of a secret. Other users of the machine could see a
// secret on the command line.
func secretFlag(cmd *cobra.Command, to *string) {
	cmd.Flags().StringVar(to, "secret-file", "",
		"`file` with the secret, whsec_… or whsk_…, or - for standard input (default: unchanged, or a random one)")
}

// maxFlagFile is the maximum size of a file that a flag names, in bytes.
const maxFlagFile = 64 << 10

// readFileFlag returns the text of a file, or of standard input for "-". It returns "" if
// path is empty.
func (a *app) readFileFlag(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	in := a.env.Stdin
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return "", usageErrorf("%s", err)
		}
		defer f.Close()
		in = f
	}

	// One byte more than the limit shows that the file is too large.
	text, err := io.ReadAll(io.LimitReader(in, maxFlagFile+1))
	if err == nil && len(text) > maxFlagFile {
		err = usageErrorf("%s has more than %d bytes", path, maxFlagFile)
	}
	return string(text), err
}

// readSecretFlag is like readFileFlag, for a secret. No message contains the secret.
func (a *app) readSecretFlag(path string) (string, error) {
	text, err := a.readFileFlag(path)
	text = strings.TrimSpace(text)
	if err == nil && path != "" && text == "" {
		err = usageErrorf("--secret-file has no secret")
	}

	// The secret may appear in an error of the server, so it is hidden from now on.
	if text != "" {
		a.hide(text)
	}
	return text, err
}

// target prints one target.
func (p *printer) target(ctx context.Context, targets targetStore, name string) error {
	target, err := targets.Target(ctx, name)
	if err != nil {
		return err
	}
	if p.json {
		p.line(wire.TargetForm.Append(nil, target))
		return nil
	}

	s := &target.Settings
	enabled := "yes"
	if s.Disabled {
		enabled = "no"
	}
	rate := "none"
	if s.Rate.Limited() {
		rate = strconv.FormatFloat(s.Rate.PerSecond, 'g', -1, 64) + " a second, burst " + strconv.Itoa(s.Rate.Burst)
	}

	t := p.newTable("SETTING", "VALUE")
	t.add(txt("url"), txt(s.URL))
	t.add(txt("method"), txt(s.Method))
	t.add(txt("headers"), txt(strings.Join(target.HeaderNames, ", ")))
	t.add(txt("timeout"), txt(duly.FormatDuration(s.Timeout)))
	t.add(txt("success"), txt(statusesText(s.Success)))
	t.add(txt("permanent"), txt(statusesText(s.Permanent)))
	t.add(txt("concurrency"), txt(strconv.Itoa(s.Concurrency)))
	t.add(txt("rate"), txt(rate))
	t.add(txt("sign"), txt(strings.Join(s.Sign, ", ")))
	t.add(txt("secret"), txt(p.secretText(&target)))
	t.add(txt("enabled"), txt(enabled))
	t.flush()
	return nil
}

func statusesText(statuses []int) string {
	parts := make([]string, len(statuses))
	for i, status := range statuses {
		parts[i] = strconv.Itoa(status)
	}
	return strings.Join(parts, ", ")
}

// secretText describes the secret of a target.
func (p *printer) secretText(target *contract.PushTarget) string {
	text := "the namespace's"
	if target.OwnSecret {
		text = "its own"
	}
	if !target.OverlapUntil.IsZero() {
		text += ", two until " + relative(target.OverlapUntil, p.now())
	}
	return text
}

func targetTestCommand(a *app) *cobra.Command {
	cmd := a.command("test NAME", "Send a test request from the server",
		`The server sends a signed duly.test to the target, even if it is disabled. The command prints the answer. No job
changes.`,
		`  duly target test crm`,
		func(ctx context.Context, p *printer, args []string) error {
			return a.withTargets(ctx, func(targets targetStore) error {
				test, err := targets.TestTarget(ctx, args[0])
				if err != nil {
					return err
				}
				if p.json {
					p.line(wire.PushTestForm.Append(nil, test))
					return nil
				}

				status := "no answer"
				if test.Status != 0 {
					status = strconv.Itoa(test.Status)
				}
				took := duly.FormatDuration(test.Took)
				if test.Took == 0 { // the server sends whole milliseconds
					took = "less than 1ms"
				}
				p.printf("%s in %s: the result for a job is %s\n", status, took, test.As)
				if test.Error != "" {
					p.printf("%s\n", test.Error)
				}
				return nil
			})
		})

	cmd.Args = takesArgs("NAME")
	cmd.ValidArgsFunction = noCompletion
	return cmd
}

func targetRotateCommand(a *app) *cobra.Command {
	var overlap, secret string
	cmd := a.command("rotate [NAME]", "Rotate the secret of a target, or of the namespace",
		`The old secret signs too until the overlap ends, so that receivers can switch to the new one. Without a name, the
command rotates the secret of the namespace, which signs for URLs and for targets without a secret. Each call is
another rotation.`,
		`  duly target rotate crm
  duly target rotate crm --overlap 7d
  duly target rotate --overlap now`,
		func(ctx context.Context, p *printer, args []string) (err error) {
			var r contract.PushRotation
			if r.Overlap, err = parseOverlap(overlap); err != nil {
				return err
			}
			if r.Secret, err = a.readSecretFlag(secret); err != nil {
				return err
			}
			return a.withTargets(ctx, func(targets targetStore) error {
				// Without an argument the name is empty, which means the secret of the namespace.
				name := strings.Join(args, "")
				if err := targets.RotateSecret(ctx, name, r); err != nil {
					return err
				}
				command := a.program() + " target secret"
				if name != "" {
					command += " " + shellQuote(name)
				}

				// The secret is not printed, because a terminal keeps its output.
				a.noteOnTerminal("rotated the secret; to see it: %s", command)
				return nil
			})
		})

	cmd.Args = takesArgs("[NAME]")
	cmd.ValidArgsFunction = noCompletion
	cmd.Flags().StringVar(&overlap, "overlap", "",
		"how long the old secret signs too, up to 30d; now ends it at once (default 24h)")
	secretFlag(cmd, &secret)
	return cmd
}

// parseOverlap parses the overlap of a rotation. It returns nil for "", the default.
func parseOverlap(text string) (*time.Duration, error) {
	switch text {
	case "":
		return nil, nil
	case "now":
		// nil means the default, so an overlap of zero needs a pointer.
		return new(time.Duration), nil
	}
	d, err := duly.ParseDuration(text)
	if err != nil {
		return nil, usageErrorf("--overlap is %q, must be a duration such as 24h or 7d, or now", text)
	}
	return &d, nil
}

func targetSecretCommand(a *app) *cobra.Command {
	var all bool
	cmd := a.command("secret [NAME]", "Show the secret of a target, or of the namespace",
		`Prints the newest secret, with which the receiver verifies signatures. --all also prints the keys of v1a signatures.
The receiver needs only the public one (whpk_…). The server logs each call.`,
		`  duly target secret crm
  duly target secret --all`,
		func(ctx context.Context, p *printer, args []string) error {
			return a.withTargets(ctx, func(targets targetStore) error {
				secret, err := targets.Secret(ctx, strings.Join(args, ""))
				if err != nil {
					return err
				}
				if p.json {
					p.line(wire.PushSecretForm.Append(nil, secret))
					return nil
				}
				p.printf("%s\n", secret.Secret)
				if all {
					p.printf("%s\n%s\n", secret.PrivateKey, secret.PublicKey)
				}
				return nil
			})
		})

	cmd.Args = takesArgs("[NAME]")
	cmd.ValidArgsFunction = noCompletion
	cmd.Flags().BoolVar(&all, "all", false, "print the keys of v1a signatures too")
	return cmd
}

func targetEnableCommand(a *app, enabled bool) *cobra.Command {
	use, short, done := "disable", "Stop sending to targets; their jobs wait", "disabled target"
	long := `Jobs of a disabled target wait without using a try. Their TTL continues. The command can be repeated.`
	if enabled {
		use, short, done = "enable", "Resume sending to targets", "enabled target"
		long = `Sending begins slowly. Waiting jobs are sent within five minutes. The command can be repeated.`
	}
	cmd := a.command(use+" NAME…", short, long, "  duly target "+use+" crm",
		func(ctx context.Context, p *printer, args []string) error {
			return a.withTargets(ctx, func(targets targetStore) error {
				return a.forEach(ctx, p, args, done, func(name string) error {
					return targets.EnableTarget(ctx, name, enabled)
				})
			})
		})

	cmd.Args = takesArgs("NAME…")
	cmd.ValidArgsFunction = noCompletion
	return cmd
}

func targetDeleteCommand(a *app) *cobra.Command {
	cmd := a.command("delete NAME…", "Delete targets",
		`Jobs that name a deleted target wait until a target of that name exists again.`,
		`  duly target delete crm`,
		func(ctx context.Context, p *printer, args []string) error {
			return a.withTargets(ctx, func(targets targetStore) error {
				return a.forEach(ctx, p, args, "deleted target", func(name string) error {
					return targets.DeleteTarget(ctx, name)
				})
			})
		})

	cmd.Args = takesArgs("NAME…")
	cmd.ValidArgsFunction = noCompletion
	return cmd
}
