package cli

import (
	"context"
	"io"
	"net/url"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/open"
	"github.com/dulymq/duly/server/auth"
)

// Admin is what only the owner of the storage can do: of a server behind its
// admin address, of a file in this process.
type Admin interface {
	// Check is that of [duly.Maintainer].
	Check(ctx context.Context, p duly.CheckParams) (duly.CheckReport, error)
	// BackupOf is that of [duly.Backuper], of one of a server's pools, "" for
	// the default one.
	BackupOf(ctx context.Context, pool string, w io.Writer) error
	// CreateTokenIn makes a token with the namespace, rights, description and
	// limits of t and tells its secret, this once. The namespace is to be in the
	// pool, "" for wherever it is.
	CreateTokenIn(ctx context.Context, pool string, t duly.Token) (secret string, err error)
	// AdoptToken stores a token by its hash, as CreateTokenIn does;
	// [duly.ErrConflict] if it is there.
	AdoptToken(ctx context.Context, pool string, t duly.Token) error
	// Tokens is that of [duly.Registry].
	Tokens(ctx context.Context, namespace string, p duly.PageParams) (duly.TokenPage, error)
	// LimitToken is that of [duly.Limiter].
	LimitToken(ctx context.Context, hash [32]byte, l duly.Limits) error
	// DeleteToken is that of [duly.Registry]; [duly.ErrConflict] for the last
	// token that may make others.
	DeleteToken(ctx context.Context, hash [32]byte) error
	// Pools lists a server's pools.
	Pools(ctx context.Context) ([]duly.PoolState, error)
	// Place says which pool a namespace is in, if nobody has;
	// [duly.ErrConflict] for one that is in another.
	Place(ctx context.Context, namespace, pool string) error
	// Moves lists the namespaces that move, or where one of them is.
	Moves(ctx context.Context, namespace string) ([]duly.MoveState, error)
	// Move begins the move of a namespace to another pool.
	Move(ctx context.Context, namespace, to string) (duly.MoveState, error)
	// Namespaces is that of [duly.Registry].
	Namespaces(ctx context.Context, p duly.PageParams) (duly.NamePage, error)
}

// withAdmin hands the admin side of the command's engine to do.
func (a *app) withAdmin(ctx context.Context, do func(admin Admin, at place) error) error {
	return a.withinAdmin(ctx, false, do)
}

// withNewAdmin is withAdmin for what a storage may begin with.
func (a *app) withNewAdmin(ctx context.Context, do func(admin Admin, at place) error) error {
	return a.withinAdmin(ctx, true, do)
}

func (a *app) withinAdmin(ctx context.Context, mayMake bool, do func(admin Admin, at place) error) error {
	at, err := a.find()
	if err != nil {
		return err
	}
	if !remote(at.url) {
		return a.within(ctx, mayMake, func(s *session) error { return do(a.owner(s.Contract), at) })
	}
	if at.adminURL == "" {
		return misusef("this needs the server's admin address: give --admin-url or DULY_ADMIN_URL")
	}
	token := at.token
	if u, err := url.Parse(at.adminURL); err == nil && u.User != nil {
		token = u.User.Username()
		a.hide(token)
	}
	secure, err := a.trust(at.adminLeft)
	if err != nil {
		return err
	}
	admin, err := a.env.OpenAdmin(ctx, at.adminURL, token, secure)
	if err != nil {
		return err
	}
	err = a.unreachable(do(admin, at), place{url: at.adminURL})
	return adviseOn(duly.CodeNotFound, err, "check that %s is the server's admin address", open.Redact(at.adminURL))
}

// owner is the admin side of an engine that is open in this process. What the
// engine does not offer is nil.
type owner struct {
	engine     duly.Contract
	maintainer duly.Maintainer
	backuper   duly.Backuper
	registry   duly.Registry
	clock      clock.Clock
}

func (a *app) owner(engine duly.Contract) Admin {
	o := owner{engine: engine, clock: a.env.Clock}
	o.maintainer, _ = engine.(duly.Maintainer)
	o.backuper, _ = engine.(duly.Backuper)
	o.registry, _ = engine.(duly.Registry)
	return o
}

func notOffered(what string) error {
	return duly.Errorf(duly.CodeUnsupported, "this engine offers no %s", what)
}

// Check implements Admin.
func (o owner) Check(ctx context.Context, p duly.CheckParams) (duly.CheckReport, error) {
	if o.maintainer == nil {
		return duly.CheckReport{}, notOffered("check")
	}
	return o.maintainer.Check(ctx, p)
}

// noPools is the error for a pool's name where there is no server.
func noPools(pool string) error {
	if pool == "" {
		return nil
	}
	return advise(notOffered("pools"), "only a server has pools: give its address with --url and --admin-url")
}

// BackupOf implements Admin.
func (o owner) BackupOf(ctx context.Context, pool string, w io.Writer) error {
	if err := noPools(pool); err != nil {
		return err
	}
	if o.backuper == nil {
		return advise(notOffered("backup"), "copy what its server keeps: for Redis the files of RDB and AOF")
	}
	return o.backuper.Backup(ctx, w)
}

// CreateTokenIn implements Admin.
func (o owner) CreateTokenIn(ctx context.Context, pool string, t duly.Token) (secret string, err error) {
	if err := noPools(pool); err != nil {
		return "", err
	}
	if o.registry == nil {
		return "", notOffered("tokens")
	}
	secret, _, err = o.guard().Create(ctx, t)
	return secret, err
}

// AdoptToken implements Admin.
func (o owner) AdoptToken(ctx context.Context, pool string, t duly.Token) error {
	if err := noPools(pool); err != nil {
		return err
	}
	if o.registry == nil {
		return notOffered("tokens")
	}
	return o.guard().CreateAs(ctx, t)
}

// Tokens implements Admin.
func (o owner) Tokens(ctx context.Context, namespace string, p duly.PageParams) (duly.TokenPage, error) {
	if o.registry == nil {
		return duly.TokenPage{}, notOffered("tokens")
	}
	return o.registry.Tokens(ctx, namespace, p)
}

// LimitToken implements Admin.
func (o owner) LimitToken(ctx context.Context, hash [32]byte, l duly.Limits) error {
	if o.registry == nil {
		return notOffered("tokens")
	}
	return o.guard().Limit(ctx, hash, l)
}

// DeleteToken implements Admin.
func (o owner) DeleteToken(ctx context.Context, hash [32]byte) error {
	if o.registry == nil {
		return notOffered("tokens")
	}
	return o.guard().Revoke(ctx, hash)
}

// guard makes and revokes tokens as a server does.
func (o owner) guard() *auth.Guard {
	limiter, _ := o.registry.(duly.Limiter)
	return auth.NewGuard(auth.Config{Registry: o.registry, Limiter: limiter, Clock: o.clock})
}

// Namespaces implements Admin.
func (o owner) Namespaces(ctx context.Context, p duly.PageParams) (duly.NamePage, error) {
	if o.registry == nil {
		return duly.NamePage{}, notOffered("list of namespaces")
	}
	return o.registry.Namespaces(ctx, p)
}

// Pools implements Admin.
func (o owner) Pools(context.Context) ([]duly.PoolState, error) { return nil, noPools("any") }

// Place implements Admin.
func (o owner) Place(_ context.Context, _, pool string) error { return noPools(pool) }

// Moves implements Admin.
func (o owner) Moves(context.Context, string) ([]duly.MoveState, error) { return nil, noPools("any") }

// Move implements Admin.
func (o owner) Move(context.Context, string, string) (none duly.MoveState, err error) {
	return none, noPools("any")
}
