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
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/lmstfyimport"
	"github.com/dulymq/duly/open"
	"github.com/dulymq/duly/server/lmstfy"
)

func importCommand(a *app) *cobra.Command {
	return a.group("import", "Import tokens and jobs of another job queue", importLmstfyCommand(a))
}

// importFlags are the flags of `duly import lmstfy`.
type importFlags struct {
	from, adminFrom string
	poolName, pool  string
	namespaces      []string
	noTokens        bool
	journal         string
	dryRun          bool
}

func importLmstfyCommand(a *app) *cobra.Command {
	f := importFlags{poolName: contract.DefaultPool, journal: "duly-import.journal"}
	cmd := a.command("lmstfy --from URL", "Import the tokens, limits and waiting jobs of lmstfy",
		`Reads lmstfy's Redis and never writes to it. It imports tokens with their descriptions and limits, and ready,
delayed and dead jobs with their IDs, bodies, attributes and remaining tries, delay and ttl. A job that a consumer
holds is due when its ttr ends, so stop lmstfy's consumers before the import, and start duly's workers after it.

The command can be repeated, also after it was interrupted. Existing tokens and jobs stay unchanged. A job in the
journal is not imported again, even if it is finished.`,
		`  duly import lmstfy --from redis://127.0.0.1:6379/0 --dry-run
  duly import lmstfy --from redis://:password@10.0.0.9:6379/0 --admin-from redis://:password@10.0.0.9:6379/1
  duly import lmstfy --from redis://10.0.0.9:6379/3 --pool-name orders --pool orders --namespaces shop,billing`,
		func(ctx context.Context, p *printer, _ []string) error { return a.importLmstfy(ctx, p, &f) })
	cmd.Args = noArgs

	flags := cmd.Flags()
	flags.StringVar(&f.from, "from", "",
		"`URL` of lmstfy's Redis: redis://, rediss:// or redis+unix://, with ?master_set=NAME behind Sentinel")
	flags.StringVar(&f.adminFrom, "admin-from", "", "`URL` of the Redis with lmstfy's tokens (default: that of --from)")
	flags.StringVar(&f.poolName, "pool-name", f.poolName, "lmstfy's `name` for the pool of this Redis")
	flags.StringVar(&f.pool, "pool", "", "`name` of the server's pool for the namespaces")
	flags.StringSliceVar(&f.namespaces, "namespaces", nil, "`namespaces` to import (default: all)")
	flags.BoolVar(&f.noTokens, "no-tokens", false, "import only jobs")
	flags.StringVar(&f.journal, "journal", f.journal, "`file` with the imported jobs; none: no file")
	flags.BoolVar(&f.dryRun, "dry-run", false, "count without importing")
	return cmd
}

func (a *app) importLmstfy(ctx context.Context, p *printer, f *importFlags) error {
	if f.from == "" {
		return usageErrorf("lmstfy's Redis is missing; give --from redis://HOST:6379/0")
	}
	// Errors of the client contain the URLs.
	for _, text := range []string{f.from, f.adminFrom} {
		if u, err := url.Parse(text); err == nil && u.User != nil {
			if password, ok := u.User.Password(); ok {
				a.hide(password)
			}
		}
	}

	// An import is long, and its user should know what may be lost.
	a.warnings = warnAlways
	source, err := lmstfyimport.Open(ctx, f.from)
	if err != nil {
		return withSourceHint(err, "--from", f.from)
	}
	defer source.Close()

	// lmstfy keeps tokens in a Redis of its own, or in the same one.
	tokens := source
	if f.adminFrom != "" {
		if tokens, err = lmstfyimport.Open(ctx, f.adminFrom); err != nil {
			return withSourceHint(err, "--admin-from", f.adminFrom)
		}
		defer tokens.Close()
	}

	return a.withNewAdmin(ctx, func(admin Admin, at endpoint) error {
		return a.importInto(ctx, p, f, source, tokens, admin, at)
	})
}

