package cli

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/lmstfyimport"
	"github.com/dulymq/duly/open"
	"github.com/dulymq/duly/server/lmstfy"
)

func importCommand(a *app) *cobra.Command {
	return a.group("import", "Bring over what another job queue holds", importLmstfyCommand(a))
}

// importFlags are those of `duly import lmstfy`.
type importFlags struct {
	from, adminFrom string
	poolName, pool  string
	namespaces      []string
	noTokens        bool
	journal         string
	dryRun          bool
}

func importLmstfyCommand(a *app) *cobra.Command {
	f := importFlags{poolName: duly.DefaultPool, journal: "duly-import.journal"}
	cmd := a.command("lmstfy --from URL", "Bring over lmstfy's tokens, limits and waiting jobs",
		`Reads the Redis of a lmstfy, and never writes to it: tokens with their texts and limits, and jobs that are ready,
delayed or dead, with their IDs, what is left of tries, delay and ttl, bodies and attributes. A job in a consumer's
hands is brought over as due when its ttr is over, so stop lmstfy's consumers before, and start duly's behind it.

It may be run again, also after it was interrupted: what is there is left as it is, and what the journal names is not
brought over twice, although it may be finished by now.`,
		`  duly import lmstfy --from redis://127.0.0.1:6379/0 --dry-run
  duly import lmstfy --from redis://:password@10.0.0.9:6379/0 --admin-from redis://:password@10.0.0.9:6379/1
  duly import lmstfy --from redis://10.0.0.9:6379/3 --pool-name orders --pool orders --namespaces shop,billing`,
		func(ctx context.Context, p *printer, _ []string) error { return a.importLmstfy(ctx, p, &f) })
	cmd.Args = noArgs
	flags := cmd.Flags()
	flags.StringVar(&f.from, "from", "", "`URL` of lmstfy's Redis: redis://, rediss:// or redis+unix://, with ?master_set=NAME behind Sentinel")
	flags.StringVar(&f.adminFrom, "admin-from", "", "`URL` of the Redis with its tokens (default: that of --from)")
	flags.StringVar(&f.poolName, "pool-name", f.poolName, "lmstfy's `name` for this Redis among its pools")
	flags.StringVar(&f.pool, "pool", "", "`name` of the server's pool that the namespaces are to be in")
	flags.StringSliceVar(&f.namespaces, "namespaces", nil, "`namespaces` to bring over (default: all of them)")
	flags.BoolVar(&f.noTokens, "no-tokens", false, "bring over jobs alone")
	flags.StringVar(&f.journal, "journal", f.journal, "`file` that notes what was brought over; none: no file")
	flags.BoolVar(&f.dryRun, "dry-run", false, "only count")
	return cmd
}

func (a *app) importLmstfy(ctx context.Context, p *printer, f *importFlags) error {
	if f.from == "" {
		return misusef("say where lmstfy's Redis is: --from redis://HOST:6379/0")
	}
	for _, text := range []string{f.from, f.adminFrom} {
		if u, err := url.Parse(text); err == nil && u.User != nil {
			if password, ok := u.User.Password(); ok {
				a.hide(password)
			}
		}
	}
	a.hears = hearAll
	source, err := lmstfyimport.Open(ctx, f.from)
	if err != nil {
		return sourceAdvice(err, "--from", f.from)
	}
	defer source.Close()
	tokens := source
	if f.adminFrom != "" {
		if tokens, err = lmstfyimport.Open(ctx, f.adminFrom); err != nil {
			return sourceAdvice(err, "--admin-from", f.adminFrom)
		}
		defer tokens.Close()
	}
	return a.withNewAdmin(ctx, func(admin Admin, at place) error {
		return a.importInto(ctx, p, f, source, tokens, admin, at)
	})
}

