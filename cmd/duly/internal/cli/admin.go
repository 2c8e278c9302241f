package cli

import (
	"context"
	"io"
	"net/url"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/open"
	"github.com/dulymq/duly/server/auth"
)

// Admin has the operations of an engine's owner: at a server's admin address, or on a
// file in this process.
type Admin interface {
	// Check is like the method of [contract.Maintainer].
	Check(ctx context.Context, p contract.CheckParams) (contract.CheckReport, error)
	// BackupOf is like Backup of [contract.Backuper], for one of a server's pools. "" is the
	// default pool.
	BackupOf(ctx context.Context, pool string, w io.Writer) error
	// CreateTokenIn creates a token with the namespace, rights, description and limits of
	// t, and returns its secret, which nothing returns again. It assigns the namespace to
	// the pool. "" leaves the namespace where it is.
	CreateTokenIn(ctx context.Context, pool string, t contract.Token) (secret string, err error)
	// AdoptToken stores a token by its hash, like CreateTokenIn. It returns
	// [duly.ErrConflict] if the token exists.
	AdoptToken(ctx context.Context, pool string, t contract.Token) error
	// Tokens is like the method of [contract.Registry].
	Tokens(ctx context.Context, namespace string, p duly.PageParams) (contract.TokenPage, error)
	// LimitToken is like the method of [contract.Limiter].
	LimitToken(ctx context.Context, hash [32]byte, l contract.Limits) error
	// DeleteToken is like the method of [contract.Registry]. It returns [duly.ErrConflict] for the
	// last token that can create others.
	DeleteToken(ctx context.Context, hash [32]byte) error
	// Pools lists a server's pools.
	Pools(ctx context.Context) ([]contract.PoolState, error)
	// Place assigns a namespace to a pool if it has none. It returns [duly.ErrConflict] if
	// the namespace is in another pool.
	Place(ctx context.Context, namespace, pool string) error
	// Moves lists the namespaces that move, or the pool of one namespace.
	Moves(ctx context.Context, namespace string) ([]contract.MoveState, error)
	// Move starts the move of a namespace to another pool.
	Move(ctx context.Context, namespace, to string) (contract.MoveState, error)
	// Namespaces is like the method of [contract.Registry].
	Namespaces(ctx context.Context, p duly.PageParams) (duly.NamePage, error)
}

// withAdmin opens the admin side of the command's engine and calls do.
func (a *app) withAdmin(ctx context.Context, do func(admin Admin, at endpoint) error) error {
	return a.withAdminSession(ctx, false, do)
}

// withNewAdmin is like withAdmin. It also creates the file of the engine if the file does not
// exist.
func (a *app) withNewAdmin(ctx context.Context, do func(admin Admin, at endpoint) error) error {
	return a.withAdminSession(ctx, true, do)
}

func (a *app) withAdminSession(ctx context.Context, create bool, do func(admin Admin, at endpoint) error) error {
	at, err := a.findEndpoint()
	if err != nil {
		return err
	}

	// A remote engine has its admin operations at an address of its own, which its URL does not contain.
	if !isRemote(at.url) {
		return a.withSession(ctx, create, func(s *session) error { return do(a.newLocalAdmin(s.Engine), at) })
	}
	if at.adminURL == "" {
		return usageErrorf("the server's admin address is missing; set --admin-url or DULY_ADMIN_URL")
	}

	// A token in the admin URL overrides that of the engine's URL.
	token := at.token
	if u, err := url.Parse(at.adminURL); err == nil && u.User != nil {
		token = u.User.Username()
		a.hide(token)
	}

	// The admin server has a certificate of its own, so the engine's TLS configuration does not fit.
	secure, err := a.tlsConfig(at.adminCertFile)
	if err != nil {
		return err
	}
	admin, err := a.env.OpenAdmin(ctx, at.adminURL, token, secure)
	if err != nil {
		return err
	}

	// The hint names the admin URL, because the engine's own URL may be right.
	err = a.withConnectHint(do(admin, at), endpoint{url: at.adminURL})
	return withHintFor(duly.CodeNotFound, err, "check that %s is the server's admin address", open.Redact(at.adminURL))
}

// localAdmin is the admin side of an engine in this process. A field is nil if the engine
// does not implement it.
type localAdmin struct {
	engine     contract.Engine
	maintainer contract.Maintainer
	backuper   contract.Backuper
	registry   contract.Registry
	clock      clock.Clock
}

