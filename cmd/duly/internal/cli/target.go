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
	"github.com/dulymq/duly/httpengine"
	"github.com/dulymq/duly/internal/wire"
)

func targetCommand(a *app) *cobra.Command {
	return a.group("target", "Manage the destinations that push queues send jobs to",
		targetListCommand(a), targetSetCommand(a), targetTestCommand(a), targetRotateCommand(a), targetSecretCommand(a),
		targetEnableCommand(a, true), targetEnableCommand(a, false), targetDeleteCommand(a))
}

// pusher is the part of a server that keeps targets and secrets; see [httpengine.Push].
type pusher interface {
	Targets(ctx context.Context, p duly.PageParams) ([]wire.Target, string, error)
	Target(ctx context.Context, name string) (wire.Target, error)
	SetTarget(ctx context.Context, name string, s wire.TargetSettings) error
	DeleteTarget(ctx context.Context, name string) error
	EnableTarget(ctx context.Context, name string, enabled bool) error
	RotateSecret(ctx context.Context, name string, r wire.PushRotate) error
	Secret(ctx context.Context, name string) (wire.PushSecret, error)
	TestTarget(ctx context.Context, name string) (wire.PushTest, error)
}

// withTargets hands the targets of the command's server to do. Only a server has the
// keys that seal secrets.
func (a *app) withTargets(ctx context.Context, do func(t pusher) error) error {
	return a.with(ctx, func(s *session) error {
		var targets pusher
		switch e := s.Contract.(type) {
		case pusher:
			targets = e
		case interface{ HTTPPush() *httpengine.Push }:
			targets = e.HTTPPush()
		}
		if targets != nil {
			return adviseOn(duly.CodeNotFound, do(targets), "see which there are: %s target list", a.program())
		}
		return advise(notOffered("targets"), "only a server seals their secrets: give its address with --url")
	})
}

func targetListCommand(a *app) *cobra.Command {
	cmd := a.command("list", "List targets",
		`By name, each with the gate of its host in the server that answers: how many requests it admits at once, and how many
jobs wait for their turn. Secrets and the values of headers are not shown.`,
		`  duly target list
  duly target list --json | jq -r 'select(.enabled | not) | .name'`,
		func(ctx context.Context, p *printer, _ []string) error {
			return a.withTargets(ctx, func(targets pusher) error {
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
					if page.Cursor = next; next == "" {
						t.flush()
						return p.flush()
					}
				}
			})
		})
	cmd.Args = noArgs
	return cmd
}

func (t *table) addTarget(target *wire.Target) {
	state, limit, held := "enabled", "", ""
	if h := target.Host; h != nil {
		limit, held = strconv.Itoa(h.Limit), strconv.Itoa(h.HeldBack)
		if !h.Open {
			state = "closed"
		}
	}
	if target.Settings.Disabled {
		state = "disabled"
	}
	t.add(txt(target.Name), txt(target.Settings.URL), txt(state), txt(limit), txt(held), txt(t.p.secretText(target)))
}

