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
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/wire"
)

// AdminConfig says which server's admin address to use. Only URL must be set.
type AdminConfig struct {
	// URL is http(s)://TOKEN@HOST, the token one with the right admin for all
	// namespaces.
	URL string `json:"-"`
	// Token is for a URL that has none.
	Token string `json:"-"`
	// TLS and Client are those of [Config].
	TLS    *tls.Config `json:"-"`
	Client *http.Client
	// Timeout is that of [Config]. The answers to Check and Backup may take as
	// long as they do. Default 30 s.
	Timeout time.Duration
}

// String is the configuration as it may be printed: without its token.
func (c AdminConfig) String() string {
	a, err := parseAddress(c.URL, c.Token, adminForm)
	if err != nil {
		return "httpengine.AdminConfig with a bad URL"
	}
	return a.String()
}

// GoString is String, for %#v.
func (c AdminConfig) GoString() string { return c.String() }

// Admin is what an operator may do to a server as a whole. It is safe for
// concurrent use.
type Admin struct{ link *link }

// OpenAdmin returns the admin side of a server. It sends nothing. It answers
// [duly.ErrInvalid] for a URL that is none.
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

// String is the server's address as it may be printed: without the token.
func (a *Admin) String() string { return a.link.String() }

// GoString is String, for %#v.
func (a *Admin) GoString() string { return a.String() }

// Close gives the connections up. It may be repeated.
func (a *Admin) Close() error {
	a.link.close()
	return nil
}

// maxLine bounds a line of a check's answer, in bytes: its last line holds
// every fault.
const maxLine = 256 << 20

// Check is [contract.Maintainer]'s, of the server's engine. It is safe to repeat.
func (a *Admin) Check(ctx context.Context, p contract.CheckParams) (report contract.CheckReport, err error) {
	r := request{method: "POST", path: "/admin/check", body: wire.CheckForm.Append(nil, p.Repair), open: true}
	err = a.link.exchange(ctx, r, func(resp *http.Response, body io.Reader) error {
		if !isType(resp, "application/x-ndjson") {
			return a.link.stranger(resp)
		}
		report, err = a.link.readCheck(body, p.Progress)
		return err
	})
	return report, err
}

// readCheck reads lines until the one with the report.
func (l *link) readCheck(body io.Reader, progress func(done, total int64)) (none contract.CheckReport, err error) {
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, maxLine)
	lines.Split(wholeLines)
	for lines.Scan() {
		if len(lines.Bytes()) == 0 {
			continue
		}
		line, err := wire.CheckLineForm.ReadAnswer(lines.Text())
		switch {
		case err != nil:
			return none, l.garbled("a check with a line that is not this API's")
		case line.Err != nil:
			return none, line.Err
		case line.Report != nil:
			return *line.Report, nil
		case progress != nil:
			progress(line.Done, line.Total)
		}
	}
	if lines.Err() == nil {
		return none, &brokenAnswer{io.ErrUnexpectedEOF} // without a report it is not whole
	}
	return none, &brokenAnswer{lines.Err()}
}

// wholeLines is bufio.ScanLines without a last line that is cut off.
func wholeLines(data []byte, _ bool) (advance int, line []byte, err error) {
	return bufio.ScanLines(data, false)
}

// Backup is [contract.Backuper]'s, of the server's engine. After an error w may
// hold a part of a copy, which is none.
func (a *Admin) Backup(ctx context.Context, w io.Writer) error { return a.BackupOf(ctx, "", w) }

// BackupOf is Backup of one of the server's pools, "" for the default one.
func (a *Admin) BackupOf(ctx context.Context, pool string, w io.Writer) error {
	r := request{method: "POST", path: "/admin/backup", query: inPool(pool), open: true}
	return a.link.exchange(ctx, r, func(resp *http.Response, body io.Reader) error {
		if !isType(resp, "application/octet-stream") {
			return a.link.stranger(resp)
		}
		out := &outlet{w: w}
		_, err := io.Copy(out, body)
		if err == nil || errors.Is(err, out.err) && out.err != nil {
			return err
		}
		return &brokenAnswer{err}
	})
}

// outlet remembers whether it was the writing that failed.
type outlet struct {
	w   io.Writer
	err error
}

func (o *outlet) Write(b []byte) (n int, err error) {
	n, o.err = o.w.Write(b)
	return n, o.err
}

// CreateToken makes a token with the namespace, rights, description and limits
// of t and returns its secret, which is told this once. It is not safe to repeat:
// an answer that is lost has made a token that nobody knows.
func (a *Admin) CreateToken(ctx context.Context, t contract.Token) (secret string, err error) {
	return a.CreateTokenIn(ctx, "", t)
}

