package httpengine

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/wire"
)

// AdminConfig configures an [Admin]. Only URL must be set.
type AdminConfig struct {
	// URL is http(s)://TOKEN@HOST. The token has the right admin for all namespaces.
	URL string `json:"-"`
	// Token is used if the URL has no token.
	Token string `json:"-"`
	// TLS and Client are like the fields of [Config].
	TLS    *tls.Config `json:"-"`
	Client *http.Client
	// Timeout is like the field of [Config]. It does not limit the duration of the answers of Check
	// and Backup. Default 30 s.
	Timeout time.Duration
}

// String returns the configuration without its token.
func (c AdminConfig) String() string {
	a, err := parseAddress(c.URL, c.Token, adminForm)
	if err != nil {
		// A URL that cannot be parsed may still contain a token, so it is not printed.
		return "httpengine.AdminConfig with a bad URL"
	}
	return a.String()
}

// GoString returns the result of String, for %#v.
func (c AdminConfig) GoString() string { return c.String() }

// Admin has the operations of an operator on a whole server. It is safe for concurrent use.
type Admin struct{ link *link }

// OpenAdmin returns the Admin of a server. It sends nothing. It returns [duly.ErrInvalid] for an
// invalid URL.
func OpenAdmin(_ context.Context, cfg AdminConfig) (*Admin, error) {
	common := Config{Timeout: cfg.Timeout}.withDefaults()
	if err := common.validate(); err != nil {
		return nil, err
	}
	a, err := parseAddress(cfg.URL, cfg.Token, adminForm)
	if err != nil {
		return nil, err
	}
	return &Admin{newLink(a, cfg.TLS, cfg.Client, common.Timeout)}, nil
}

// String returns the server's address without the token.
func (a *Admin) String() string { return a.link.String() }

// GoString returns the result of String, for %#v.
func (a *Admin) GoString() string { return a.String() }

// Close closes the connections. Close may be called repeatedly.
func (a *Admin) Close() error {
	a.link.close()
	return nil
}

// maxLine bounds a line of a check's answer, in bytes. The last line has every fault.
const maxLine = 256 << 20

// Check implements the method of [contract.Maintainer] on the server's engine. It is safe to repeat.
func (a *Admin) Check(ctx context.Context, p contract.CheckParams) (report contract.CheckReport, err error) {
	r := request{method: "POST", path: "/admin/check", body: wire.CheckForm.Append(nil, p.Repair), stream: true}
	err = a.link.exchange(ctx, r, func(resp *http.Response, body io.Reader) error {
		if !isType(resp, "application/x-ndjson") {
			return a.link.unexpected(resp)
		}
		report, err = a.link.readCheck(body, p.Progress)
		return err
	})
	return report, err
}

// readCheck reads lines until the line with the report.
func (l *link) readCheck(body io.Reader, progress func(done, total int64)) (none contract.CheckReport, err error) {
	lines := bufio.NewScanner(body)
	// The default bound would refuse a last line with many faults.
	lines.Buffer(nil, maxLine)
	// A line that breaks off must not be parsed as if it were complete.
	lines.Split(wholeLines)

	for lines.Scan() {
		if len(lines.Bytes()) == 0 {
			continue
		}
		line, err := wire.CheckLineForm.ReadAnswer(lines.Text())
		switch {
		case err != nil:
			return none, l.malformed("has a line that is not part of a check report")
		case line.Err != nil:
			return none, line.Err
		case line.Report != nil:
			return *line.Report, nil
		case progress != nil:
			progress(line.Done, line.Total)
		}
	}

	// A whole answer ends with a report or an error.
	if lines.Err() == nil {
		return none, &brokenAnswer{io.ErrUnexpectedEOF}
	}
	return none, &brokenAnswer{lines.Err()}
}

// wholeLines is like bufio.ScanLines but without an incomplete last line.
func wholeLines(data []byte, _ bool) (advance int, line []byte, err error) {
	return bufio.ScanLines(data, false)
}

// Backup implements the method of [contract.Backuper] on the server's engine. After an error w may have
// a part of a copy, which is useless.
func (a *Admin) Backup(ctx context.Context, w io.Writer) error { return a.BackupOf(ctx, "", w) }

// BackupOf is like Backup, for one pool of the server. The name "" means the default pool.
func (a *Admin) BackupOf(ctx context.Context, pool string, w io.Writer) error {
	r := request{method: "POST", path: "/admin/backup", query: inPool(pool), stream: true}
	return a.link.exchange(ctx, r, func(resp *http.Response, body io.Reader) error {
		if !isType(resp, "application/octet-stream") {
			return a.link.unexpected(resp)
		}
		// An error of w is the caller's own, and does not mean that the answer broke off.
		out := &errWriter{w: w}
		_, err := io.Copy(out, body)
		if err == nil || errors.Is(err, out.err) && out.err != nil {
			return err
		}
		return &brokenAnswer{err}
	})
}

// errWriter stores the error of its last write.
type errWriter struct {
	w   io.Writer
	err error
}

func (e *errWriter) Write(b []byte) (n int, err error) {
	n, e.err = e.w.Write(b)
	return n, e.err
}

// CreateToken creates a token with the namespace, rights, description and limits of t. It returns
// the secret, which the server shows only once. It is not safe to repeat: after a lost answer there
// is a token whose secret is lost.
func (a *Admin) CreateToken(ctx context.Context, t contract.Token) (secret string, err error) {
	return a.CreateTokenIn(ctx, "", t)
}

