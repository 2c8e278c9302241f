package cli

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dulymq/duly"
)

// newEndpointApp returns an app with these variables.
func newEndpointApp(vars map[string]string) *app {
	return &app{env: Env{Args: []string{"./duly"}, Getenv: func(name string) string { return vars[name] }}}
}

// writeDataFolder writes the files of a server to its data folder.
func writeDataFolder(t *testing.T, dir string, files map[string]string) string {
	t.Helper()
	for name, text := range files {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// C15.2: --url and DULY_URL accept the URL of any engine. C15.5: the namespace is "default"
// unless --namespace or the URL names another one.
func TestFindEndpointOfURL(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name                 string
		url, namespace       string // values of the flags
		vars                 map[string]string
		wantURL, wantNS, tok string
	}{
		{"a file", "sqlite:x.db", "", nil, "sqlite:x.db", "default", ""},
		{"a file and a namespace", "sqlite:x.db", "shop", nil, "sqlite:x.db", "shop", ""},
		{"Redis", "redis://u:s3cret@host:6379/1?prefix=x", "", nil, "redis://u:s3cret@host:6379/1?prefix=x", "default", ""},
		{"Redis and a namespace", "redis+cluster://a,b", "shop", map[string]string{"DULY_TOKEN": "t"}, "redis+cluster://a,b",
			"shop", ""},
		{"a server", "http://s3cret@host:7777/shop", "", nil, "http://s3cret@host:7777/shop", "shop", "s3cret"},
		{"a server without a namespace", "https://s3cret@host", "", nil, "https://s3cret@host/default", "default", "s3cret"},
		{"the flag fills in the namespace", "https://s3cret@host/", "shop", nil, "https://s3cret@host/shop", "shop",
			"s3cret"},
		{"the token from the environment", "http://host/shop", "", map[string]string{"DULY_TOKEN": "s3cret"},
			"http://s3cret@host/shop", "shop", "s3cret"},
		{"the URL's own token wins", "http://mine@host/shop", "", map[string]string{"DULY_TOKEN": "s3cret"},
			"http://mine@host/shop", "shop", "mine"},
		{"the URL from the environment", "", "", map[string]string{"DULY_URL": "sqlite:y.db"}, "sqlite:y.db", "default", ""},
		{"the flag wins", "sqlite:x.db", "", map[string]string{"DULY_URL": "sqlite:y.db"}, "sqlite:x.db", "default", ""},
		{"another namespace than the URL's is left to the engine", "http://t@host/shop", "other", nil, "http://t@host/shop",
			"other", "t"},
	}

	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a := newEndpointApp(tt.vars)
			a.url, a.namespace = tt.url, tt.namespace
			at, err := a.findEndpoint()
			if err != nil {
				t.Fatal(err)
			}
			if at.url != tt.wantURL || at.namespace != tt.wantNS || at.token != tt.tok {
				t.Errorf("found %+v, want %s in %s with token %q", at, tt.wantURL, tt.wantNS, tt.tok)
			}
		})
	}
}

// C15.3: without a URL, commands use this machine's server. They find its files in --data,
// DULY_DATA or the user's state folder. C15.4: these include its admin address.
func TestFindEndpointOfLocalServer(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	left := map[string]string{"url": "http://127.0.0.1:7777\n", "admin-url": "http://127.0.0.1:7778\n",
		"token": "duly_t\n"}
	state := writeDataFolder(t, filepath.Join(home, "duly"), left)

	for name, set := range map[string]func(a *app, vars map[string]string){
		"--data":       func(a *app, _ map[string]string) { a.data = state },
		"DULY_DATA":    func(_ *app, vars map[string]string) { vars["DULY_DATA"] = state },
		"state folder": func(_ *app, vars map[string]string) { vars["XDG_STATE_HOME"] = home },
	} {
		vars := map[string]string{}
		a := newEndpointApp(vars)
		set(a, vars)
		at, err := a.findEndpoint()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		want := endpoint{url: "http://duly_t@127.0.0.1:7777/default", adminURL: "http://127.0.0.1:7778", token: "duly_t",
			namespace: "default"}
		if at != want {
			t.Errorf("%s: found %+v, want %+v", name, at, want)
		}
	}
}

// C15.3: a token in the environment overrides that in the data folder.
func TestTokenVariableOverridesFile(t *testing.T) {
	t.Parallel()
	dir := writeDataFolder(t, t.TempDir(), map[string]string{"url": "http://127.0.0.1:1", "token": "duly_file"})
	a := newEndpointApp(map[string]string{"DULY_DATA": dir, "DULY_TOKEN": "duly_given"})
	if at, err := a.findEndpoint(); err != nil || at.token != "duly_given" {
		t.Errorf("found %+v, %v", at, err)
	}
}

// C15.4: --admin-url and DULY_ADMIN_URL override the address in the data folder.
func TestAdminURLOverridesFile(t *testing.T) {
	t.Parallel()
	dir := writeDataFolder(t, t.TempDir(), map[string]string{"url": "http://127.0.0.1:1",
		"admin-url": "http://127.0.0.1:2"})
	for name, set := range map[string]func(a *app, vars map[string]string){
		"--admin-url":    func(a *app, _ map[string]string) { a.adminURL = "http://127.0.0.1:3" },
		"DULY_ADMIN_URL": func(_ *app, vars map[string]string) { vars["DULY_ADMIN_URL"] = "http://127.0.0.1:3" },
	} {
		vars := map[string]string{"DULY_DATA": dir}
		a := newEndpointApp(vars)
		set(a, vars)
		if at, err := a.findEndpoint(); err != nil || at.adminURL != "http://127.0.0.1:3" {
			t.Errorf("%s: found %+v, %v", name, at, err)
		}
	}
}

func TestNoServerHint(t *testing.T) {
	t.Parallel()
	a := newEndpointApp(map[string]string{"DULY_DATA": filepath.Join(t.TempDir(), "none")})
	_, err := a.findEndpoint()
	if !errors.Is(err, duly.ErrUnavailable) || !strings.Contains(err.Error(), "none") {
		t.Errorf("error %v", err)
	}
	if next := a.hint(nil, duly.CodeOf(err), err); !strings.Contains(next, "./duly serve") {
		t.Errorf("advice %q", next)
	}
}

// C11.5: errors of Redis contain no secret, and have no hint about duly's server.
func TestRedisErrorsHaveNoServerHint(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, args := range [][]string{
		{"queues", "--url", "redis://:s3cret@host"},
		{"check", "--url", "rediss+sentinel://:s3cret@host/main"},
		{"push", "q", "--url", "redis+cluster://:s3cret@host"},
		{"serve", "--engine", "redis+unix://:s3cret@/run/redis.sock", "--data", t.TempDir()},
	} {
		if code, out, errs := r.run(args...); code != exitFailed || out != "" ||
			errs != "duly: unavailable: nobody listens there\n" {
			t.Errorf("%v: exit %d, %q, %q", args, code, out, errs)
		}
	}
}

func TestShellQuote(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]string{
		"./bin/duly": "./bin/duly", "my folder/duly": "'my folder/duly'", "it's": `'it'\''s'`, "": "''", "$HOME": "'$HOME'",
	} {
		if got := shellQuote(word); got != want {
			t.Errorf("shellQuote(%q) = %s, want %s", word, got, want)
		}
	}
}
