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
	"github.com/dulymq/duly/open"
	"github.com/dulymq/duly/server/auth"
)

// defaultData is where `duly serve` keeps what it has, and where the other
// commands look for it first.
const defaultData = "duly-data"

// place says where the engine of a command is.
type place struct {
	url       string // with its token
	adminURL  string // "" where it is not known
	token     string // "" for a file
	namespace string
	// The certificates that the local server has left, by file; "" where it
	// speaks plain HTTP.
	left, adminLeft string
}

// session is an open engine, and the namespace that the command is about.
type session struct {
	duly.Contract
	place
}

// queue names a queue of the session's namespace.
func (s *session) queue(name string) duly.QueueRef {
	return duly.QueueRef{Namespace: s.namespace, Name: name}
}

// connect opens the engine that the flags, the environment or the local
// server's files name. The caller closes it. A file that is not there is made if
// mayMake says so.
func (a *app) connect(ctx context.Context, mayMake bool) (*session, error) {
	at, err := a.find()
	if err == nil && !mayMake {
		err = a.mustBeThere(at)
	}
	if err != nil {
		return nil, err
	}
	secure, err := a.trust(at.left)
	if err != nil {
		return nil, err
	}
	engine, err := a.env.Open(ctx, at.url, open.Log(a.engineLog(at.url)), open.TLS(secure))
	if err != nil {
		return nil, a.unreachable(inStoreURL(err, at.url, "--url"), at)
	}
	return &session{engine, at}, nil
}

// mustBeThere refuses a file that is not there. Of one that a misspelled path
// has just made, "no jobs" and "no faults" would be lies.
func (a *app) mustBeThere(at place) error {
	path := open.Path(at.url)
	if path == "" {
		return nil
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return nil // what else is wrong with it is for the engine to say
	}
	return advise(duly.Errorf(duly.CodeNotFound, "there is no file %s", path), "mind the path; %s push or serve makes a new one", a.program())
}

// unreachable says where nobody answered, or who else has the file.
func (a *app) unreachable(err error, at place) error {
	switch {
	case open.Redis(at.url):
		return saidByRedis(err)
	case remote(at.url):
		err = advisedTLS(err)
		return adviseOn(duly.CodeUnavailable, err, "check that %s is right and that the server runs: %s serve", open.Redact(at.url), a.program())
	}
	return adviseOn(duly.CodeUnavailable, err, "leave --url out where a server on this machine has the file")
}

// saidByRedis takes away what an error's code advises, where that is for a
// server of duly or for a file. The engine on Redis says itself what to do.
func saidByRedis(err error) error {
	if e := (*duly.Error)(nil); errors.As(err, &e) && len(e.Fields) == 0 {
		err = adviseOn(duly.CodeInvalid, err, "") // of the URL; fields are those of flags
	}
	for _, code := range []duly.Code{duly.CodeUnauthorized, duly.CodeForbidden, duly.CodeUnavailable, duly.CodeUnsupported, duly.CodeCorrupt} {
		err = adviseOn(code, err, "")
	}
	return err
}

// inStoreURL lets an error about the URL of Redis or of a file speak of the flag
// that gave it: the names of its options are those of other flags, too.
func inStoreURL(err error, url, flag string) error {
	var e *duly.Error
	if !open.Redis(url) && !strings.HasPrefix(url, "sqlite:") || !errors.As(err, &e) || e.Code != duly.CodeInvalid || len(e.Fields) == 0 {
		return err
	}
	parts := make([]string, len(e.Fields))
	for i, f := range e.Fields {
		parts[i] = "option " + f.Field + " of " + flag + " " + f.Problem
		switch f.Field {
		case "url":
			parts[i] = flag + " " + f.Problem
		case "path":
			parts[i] = "the path of " + flag + " " + f.Problem
		}
	}
	return advise(&duly.Error{Code: e.Code, Message: strings.Join(parts, "; "), Cause: err}, "")
}

// with opens the engine, hands it to do, and closes it.
func (a *app) with(ctx context.Context, do func(s *session) error) error {
	return a.within(ctx, false, do)
}

// withNew is with for what a storage may begin with.
func (a *app) withNew(ctx context.Context, do func(s *session) error) error {
	return a.within(ctx, true, do)
}

func (a *app) within(ctx context.Context, mayMake bool, do func(s *session) error) error {
	s, err := a.connect(ctx, mayMake)
	if err != nil {
		return err
	}
	err = do(s)
	if closed := s.Close(); err == nil {
		err = closed
	}
	return a.unreachable(err, s.place)
}