func (a *app) importInto(
	ctx context.Context, p *printer, f *importFlags, source, tokens *lmstfyimport.Source, admin Admin, at endpoint,
) error {
	bar := a.newProgress("import", 0)
	targets := importTargets{a: a, at: at, open: map[string]contract.Engine{}}
	// One file or Redis serves every namespace. A server has a URL for each.
	if local, ok := admin.(localAdmin); ok {
		targets.single = local.engine
	}
	defer targets.close()

	im := lmstfyimport.Importer{
		Source: source, Admin: tokens, Pool: f.poolName, Namespaces: f.namespaces, DryRun: f.dryRun,
		Hash: lmstfy.GivenHash, Target: targets.get,
		AddToken: func(ctx context.Context, t contract.Token) error { return admin.AdoptToken(ctx, f.pool, t) },
		Progress: func(done, total int64) { bar.set(done, total, 0) },
	}
	if f.pool != "" {
		im.Place = func(ctx context.Context, namespace string) error {
			return admin.Place(ctx, namespace, f.pool)
		}
	}

	// If Admin is nil, the importer reads no tokens.
	if f.noTokens {
		im.Admin = nil
	}
	// The journal names both stores, so it cannot be used for another import.
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
	// An import of nothing is most likely a wrong URL.
	empty := err == nil && report.Empty()
	if empty {
		err = emptySourceError(f)
	}

	// The JSON is printed even for an empty source, because a script expects one JSON value.
	if p.json || !empty {
		p.imported(&report, f.dryRun)
	}
	return err
}

// withSourceHint adds a hint to an error of lmstfy's Redis.
func withSourceHint(err error, flag, url string) error {
	err = withHintFor(duly.CodeUnavailable, err, "check %s %s", flag, open.Redact(url))
	return withHintFor(duly.CodeUnauthorized, err, "check user and password in %s", flag)
}

// emptySourceError returns the error of an import that found nothing of lmstfy. Probably
// its flags name another database or pool.
func emptySourceError(f *importFlags) error {
	missing := "no namespace (key m/ns) and no waiting job (timer_set)"
	check := "the number of the database in --from"
	if len(f.namespaces) > 0 {
		missing = "none of the namespaces " + strings.Join(f.namespaces, ", ") + " (key m/ns)"
		check += ", the names in --namespaces"
	}
	if !f.noTokens {
		missing += fmt.Sprintf(", and no token of its pool %s (tk/%s/…)", f.poolName, f.poolName)
		check += ", lmstfy's name for the pool (--pool-name), and the Redis of its tokens (--admin-from)"
	}
	err := contract.Errorf(duly.CodeNotFound, "%s has no data of lmstfy: %s", open.Redact(f.from), missing)
	return withHint(err, "check %s", check)
}

// importTargets are the engines for the namespaces of an import: a single open engine, or
// an engine per namespace of a server.
type importTargets struct {
	a      *app
	at     endpoint
	single contract.Engine
	open   map[string]contract.Engine
}

func (t *importTargets) get(ctx context.Context, namespace string) (contract.Engine, error) {
	// Connections stay open, because an import changes between namespaces.
	if t.single != nil {
		return t.single, nil
	}
	if e := t.open[namespace]; e != nil {
		return e, nil
	}

	u, err := url.Parse(t.at.url)
	if err != nil {
		return nil, usageErrorf("%s is not a URL", open.Redact(t.at.url))
	}

	// An engine of a server accepts only the namespace of its URL.
	u.Path = "/" + namespace
	secure, err := t.a.tlsConfig(t.at.certFile)
	if err != nil {
		return nil, err
	}
	e, err := t.a.env.Open(ctx, u.String(), open.TLS(secure))
	if err != nil {
		return nil, t.a.withConnectHint(err, t.at)
	}
	t.open[namespace] = e
	return e, nil
}

func (t *importTargets) close() {
	for _, e := range t.open {
		e.Close()
	}
}

// imported prints the report of an import.
func (p *printer) imported(r *lmstfyimport.Report, dry bool) {
	if p.json {
		_ = p.value(r)
		return
	}
	done := "imported"
	if dry {
		done = "would import"
	}
	p.printf("%s %s and %s from %s, %s\n", done,
		plural(r.Ready+r.Delayed+r.Dead, "job"), plural(int64(r.Tokens), "token"),
		plural(int64(r.Namespaces), "namespace"), plural(int64(r.Queues), "queue"))

	n := func(n int64) cell { return txt(countText(n)) }
	p.pairs(
		txt("  ready"), n(r.Ready),
		txt("  delayed"), n(r.Delayed),
		txt("  dead"), n(r.Dead),
		txt("  existing"), n(r.Known),
		txt("  acked or expired"), n(r.Gone),
		txt("  existing tokens"), n(int64(r.KnownTokens)),
		txt("  tokens with limits"), n(int64(r.Limited)),
	)
	if len(r.Left) == 0 {
		return
	}
	p.printf("\nNot imported:\n")

	// Sorted, because the order of a map changes from run to run.
	for _, reason := range slices.Sorted(maps.Keys(r.Left)) {
		p.printf("  %s: %s\n", countText(r.Left[reason]), oneLine(reason))
	}
	p.printf("\nExamples:\n")
	for _, example := range r.Examples {
		p.printf("  %s\n", oneLine(example))
	}
}