// CreateTokenIn is like CreateToken. If pool is not "", it also places the namespace in that pool
// of the server. It returns [duly.ErrConflict] for a namespace that is in another pool.
func (a *Admin) CreateTokenIn(ctx context.Context, pool string, t contract.Token) (secret string, err error) {
	body := wire.NewTokenForm.Append(nil, t)
	r := request{method: "POST", path: "/admin/tokens", query: inPool(pool), body: body}
	created, err := fetch(ctx, a.link, r, wire.MadeTokenForm.ReadAnswer)
	// The server shows the secret only once, so the token would be useless.
	if err == nil && created.Secret == "" {
		err = a.link.malformed("has no secret for the new token")
	}
	return created.Secret, err
}

// AdoptToken stores a token that was created elsewhere, under its hash. If pool is not "", it also
// places the namespace in that pool of the server. It returns [duly.ErrConflict] for a token that
// exists, and for a namespace that is in another pool. It is safe to repeat.
func (a *Admin) AdoptToken(ctx context.Context, pool string, t contract.Token) error {
	body := wire.NewTokenForm.Append(nil, t)
	_, err := a.link.call(ctx, request{method: "PUT", path: tokenPath(t.Hash), query: inPool(pool), body: body})
	return err
}

// Tokens implements the method of [contract.Registry] on the server's engine.
func (a *Admin) Tokens(ctx context.Context, namespace string, p duly.PageParams) (contract.TokenPage, error) {
	if err := contract.ValidatePage(&p); err != nil {
		return contract.TokenPage{}, err
	}
	query, err := page(p)
	if err != nil {
		return contract.TokenPage{}, err
	}
	if namespace != "" {
		query.Set("namespace", namespace)
	}

	r := request{method: "GET", path: "/admin/tokens", query: query}
	return fetch(ctx, a.link, r, wire.TokensForm.ReadAnswer)
}

// LimitToken implements the method of [contract.Limiter] on the server's engine. It is safe to repeat.
func (a *Admin) LimitToken(ctx context.Context, hash [32]byte, l contract.Limits) error {
	body := wire.LimitTokenForm.Append(nil, l)
	_, err := a.link.call(ctx, request{method: "PATCH", path: tokenPath(hash), body: body})
	return err
}

// DeleteToken implements the method of [contract.Registry] on the server's engine. It is safe to
// repeat: the repeated call returns [duly.ErrNotFound].
func (a *Admin) DeleteToken(ctx context.Context, hash [32]byte) error {
	_, err := a.link.call(ctx, request{method: "DELETE", path: tokenPath(hash)})
	return err
}

func tokenPath(hash [32]byte) string { return "/admin/tokens/" + wire.TokenID(hash) }

// CreateLoginCode returns the path of a page on the admin address that opens one session of the dashboard, within a
// minute. It returns [duly.ErrUnsupported] if the server has no dashboard. It is safe to repeat.
func (a *Admin) CreateLoginCode(ctx context.Context) (path string, err error) {
	r := request{method: "POST", path: "/admin/login-codes"}
	code, err := fetch(ctx, a.link, r, wire.LoginCodeForm.ReadAnswer)
	if err == nil && !strings.HasPrefix(code.Path, "/") {
		err = a.link.malformed("has no path for the login code")
	}
	return code.Path, err
}

// Namespaces implements the method of [contract.Registry] on the server's engine.
func (a *Admin) Namespaces(ctx context.Context, p duly.PageParams) (duly.NamePage, error) {
	return a.link.names(ctx, "/admin/namespaces", "namespaces", p)
}

// Pools returns the server's pools. The default pool is the first.
func (a *Admin) Pools(ctx context.Context) ([]contract.PoolState, error) {
	return fetch(ctx, a.link, request{method: "GET", path: "/admin/pools"}, wire.PoolsForm.ReadAnswer)
}

// Place places a namespace in a pool, if it has none. It returns [duly.ErrConflict] for a namespace
// that is in another pool. It is safe to repeat.
func (a *Admin) Place(ctx context.Context, namespace, pool string) error {
	if err := contract.ValidateNamespace(namespace); err != nil {
		return err
	}
	r := request{method: "PUT", path: "/admin/namespaces/" + namespace, body: wire.PlaceForm.Append(nil, pool)}
	_, err := a.link.call(ctx, r)
	return err
}

// Moves returns the namespaces that move from one pool to another. With a namespace it returns the
// state of that namespace, even if it does not move.
func (a *Admin) Moves(ctx context.Context, namespace string) ([]contract.MoveState, error) {
	var query url.Values
	if namespace != "" {
		query = url.Values{"namespace": {namespace}}
	}
	r := request{method: "GET", path: "/admin/moves", query: query}
	moves, err := fetch(ctx, a.link, r, wire.MovesForm.ReadAnswer)
	if err == nil && namespace != "" && len(moves) != 1 {
		return nil, a.link.malformed(fmt.Sprintf("has the moves of %d namespaces, want 1", len(moves)))
	}
	return moves, err
}

// Move starts the move of a namespace to another pool, and returns when it has begun. It is safe to
// repeat.
func (a *Admin) Move(ctx context.Context, namespace, to string) (contract.MoveState, error) {
	body := wire.MovingForm.Append(nil, wire.Moving{Namespace: namespace, To: to})
	return fetch(ctx, a.link, request{method: "POST", path: "/admin/moves", body: body}, wire.MoveForm.ReadAnswer)
}

// inPool returns the query that names a pool.
func inPool(pool string) url.Values {
	if pool == "" {
		return nil
	}
	return url.Values{"pool": {pool}}
}