// CreateTokenIn is CreateToken for a namespace that is to be in a pool of the
// server, "" for wherever it is. It answers [duly.ErrConflict] for a namespace
// that is in another one.
func (a *Admin) CreateTokenIn(ctx context.Context, pool string, t contract.Token) (secret string, err error) {
	body := wire.NewTokenForm.Append(nil, t)
	text, err := a.link.call(ctx, request{method: "POST", path: "/admin/tokens", query: inPool(pool), body: body})
	if err != nil {
		return "", err
	}
	made, err := wire.MadeTokenForm.ReadAnswer(text)
	if err != nil || made.Secret == "" {
		return "", a.link.garbled("the making of a token without one")
	}
	return made.Secret, nil
}

// AdoptToken stores a token under its hash, whose text was made elsewhere; its
// namespace is to be in a pool of the server, "" for wherever it is. It answers
// [duly.ErrConflict] for a token that is there, and for a namespace that is in
// another pool. It is safe to repeat.
func (a *Admin) AdoptToken(ctx context.Context, pool string, t contract.Token) error {
	body := wire.NewTokenForm.Append(nil, t)
	_, err := a.link.call(ctx, request{method: "PUT", path: tokenPath(t.Hash), query: inPool(pool), body: body})
	return err
}

// Tokens is [contract.Registry]'s, of the server's engine.
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
	text, err := a.link.call(ctx, request{method: "GET", path: "/admin/tokens", query: query})
	if err != nil {
		return contract.TokenPage{}, err
	}
	return answer(a.link, text, wire.TokensForm.ReadAnswer)
}

// LimitToken is [contract.Limiter]'s, of the server's engine. It is safe to repeat.
func (a *Admin) LimitToken(ctx context.Context, hash [32]byte, l contract.Limits) error {
	_, err := a.link.call(ctx, request{method: "PATCH", path: tokenPath(hash), body: wire.LimitTokenForm.Append(nil, l)})
	return err
}

// DeleteToken is [contract.Registry]'s, of the server's engine. It is safe to
// repeat; the answer is then [duly.ErrNotFound].
func (a *Admin) DeleteToken(ctx context.Context, hash [32]byte) error {
	_, err := a.link.call(ctx, request{method: "DELETE", path: tokenPath(hash)})
	return err
}

func tokenPath(hash [32]byte) string { return "/admin/tokens/" + wire.TokenID(hash) }

// Namespaces is [contract.Registry]'s, of the server's engine.
func (a *Admin) Namespaces(ctx context.Context, p duly.PageParams) (duly.NamePage, error) {
	return a.link.names(ctx, "/admin/namespaces", "namespaces", p)
}

// Pools lists the server's pools, the default one first.
func (a *Admin) Pools(ctx context.Context) ([]contract.PoolState, error) {
	text, err := a.link.call(ctx, request{method: "GET", path: "/admin/pools"})
	if err != nil {
		return nil, err
	}
	return answer(a.link, text, wire.PoolsForm.ReadAnswer)
}

// Place says which pool a namespace is in, if nobody has; [duly.ErrConflict] for
// one that is in another. It is safe to repeat.
func (a *Admin) Place(ctx context.Context, namespace, pool string) error {
	if err := contract.ValidateNamespace(namespace); err != nil {
		return err
	}
	_, err := a.link.call(ctx, request{method: "PUT", path: "/admin/namespaces/" + namespace, body: wire.PlaceForm.Append(nil, pool)})
	return err
}

// Moves lists the namespaces that move from one pool to another or, of one
// namespace, tells where it is.
func (a *Admin) Moves(ctx context.Context, namespace string) ([]contract.MoveState, error) {
	var query url.Values
	if namespace != "" {
		query = url.Values{"namespace": {namespace}}
	}
	text, err := a.link.call(ctx, request{method: "GET", path: "/admin/moves", query: query})
	if err != nil {
		return nil, err
	}
	moves, err := answer(a.link, text, wire.MovesForm.ReadAnswer)
	if err == nil && namespace != "" && len(moves) != 1 {
		return nil, a.link.garbled(fmt.Sprintf("where one namespace is with %d places", len(moves)))
	}
	return moves, err
}

// Move lets a namespace move to another pool, and answers when that has begun.
// It is safe to repeat.
func (a *Admin) Move(ctx context.Context, namespace, to string) (contract.MoveState, error) {
	text, err := a.link.call(ctx, request{method: "POST", path: "/admin/moves", body: wire.MovingForm.Append(nil, wire.Moving{Namespace: namespace, To: to})})
	if err != nil {
		return contract.MoveState{}, err
	}
	return answer(a.link, text, wire.MoveForm.ReadAnswer)
}

// inPool is the query that names a pool.
func inPool(pool string) url.Values {
	if pool == "" {
		return nil
	}
	return url.Values{"pool": {pool}}
}