func targetSetCommand(a *app) *cobra.Command {
	var s wire.TargetSettings
	var ca, secret string
	cmd := a.command("set NAME URL", "Make a target, or replace its settings",
		`Jobs and queues name it as target:NAME. What is not given has its default, except the secret, which stays. Headers are
sealed: no command shows their values again. Every server goes by the new settings within two seconds, for old jobs
too.`,
		`  duly target set crm https://crm.example/hook
  duly target set crm https://crm.example/hook --header x-key=7 --concurrency 20 --rate 50
  duly target set old https://old.example/ --success 409 --permanent 404 --timeout 30s
  pass show crm | duly target set crm https://crm.example/hook --secret-file -`,
		func(ctx context.Context, p *printer, args []string) (err error) {
			s.URL = args[1]
			if s.CA, err = a.textOf(ca); err != nil {
				return err
			}
			if s.Secret, err = a.secretOf(secret); err != nil {
				return err
			}
			return a.withTargets(ctx, func(targets pusher) error {
				if err := targets.SetTarget(ctx, args[0], s); err != nil {
					return err
				}
				return p.target(ctx, targets, args[0])
			})
		})
	cmd.Args = wants("NAME", "URL")
	cmd.ValidArgsFunction = noCompletion
	f := cmd.Flags()
	f.StringVar(&s.Method, "method", "", "`method` of the requests: POST, PUT or PATCH (default POST)")
	f.Var(headersFlag{&s.Headers}, "header", "a header of each request, sealed; may be repeated")
	f.Var(durationFlag{to: &s.Timeout, least: time.Second, most: 10 * time.Minute}, "timeout", "how long a try may take (default 10s)")
	f.IntSliceVar(&s.Success, "success", nil, "`statuses` besides 2xx that are a success, with commas")
	f.IntSliceVar(&s.Permanent, "permanent", nil, "`statuses` after which a job is dead, with commas")
	countVar(f, &s.Concurrency, "concurrency", "requests in flight of each server (default 64)")
	f.Var(rateFlag{&s.Rate.PerSecond}, "rate", "requests per second of each server (default none)")
	countVar(f, &s.Rate.Burst, "burst", "requests that may come at once after a pause")
	f.StringSliceVar(&s.Sign, "sign", nil, "`signatures`: v1, v1a, or both with a comma (default v1)")
	f.StringVar(&ca, "ca", "", "`file` with more authorities for the receiver's certificate, in PEM")
	f.BoolVar(&s.Disabled, "disabled", false, "send nothing to it yet")
	secretFlag(cmd, &secret)
	fixed(cmd, "method", "POST", "PUT", "PATCH")
	fixed(cmd, "sign", "v1", "v1a", "v1,v1a")
	return cmd
}

// secretFlag is the flag for the file of a secret. On the command line itself, other
// users of the machine would see it.
func secretFlag(cmd *cobra.Command, to *string) {
	cmd.Flags().StringVar(to, "secret-file", "", "`file` with the secret, whsec_… or whsk_…, or - for standard input (default: the secret stays, or a random one)")
}

// mostText bounds a file that a flag names.
const mostText = 64 << 10

// textOf returns the text of a file, or of standard input for "-"; "" for no file.
func (a *app) textOf(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	from := a.env.Stdin
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return "", misusef("%s", err)
		}
		defer f.Close()
		from = f
	}
	text, err := io.ReadAll(io.LimitReader(from, mostText+1))
	if err == nil && len(text) > mostText {
		err = misusef("%s has more than %d bytes", path, mostText)
	}
	return string(text), err
}

// secretOf is textOf for a secret. No message repeats it.
func (a *app) secretOf(path string) (string, error) {
	text, err := a.textOf(path)
	text = strings.TrimSpace(text)
	if err == nil && path != "" && text == "" {
		err = misusef("--secret-file has no secret")
	}
	if text != "" {
		a.hide(text)
	}
	return text, err
}