// find looks for the engine in the order that the help gives.
func (a *app) find() (place, error) {
	at := place{url: a.setting(a.url, "DULY_URL"), adminURL: a.setting(a.adminURL, "DULY_ADMIN_URL")}
	if at.url == "" {
		local, err := a.local()
		if err != nil {
			return at, err
		}
		if at.adminURL == "" {
			at.adminURL, at.adminLeft = local.adminURL, local.adminLeft
		}
		at.url, at.left = local.url, local.left
		// What was said for this call wins over what lies in a folder.
		if at.token = a.env.Getenv("DULY_TOKEN"); at.token == "" {
			at.token = local.token
		}
	}
	return a.complete(at)
}

// complete puts token and namespace to where they belong.
func (a *app) complete(at place) (place, error) {
	if !remote(at.url) {
		at.namespace = duly.NamespaceOr(a.namespace)
		return at, nil
	}
	u, err := url.Parse(at.url)
	if err != nil {
		return at, misusef("%s is no URL; write it like http://TOKEN@HOST/NAMESPACE", open.Redact(at.url))
	}
	if u.User != nil {
		at.token = u.User.Username()
	}
	if at.token == "" {
		at.token = a.env.Getenv("DULY_TOKEN")
	}
	if at.token != "" {
		a.hide(at.token)
		u.User = url.User(at.token)
	}
	at.namespace = strings.Trim(u.Path, "/")
	if at.namespace == "" {
		at.namespace = duly.NamespaceOr(a.namespace)
		u.Path = "/" + at.namespace
	} else if a.namespace != "" {
		at.namespace = a.namespace // another one is for the engine to refuse
	}
	at.url = u.String()
	return at, nil
}

// remote tells whether a server stands behind the URL.
func remote(engine string) bool {
	return strings.HasPrefix(engine, "http://") || strings.HasPrefix(engine, "https://")
}

// local finds the server of this machine by what it left in its data folder.
func (a *app) local() (place, error) {
	folders := a.dataFolders()
	for _, dir := range folders {
		at, err := readPlace(dir)
		if err == nil {
			return at, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return at, advise(err, "run as the server's user, or give --url")
		}
	}
	err := duly.Errorf(duly.CodeUnavailable, "no server has left its address in %s", strings.Join(folders, " or "))
	return place{}, advise(err, "start one: %s serve, or name an engine with --url or DULY_URL", a.program())
}

// dataFolders are where the local server may be: the one that was named, else
// those of the default.
func (a *app) dataFolders() []string {
	if dir := a.setting(a.data, "DULY_DATA"); dir != "" {
		return []string{dir}
	}
	folders := []string{"." + string(filepath.Separator) + defaultData}
	if dir := a.stateFolder(); dir != "" {
		folders = append(folders, dir)
	}
	return folders
}

// stateFolder is where programs of this user keep what lasts.
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

// readPlace reads the files of one data folder. Only the address must be
// there.
func readPlace(dir string) (place, error) {
	var at place
	for _, f := range []struct {
		name string
		to   *string
	}{{auth.URLFile, &at.url}, {auth.AdminURLFile, &at.adminURL}, {auth.TokenFile, &at.token}} {
		text, err := os.ReadFile(filepath.Join(dir, f.name))
		if err != nil && (f.to == &at.url || !errors.Is(err, fs.ErrNotExist)) {
			return at, err
		}
		*f.to = strings.TrimSpace(string(text))
	}
	if at.url == "" {
		return at, &fs.PathError{Op: "read", Path: filepath.Join(dir, auth.URLFile), Err: fs.ErrNotExist}
	}
	if strings.HasPrefix(at.url, "https:") {
		at.left = filepath.Join(dir, certFile)
	}
	if strings.HasPrefix(at.adminURL, "https:") {
		at.adminLeft = filepath.Join(dir, adminCertFile)
	}
	return at, nil
}

// setting is a flag's value, else the variable's.
func (a *app) setting(flag, variable string) string {
	if flag != "" {
		return flag
	}
	return a.env.Getenv(variable)
}

// program is how the program was called, ready to be pasted into a shell.
func (a *app) program() string { return shellQuote(a.env.Args[0]) }

// shellQuote quotes a word for a POSIX shell where it needs it.
func shellQuote(word string) string {
	safe := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("%+,-./:=@_~\\", r)
	}
	if word != "" && !strings.ContainsFunc(word, func(r rune) bool { return !safe(r) }) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// hide keeps a secret out of every error line.
func (a *app) hide(secret string) {
	if secret != "" && !slices.Contains(a.secrets, secret) {
		a.secrets = append(a.secrets, secret)
	}
}
