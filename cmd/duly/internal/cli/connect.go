package cli

import (
	"context"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/open"
	"github.com/dulymq/duly/server/auth"
)

// defaultData is the default data folder of `duly serve`. Other commands look there for
// its address.
const defaultData = "duly-data"

// endpoint is the address of a command's engine.
type endpoint struct {
	url       string // URL with the token
	adminURL  string // "" if it is unknown
	token     string // "" for a file or Redis
	namespace string
	// The files with the certificates of this machine's server, "" for plain HTTP.
	certFile, adminCertFile string
}

// session is an open engine with the command's namespace.
type session struct {
	contract.Engine
	endpoint
}

// queue returns a queue of the session's namespace.
func (s *session) queue(name string) duly.QueueRef {
	return duly.QueueRef{Namespace: s.namespace, Name: name}
}

// withEngine opens the engine, calls do and closes the engine.
func (a *app) withEngine(ctx context.Context, do func(s *session) error) error {
	return a.withSession(ctx, false, do)
}

// withNewEngine is like withEngine. It also creates the file of the engine if the file does not
// exist.
func (a *app) withNewEngine(ctx context.Context, do func(s *session) error) error {
	return a.withSession(ctx, true, do)
}

func (a *app) withSession(ctx context.Context, create bool, do func(s *session) error) error {
	s, err := a.connect(ctx, create)
	if err != nil {
		return err
	}
	// Closing may fail too, for example if a file was not synced. The first error counts.
	err = do(s)
	if closeErr := s.Close(); err == nil {
		err = closeErr
	}
	return a.withConnectHint(err, s.endpoint)
}

// connect opens the engine of the flags, the environment or this machine's server. The
// caller closes it. create allows it to create the engine's file.
func (a *app) connect(ctx context.Context, create bool) (*session, error) {
	at, err := a.findEndpoint()
	// A command that only reads must not create an empty file.
	if err == nil && !create {
		err = a.checkFileExists(at)
	}
	if err != nil {
		return nil, err
	}
	secure, err := a.tlsConfig(at.certFile)
	if err != nil {
		return nil, err
	}
	engine, err := a.env.Open(ctx, at.url, open.Log(a.engineLog(at.url)), open.TLS(secure))
	if err != nil {
		return nil, a.withConnectHint(namingURLFlag(err, at.url, "--url"), at)
	}
	return &session{engine, at}, nil
}

// checkFileExists returns an error if the file of the engine does not exist. Opening it
// would create it, and a command with a misspelled path would print "no jobs".
func (a *app) checkFileExists(at endpoint) error {
	path := open.Path(at.url)
	if path == "" {
		return nil
	}
	// A mistyped path must not create an empty store.
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return nil // the engine reports other errors of the file
	}
	return withHint(contract.Errorf(duly.CodeNotFound, "no such file %s", path),
		"check the path; %s push or serve creates a file", a.program())
}

// withConnectHint adds a hint to the error of an engine that is unavailable.
func (a *app) withConnectHint(err error, at endpoint) error {
	switch {
	case open.Redis(at.url):
		return withoutRedisHints(err)
	case isRemote(at.url):
		return withHintFor(duly.CodeUnavailable, withTLSHint(err),
			"check that %s is right and that the server runs: %s serve", open.Redact(at.url), a.program())
	}
	return withHintFor(duly.CodeUnavailable, err, "leave --url out if a server on this machine uses the file")
}

// withoutRedisHints removes the hints of codes that are for a server or a file. The
// errors of the engine on Redis say what to do.
func withoutRedisHints(err error) error {
	// An error without fields is about the URL and not about a flag.
	if e := (*duly.Error)(nil); errors.As(err, &e) && len(e.Fields) == 0 {
		err = withHintFor(duly.CodeInvalid, err, "")
	}
	for _, code := range []duly.Code{
		duly.CodeUnauthorized, duly.CodeForbidden, duly.CodeUnavailable, duly.CodeUnsupported, duly.CodeCorrupt,
	} {
		err = withHintFor(code, err, "")
	}
	return err
}

// namingURLFlag adds the flag to an error about the URL of Redis or of a file. The
// options of the URL have the same names as other flags.
func namingURLFlag(err error, url, flag string) error {
	// The URL of a server has no options, so its errors are about other input.
	if !open.Redis(url) && !strings.HasPrefix(url, "sqlite:") {
		return err
	}
	var e *duly.Error
	if !errors.As(err, &e) || e.Code != duly.CodeInvalid || len(e.Fields) == 0 {
		return err
	}

	parts := make([]string, len(e.Fields))
	for i, f := range e.Fields {
		switch f.Field {
		case "url":
			parts[i] = flag + " " + f.Problem
		case "path":
			parts[i] = "the path of " + flag + " " + f.Problem
		default:
			parts[i] = "option " + f.Field + " of " + flag + " " + f.Problem
		}
	}
	return withHint(&duly.Error{Code: e.Code, Message: strings.Join(parts, "; "), Cause: err}, "")
}

// findEndpoint finds the engine of the flags, the environment or this machine's server,
// in this order.
func (a *app) findEndpoint() (endpoint, error) {
	at := endpoint{url: a.setting(a.url, "DULY_URL"), adminURL: a.setting(a.adminURL, "DULY_ADMIN_URL")}
	if at.url == "" {
		local, err := a.localEndpoint()
		if err != nil {
			return at, err
		}
		// A flag for the admin address overrides that of the folder.
		if at.adminURL == "" {
			at.adminURL, at.adminCertFile = local.adminURL, local.adminCertFile
		}
		at.url, at.certFile = local.url, local.certFile
		// The variable overrides the token in the folder.
		if at.token = a.env.Getenv("DULY_TOKEN"); at.token == "" {
			at.token = local.token
		}
	}
	return a.completeEndpoint(at)
}