// target prints one target.
func (p *printer) target(ctx context.Context, targets pusher, name string) error {
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

// secretText says whose secret signs for a target.
func (p *printer) secretText(target *wire.Target) string {
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
	cmd := a.command("test NAME", "Let the server send a test request",
		`The server sends a signed duly.test to the target, also while it is disabled, and prints the answer. No job is touched.`,
		`  duly target test crm`,
		func(ctx context.Context, p *printer, args []string) error {
			return a.withTargets(ctx, func(targets pusher) error {
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
				p.printf("%s in %s: a job would end in %s\n", status, took, test.As)
				if test.Error != "" {
					p.printf("%s\n", test.Error)
				}
				return nil
			})
		})
	cmd.Args = wants("NAME")
	cmd.ValidArgsFunction = noCompletion
	return cmd
}

func targetRotateCommand(a *app) *cobra.Command {
	var overlap, secret string
	cmd := a.command("rotate [NAME]", "Give a target, or the namespace, a new secret",
		`The old secret signs too until the overlap is over, so that receivers have time to learn the new one. Without a name it
is the secret of the namespace, which signs for URLs and for targets without a secret of their own. A repeat is another
rotation.`,
		`  duly target rotate crm
  duly target rotate crm --overlap 7d
  duly target rotate --overlap now`,
		func(ctx context.Context, p *printer, args []string) (err error) {
			r, err := rotation(overlap)
			if err != nil {
				return err
			}
			if r.Secret, err = a.secretOf(secret); err != nil {
				return err
			}
			return a.withTargets(ctx, func(targets pusher) error {
				name := strings.Join(args, "")
				if err := targets.RotateSecret(ctx, name, r); err != nil {
					return err
				}
				a.remark("the secret was rotated; see it: " + strings.TrimSpace(a.program()+" target secret "+shellQuote(name)))
				return nil
			})
		})
	cmd.Args = wants("[NAME]")
	cmd.ValidArgsFunction = noCompletion
	cmd.Flags().StringVar(&overlap, "overlap", "", "for how long the old secret signs too, up to 30d; now ends it at once (default 24h)")
	secretFlag(cmd, &secret)
	return cmd
}

// rotation is the request of a rotation with that overlap; "" is the default.
func rotation(overlap string) (r wire.PushRotate, err error) {
	var d time.Duration
	switch overlap {
	case "":
		return r, nil
	case "now":
	default:
		if d, err = duly.ParseDuration(overlap); err != nil {
			return r, misusef("--overlap is a time such as 24h or 7d, or now")
		}
	}
	r.Overlap = &d
	return r, nil
}

func targetSecretCommand(a *app) *cobra.Command {
	var all bool
	cmd := a.command("secret [NAME]", "Show the secret of a target, or of the namespace",
		`Prints the newest one, for the receiver to verify signatures with. --all also prints the keys of v1a signatures, of
which the receiver needs the public one (whpk_…) alone. The server logs each use.`,
		`  duly target secret crm
  duly target secret --all`,
		func(ctx context.Context, p *printer, args []string) error {
			return a.withTargets(ctx, func(targets pusher) error {
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
	cmd.Args = wants("[NAME]")
	cmd.ValidArgsFunction = noCompletion
	cmd.Flags().BoolVar(&all, "all", false, "print the keys of v1a signatures too")
	return cmd
}

func targetEnableCommand(a *app, enabled bool) *cobra.Command {
	use, short, done := "disable", "Send nothing to targets; their jobs wait", "disabled target"
	long := `Jobs of a disabled target wait, use no try and are not lost; their TTL goes on. May be repeated.`
	if enabled {
		use, short, done = "enable", "Send to targets again", "enabled target"
		long = `Sending begins slowly, and jobs that waited are sent within five minutes. May be repeated.`
	}
	cmd := a.command(use+" NAME…", short, long, "  duly target "+use+" crm",
		func(ctx context.Context, p *printer, args []string) error {
			return a.withTargets(ctx, func(targets pusher) error {
				return a.each(ctx, p, args, done, func(name string) error { return targets.EnableTarget(ctx, name, enabled) })
			})
		})
	cmd.Args = wants("NAME…")
	cmd.ValidArgsFunction = noCompletion
	return cmd
}

func targetDeleteCommand(a *app) *cobra.Command {
	cmd := a.command("delete NAME…", "Delete targets",
		`Jobs that name a deleted target wait, as those of a disabled one do, until there is a target of that name again.`,
		`  duly target delete crm`,
		func(ctx context.Context, p *printer, args []string) error {
			return a.withTargets(ctx, func(targets pusher) error {
				return a.each(ctx, p, args, "deleted target", func(name string) error { return targets.DeleteTarget(ctx, name) })
			})
		})
	cmd.Args = wants("NAME…")
	cmd.ValidArgsFunction = noCompletion
	return cmd
}