func (a *app) importInto(ctx context.Context, p *printer, f *importFlags, source, tokens *lmstfyimport.Source, admin Admin, at place) error {
	bar := a.newProgress("import", 0)
	targets := targets{a: a, at: at, open: map[string]duly.Contract{}}
	if o, ok := admin.(owner); ok {
		targets.only = o.engine
	}
	defer targets.close()
	im := lmstfyimport.Importer{
		Source: source, Admin: tokens, Pool: f.poolName, Namespaces: f.namespaces, DryRun: f.dryRun, Hash: lmstfy.GivenHash, Target: targets.get,
		AddToken: func(ctx context.Context, t duly.Token) error { return admin.AdoptToken(ctx, f.pool, t) },
		Progress: func(done, total int64) { bar.set(done, total, 0) },
	}
	if f.pool != "" {
		im.Place = func(ctx context.Context, namespace string) error { return admin.Place(ctx, namespace, f.pool) }
	}
	if f.noTokens {
		im.Admin = nil
	}
	if f.journal != "" && f.journal != "none" && !f.dryRun {
		journal, err := lmstfyimport.OpenJournal(f.journal, open.Redact(f.from)+" to "+open.Redact(at.url))
		if err != nil {
			return err
		}
		defer journal.Close()
		im.Journal = journal
	}
	report, err := im.Run(ctx)
	bar.end()
	empty := err == nil && report.Empty()
	if empty {
		err = nothingThere(f)
	}
	if p.json || !empty {
		p.imported(&report, f.dryRun)
	}
	return err
}

// sourceAdvice says what to do about lmstfy's Redis, not about a server of duly.
func sourceAdvice(err error, flag, url string) error {
	err = adviseOn(duly.CodeUnavailable, err, "check %s %s", flag, open.Redact(url))
	return adviseOn(duly.CodeUnauthorized, err, "check user and password in %s", flag)
}

// nothingThere is the error of an import that has found nothing of lmstfy's:
// more likely it has looked in the wrong place.
func nothingThere(f *importFlags) error {
	looked := "no namespace (key m/ns) and no waiting job (timer_set)"
	check := "the number of the database in --from"
	if len(f.namespaces) > 0 {
		looked = "none of the namespaces " + strings.Join(f.namespaces, ", ") + " (key m/ns)"
		check += ", the names in --namespaces"
	}
	if !f.noTokens {
		looked += fmt.Sprintf(", and no token of its pool %s (tk/%s/…)", f.poolName, f.poolName)
		check += ", lmstfy's name for the pool (--pool-name), and where its tokens are (--admin-from)"
	}
	return advise(duly.Errorf(duly.CodeNotFound, "%s has nothing of lmstfy's: %s", open.Redact(f.from), looked), "check %s", check)
}

// targets are the engines for the namespaces of an import: the one that is open,
// or a server's, one for each namespace.
type targets struct {
	a    *app
	at   place
	only duly.Contract
	open map[string]duly.Contract
}

func (t *targets) get(ctx context.Context, namespace string) (duly.Contract, error) {
	if t.only != nil {
		return t.only, nil
	}
	if e := t.open[namespace]; e != nil {
		return e, nil
	}
	u, err := url.Parse(t.at.url)
	if err != nil {
		return nil, misusef("%s is no URL", open.Redact(t.at.url))
	}
	u.Path = "/" + namespace
	secure, err := t.a.trust(t.at.left)
	if err != nil {
		return nil, err
	}
	e, err := t.a.env.Open(ctx, u.String(), open.TLS(secure))
	if err != nil {
		return nil, t.a.unreachable(err, t.at)
	}
	t.open[namespace] = e
	return e, nil
}

func (t *targets) close() {
	for _, e := range t.open {
		e.Close()
	}
}

// imported prints what an import has done.
func (p *printer) imported(r *lmstfyimport.Report, dry bool) {
	if p.json {
		_ = p.value(r)
		return
	}
	done := "brought over"
	if dry {
		done = "would bring over"
	}
	p.printf("%s %s and %s from %s, %s\n", done, plural(r.Ready+r.Delayed+r.Dead, "job"), plural(int64(r.Tokens), "token"),
		plural(int64(r.Namespaces), "namespace"), plural(int64(r.Queues), "queue"))
	n := func(n int64) cell { return txt(countText(n)) }
	p.pairs(
		txt("  ready"), n(r.Ready), txt("  delayed"), n(r.Delayed), txt("  dead"), n(r.Dead), txt("  there before"), n(r.Known),
		txt("  acked or expired"), n(r.Gone), txt("  tokens there before"), n(int64(r.KnownTokens)), txt("  tokens with limits"), n(int64(r.Limited)),
	)
	if len(r.Left) == 0 {
		return
	}
	p.printf("\nNot taken:\n")
	for _, why := range slices.Sorted(maps.Keys(r.Left)) {
		p.printf("  %s: %s\n", countText(r.Left[why]), oneLine(why))
	}
	p.printf("\nFor instance:\n")
	for _, example := range r.Examples {
		p.printf("  %s\n", oneLine(example))
	}
}