// completeEndpoint adds the token and the namespace to the URL of a server, or takes
// them from it.
func (a *app) completeEndpoint(at endpoint) (endpoint, error) {
	if !isRemote(at.url) {
		at.namespace = contract.NamespaceOr(a.namespace)
		return at, nil
	}
	u, err := url.Parse(at.url)
	if err != nil {
		return at, usageErrorf("%s is not a URL; write it like http://TOKEN@HOST/NAMESPACE", open.Redact(at.url))
	}

	// The token in the URL overrides the variable, because it is nearer to the command.
	if u.User != nil {
		at.token = u.User.Username()
	}
	if at.token == "" {
		at.token = a.env.Getenv("DULY_TOKEN")
	}
	if at.token != "" {
		// An error of the transport may contain the URL.
		a.hide(at.token)
		u.User = url.User(at.token)
	}

	at.namespace = strings.Trim(u.Path, "/")
	if at.namespace == "" {
		at.namespace = contract.NamespaceOr(a.namespace)
		u.Path = "/" + at.namespace
	} else if a.namespace != "" {
		at.namespace = a.namespace // the engine refuses any namespace except that of its URL
	}
	at.url = u.String()
	return at, nil
}

// isRemote reports whether the URL names a server.
func isRemote(engine string) bool {
	return strings.HasPrefix(engine, "http://") || strings.HasPrefix(engine, "https://")
}

// localEndpoint returns the endpoint of this machine's server, which stores it in its
// data folder.
func (a *app) localEndpoint() (endpoint, error) {
	folders := a.dataFolders()
	for _, dir := range folders {
		at, err := readEndpoint(dir)
		if err == nil {
			return at, nil
		}

		// A file that exists but is unreadable must not lead to another server in the next folder.
		if !errors.Is(err, fs.ErrNotExist) {
			return at, withHint(err, "run as the server's user, or set --url")
		}
	}
	err := contract.Errorf(duly.CodeUnavailable, "no server has stored its address in %s", strings.Join(folders, " or "))
	return endpoint{}, withHint(err, "start one: %s serve, or name an engine with --url or DULY_URL", a.program())
}

// dataFolders returns the folders in which a server on this machine may store its address: the
// given folder, or else the default ones.
func (a *app) dataFolders() []string {
	// If a folder is given, only that one is used. Otherwise a command could reach another server
	// without notice.
	if dir := a.setting(a.data, "DULY_DATA"); dir != "" {
		return []string{dir}
	}
	folders := []string{"." + string(filepath.Separator) + defaultData}
	if dir := a.stateFolder(); dir != "" {
		folders = append(folders, dir)
	}
	return folders
}

// stateFolder returns duly's folder in the user's folder for persistent state.
func (a *app) stateFolder() string {
	if dir := a.env.Getenv("XDG_STATE_HOME"); dir != "" {
		return filepath.Join(dir, "duly")
	}
	if runtime.GOOS == "windows" {
		if dir := a.env.Getenv("LocalAppData"); dir != "" {
			return filepath.Join(dir, "duly")
		}
		return ""
	}
	if dir := a.env.Getenv("HOME"); dir != "" {
		return filepath.Join(dir, ".local", "state", "duly")
	}
	return ""
}

// readEndpoint reads the files in a data folder. Only the file with the URL is required.
func readEndpoint(dir string) (endpoint, error) {
	var at endpoint
	for _, f := range []struct {
		name string
		to   *string
	}{{auth.URLFile, &at.url}, {auth.AdminURLFile, &at.adminURL}, {auth.TokenFile, &at.token}} {
		text, err := os.ReadFile(filepath.Join(dir, f.name))
		// A server on Redis has no token file, and its user sets DULY_TOKEN.
		if err != nil && (f.to == &at.url || !errors.Is(err, fs.ErrNotExist)) {
			return at, err
		}
		*f.to = strings.TrimSpace(string(text))
	}
	// A server that is starting has created the file, but not written it.
	if at.url == "" {
		return at, &fs.PathError{Op: "read", Path: filepath.Join(dir, auth.URLFile), Err: fs.ErrNotExist}
	}

	// The certificate counts only for HTTPS. An old file may remain after a switch to plain HTTP.
	if strings.HasPrefix(at.url, "https:") {
		at.certFile = filepath.Join(dir, certFile)
	}
	if strings.HasPrefix(at.adminURL, "https:") {
		at.adminCertFile = filepath.Join(dir, adminCertFile)
	}
	return at, nil
}

// setting returns the value of a flag, or else that of the variable.
func (a *app) setting(flag, variable string) string {
	if flag != "" {
		return flag
	}
	return a.env.Getenv(variable)
}

// program returns the command that runs this program, quoted for a shell.
func (a *app) program() string { return shellQuote(a.env.Args[0]) }

// shellQuote quotes a word for a POSIX shell if necessary.
func shellQuote(word string) string {
	isSafe := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
			strings.ContainsRune("%+,-./:=@_~\\", r)
	}
	// A word with a doubtful character is quoted, because a shell may expand it.
	if word != "" && !strings.ContainsFunc(word, func(r rune) bool { return !isSafe(r) }) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// hide removes a secret from every error line.
func (a *app) hide(secret string) {
	// A token may come from several places. Once in the list is enough.
	if secret != "" && !slices.Contains(a.secrets, secret) {
		a.secrets = append(a.secrets, secret)
	}
}