func (a *app) newLocalAdmin(engine contract.Engine) Admin {
	l := localAdmin{engine: engine, clock: a.env.Clock}

	// An engine may lack some of these interfaces. The methods report a missing one as unsupported.
	l.maintainer, _ = engine.(contract.Maintainer)
	l.backuper, _ = engine.(contract.Backuper)
	l.registry, _ = engine.(contract.Registry)
	return l
}

func unsupported(what string) error {
	return contract.Errorf(duly.CodeUnsupported, "this engine offers no %s", what)
}

// Check implements Admin.
func (l localAdmin) Check(ctx context.Context, p contract.CheckParams) (contract.CheckReport, error) {
	if l.maintainer == nil {
		return contract.CheckReport{}, unsupported("check")
	}
	return l.maintainer.Check(ctx, p)
}

// poolsUnsupported returns the error for a pool of an engine without a server.
func poolsUnsupported(pool string) error {
	if pool == "" {
		return nil
	}
	return withHint(unsupported("pools"), "only a server has pools: set its addresses with --url and --admin-url")
}

// BackupOf implements Admin.
func (l localAdmin) BackupOf(ctx context.Context, pool string, w io.Writer) error {
	if err := poolsUnsupported(pool); err != nil {
		return err
	}
	if l.backuper == nil {
		return withHint(unsupported("backup"), "copy the files of its server: for Redis those of RDB and AOF")
	}
	return l.backuper.Backup(ctx, w)
}

// CreateTokenIn implements Admin.
func (l localAdmin) CreateTokenIn(ctx context.Context, pool string, t contract.Token) (secret string, err error) {
	if err := poolsUnsupported(pool); err != nil {
		return "", err
	}
	if l.registry == nil {
		return "", unsupported("tokens")
	}

	// The guard creates the token, so that a local token follows the same rules as a server's.
	secret, _, err = l.guard().Create(ctx, t)
	return secret, err
}

// AdoptToken implements Admin.
func (l localAdmin) AdoptToken(ctx context.Context, pool string, t contract.Token) error {
	if err := poolsUnsupported(pool); err != nil {
		return err
	}
	if l.registry == nil {
		return unsupported("tokens")
	}
	return l.guard().CreateAs(ctx, t)
}

// Tokens implements Admin.
func (l localAdmin) Tokens(ctx context.Context, namespace string, p duly.PageParams) (contract.TokenPage, error) {
	if l.registry == nil {
		return contract.TokenPage{}, unsupported("tokens")
	}
	return l.registry.Tokens(ctx, namespace, p)
}

// LimitToken implements Admin.
func (l localAdmin) LimitToken(ctx context.Context, hash [32]byte, limits contract.Limits) error {
	if l.registry == nil {
		return unsupported("tokens")
	}
	return l.guard().Limit(ctx, hash, limits)
}

// DeleteToken implements Admin.
func (l localAdmin) DeleteToken(ctx context.Context, hash [32]byte) error {
	if l.registry == nil {
		return unsupported("tokens")
	}
	return l.guard().Revoke(ctx, hash)
}

// guard returns a Guard, which creates and revokes tokens.
func (l localAdmin) guard() *auth.Guard {
	// A registry may keep no limits. The guard accepts nil and then refuses tokens with limits.
	limiter, _ := l.registry.(contract.Limiter)
	return auth.NewGuard(auth.Config{Registry: l.registry, Limiter: limiter, Clock: l.clock})
}

// Namespaces implements Admin.
func (l localAdmin) Namespaces(ctx context.Context, p duly.PageParams) (duly.NamePage, error) {
	if l.registry == nil {
		return duly.NamePage{}, unsupported("list of namespaces")
	}
	return l.registry.Namespaces(ctx, p)
}

// Pools implements Admin.
func (l localAdmin) Pools(context.Context) ([]contract.PoolState, error) {
	return nil, poolsUnsupported("any")
}

// Place implements Admin.
func (l localAdmin) Place(_ context.Context, _, pool string) error { return poolsUnsupported(pool) }

// Moves implements Admin.
func (l localAdmin) Moves(context.Context, string) ([]contract.MoveState, error) {
	return nil, poolsUnsupported("any")
}

// Move implements Admin.
func (l localAdmin) Move(context.Context, string, string) (none contract.MoveState, err error) {
	return none, poolsUnsupported("any")
}
