package config

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/open"
)

// fixture holds the sources of a configuration.
type fixture struct {
	t     *testing.T
	file  string
	vars  map[string]string
	args  []string
	store bool // whether to validate the URLs of engines
}

// write sets the file's content.
func (s *fixture) write(text string) *fixture {
	s.t.Helper()
	s.file = filepath.Join(s.t.TempDir(), "duly.toml")
	if err := os.WriteFile(s.file, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return s
}

func (s *fixture) sources() Sources {
	s.t.Helper()
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	flags.String("data", "", "")
	Flags(flags)
	if err := flags.Parse(s.args); err != nil {
		s.t.Fatal(err)
	}
	src := Sources{File: s.file, Getenv: func(name string) string { return s.vars[name] }, Flags: flags}
	if s.store {
		src.CheckURL = open.CheckStore
	}
	return src
}

// load loads a valid configuration.
func (s *fixture) load() *Loaded {
	s.t.Helper()
	c, err := Load(s.sources())
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

// errors returns the errors of an invalid configuration, without the folder's name.
func (s *fixture) errors() []string {
	s.t.Helper()
	c, err := Load(s.sources())
	var errs Errors
	if c != nil || !errors.As(err, &errs) || !errors.Is(err, duly.ErrInvalid) {
		s.t.Fatalf("got %+v, %v, want errors", c, err)
	}
	var lines []string
	for _, e := range errs {
		lines = append(lines, s.withoutFolder(e.Error()))
	}
	return lines
}

// withoutFolder removes the file's folder from a string.
func (s *fixture) withoutFolder(text string) string {
	return strings.ReplaceAll(text, filepath.Dir(s.file)+string(filepath.Separator), "")
}

// value returns a setting's value and origin.
func (s *fixture) value(c *Loaded, key string) (text, origin string) {
	s.t.Helper()
	for _, v := range c.Values {
		if v.Setting.Key == key {
			return v.Text, s.withoutFolder(v.Origin.String())
		}
	}
	s.t.Fatalf("%s has no value", key)
	return "", ""
}

// C15.7: flags override the environment, and the environment overrides the file.
func TestLoadMergesLayers(t *testing.T) {
	t.Parallel()
	s := (&fixture{
		t:    t,
		vars: map[string]string{"DULY_GRACE": "2s", "DULY_DRAIN": "3s", "DULY_ADDR": ""},
		args: []string{"--drain", "4s"},
	}).write("addr = '127.0.0.1:1'\ngrace = '20s'\ndrain = '20s'\n\n[log]\nlevel = 'warn'\n")
	c := s.load()

	for key, want := range map[string][2]string{
		"addr": {"127.0.0.1:1", "duly.toml:1"}, "grace": {"2s", "DULY_GRACE"}, "drain": {"4s", "--drain"},
		"log.level": {"warn", "duly.toml:6"}, "log.format": {"text", "default"}, "sweep_every": {"30s", "default"},
	} {
		if text, origin := s.value(c, key); text != want[0] || origin != want[1] {
			t.Errorf("%s is %s from %s, want %s", key, text, origin, want)
		}
	}

	wantTiming := Timing{4 * time.Second, 0, 2 * time.Second, 30 * time.Second}
	if c.Addr != "127.0.0.1:1" || c.Timing != wantTiming || c.Log.Level != slog.LevelWarn {
		t.Errorf("%+v", c.Settings)
	}
}

// C15.30: Load reports all errors, each with its origin, its bound and what to do.
func TestLoadReportsAllErrors(t *testing.T) {
	t.Parallel()
	s := (&fixture{
		t:    t,
		vars: map[string]string{"DULY_GRACE": "1ms"},
		args: []string{"--max-body", "1TB", "--trusted-proxy", "10.0.0.0/24", "--trusted-proxy", "here"},
	}).write(`adr = "127.0.0.1:1"
addr = 7777
admin_addr = "localhost"
drain = "soon"
sweep_every = "1m"
admin_accounts = "none.txt"
answer_memory = "1KiB"
lmstfy = "maybe"

[log]
levle = "debug"
format = "xml"

[logging]
level = "debug"
`)
	got := s.errors()
	want := []string{
		`--trusted-proxy is "here", must be an address or a network like 10.0.0.0/24`,
		`--max-body is "1TB", must be a number of bytes, or one with its unit like "16MiB"`,
		`DULY_GRACE is "1ms", must be between 100ms and 1h`,
		`duly.toml:1: adr is not a setting; did you mean addr?`,
		`duly.toml:2: addr is 7777, must be text in quotes`,
		`duly.toml:3: admin_addr is "localhost", must be host:port`,
		`duly.toml:4: drain is "soon", must be a duration; write it like "250ms", "90s" or "1h30m"`,
		`duly.toml:5: sweep_every is "1m", must be between 1s and 30s`,
		`duly.toml:6: admin_accounts names a file that cannot be used: open none.txt: no such file or directory; ` +
			`it needs a line NAME:PASSWORD for each account`,
		`duly.toml:7: answer_memory is "1KiB", must be at least 1MiB`,
		`duly.toml:8: lmstfy is "maybe", must be token, open or off`,
		`duly.toml:11: log.levle is not a setting; did you mean log.level?`,
		`duly.toml:12: log.format is "xml", must be text or json`,
		`duly.toml:15: logging.level is not a setting; did you mean log.level?`,
	}
	compare(t, got, want)
}

func compare(t *testing.T, got, want []string) {
	t.Helper()
	for i := range max(len(got), len(want)) {
		var g, w string
		if i < len(got) {
			g = got[i]
		}
		if i < len(want) {
			w = want[i]
		}
		if g != w {
			t.Errorf("error %d:\n got %s\nwant %s", i, g, w)
		}
	}
}

// A file that cannot be parsed is one error. Load validates the other sources too.
func TestLoadInvalidTOML(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"addr = \n":                      "duly.toml:1: is not TOML: ",
		"[log]\nlevel = 'debug\n":        "duly.toml:2: is not TOML: ",
		"drain = '1s'\ndrain = '2s'\n":   "duly.toml:2: is not TOML: ",
		"a = 1\n\n\x00":                  "duly.toml:3: is not TOML: ",
		strings.Repeat("# x\n", 300_000): "duly.toml: cannot be read: it has more than 1048576 bytes",
	} {
		s := (&fixture{t: t, args: []string{"--drain", "soon"}}).write(text)
		got := s.errors()
		if len(got) != 2 || !strings.HasPrefix(got[0]+"\n"+got[1], want) && !strings.HasPrefix(got[1], want) {
			t.Errorf("%.20q: %q, want %q and an error of --drain", text, got, want)
		}
	}
	s := &fixture{t: t, file: filepath.Join(t.TempDir(), "none.toml")}
	compare(t, s.errors(), []string{"none.toml: cannot be read: no such file or directory"})
}

// No error and no value contains the secret of a URL, even if the URL is in the wrong
// setting.
func TestSecretsAreRedacted(t *testing.T) {
	t.Parallel()
	const secret = "s3cr3t-of-mine"
	const url = "redis://user:" + secret + "@127.0.0.1:6379/0"
	for _, text := range []string{
		"addr = 'URL'", "drain = 'URL'", "lmstfy = 'URL'", "max_body = 'URL'", "trusted_proxies = 'URL'",
		"trusted_proxies = ['URL']", "log = { level = 'URL' }", "engine = ['URL']", "engine = 'URL", "engin = 'URL'",
		"pools = 'URL'", "pools.default = 'URL'", "pools = { '' = 'URL' }", "pools = ['URL']",
		"engine = 'URL'\nmax_body = '1MiB'\nsweep_every = '1m'",
	} {
		for _, line := range (&fixture{t: t}).write(strings.ReplaceAll(text, "URL", url)).errors() {
			if strings.Contains(line, secret) {
				t.Errorf("%s shows the secret: %s", text, strings.ReplaceAll(line, secret, "SECRET"))
			}
		}
	}

	s := (&fixture{t: t}).write("engine = '" + url + "'")
	c := s.load()
	if text, _ := s.value(c, "engine"); text != "redis://***@127.0.0.1:6379/0" || c.Engine != url {
		t.Errorf("engine is shown as %s", text)
	}
}

// File, environment and flags accept the same values.
func TestEveryKindFromEverySource(t *testing.T) {
	t.Parallel()
	file := (&fixture{t: t}).write(`max_body = 2097152
answer_memory = '256MiB'
pools.orders = 'sqlite:x.db'
pools.a.b = 'redis://:pw@h'
trusted_proxies = ['10.1.2.3', '10.0.0.0/24']
lmstfy = 'off'
access_log = 'on'
[log]
level = 'ERROR'
`)
	env := &fixture{t: t, vars: map[string]string{
		"DULY_MAX_BODY":        "2MiB",
		"DULY_ANSWER_MEMORY":   "268435456",
		"DULY_TRUSTED_PROXIES": "10.1.2.3, 10.0.0.0/24",
		"DULY_LMSTFY":          "off",
		"DULY_LOG_LEVEL":       "error",
		"DULY_ACCESS_LOG":      "on",
		"DULY_POOLS":           "orders=sqlite:x.db a.b=redis://:pw@h",
	}}
	flags := &fixture{t: t, args: []string{
		"--max-body=2097152", "--answer-memory=256 MiB", "--trusted-proxy=10.1.2.3", "--trusted-proxy=10.0.0.0/24",
		"--lmstfy=off", "--log-level=error", "--access-log=on", "--pool=orders=sqlite:x.db",
		"--pool", "a.b=redis://:pw@h",
	}}

	for name, s := range map[string]*fixture{"file": file, "environment": env, "flags": flags} {
		c := s.load()
		for key, want := range map[string]string{
			"max_body": "2MiB", "answer_memory": "256MiB", "trusted_proxies": "10.1.2.3/32,10.0.0.0/24",
			"lmstfy": "off", "log.level": "error", "access_log": "on", "pools": "a.b=redis://***@h orders=sqlite:x.db",
		} {
			if text, _ := s.value(c, key); text != want {
				t.Errorf("%s: %s is %s, want %s", name, key, text, want)
			}
		}
	}
}

func TestMaxBodyIsSetOnce(t *testing.T) {
	t.Parallel()
	s := (&fixture{t: t}).write("engine = 'sqlite:x.db?max_body=1024'\nmax_body = 1024\n[log]\n")
	compare(t, s.errors(), []string{
		"duly.toml:2: max_body is also set in the URL of the engine; leave one of them out",
	})
}

func TestLoadChecksEngineURL(t *testing.T) {
	t.Parallel()
	src := (&fixture{t: t, args: []string{"--engine", "redis://"}}).sources()
	src.CheckURL = func(string) error { return contract.Invalid("url", "names no host") }
	_, err := Load(src)
	if err == nil || err.Error() != "--engine names no host" {
		t.Errorf("got %v", err)
	}
}

// The error of a URL's option names the option.
func TestEngineOptionErrorNamesOption(t *testing.T) {
	t.Parallel()
	src := (&fixture{t: t, args: []string{"--engine", "redis://127.0.0.1:1?durability=fsnc"}}).sources()
	src.CheckURL = open.CheckStore
	_, err := Load(src)
	const want = `--engine has an option durability that is "fsnc", must be none, aof or replicas:N`
	if err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestLoadPools(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ text, want string }{
		{"pools = 3", `duly.toml:1: pools is 3, must be a table of NAME = "URL"`},
		{
			"[pools]\norders = ''",
			`duly.toml:1: pools has "orders" without a URL; write NAME=URL, in a file NAME = "URL"`,
		},
		{
			"[pools]\ndefault = 'sqlite:x.db'",
			`duly.toml:1: pools has a pool default, which is the setting engine; leave it out here`,
		},
		{
			"[pools]\n'no way' = 'sqlite:x.db'",
			`duly.toml:1: pools has a pool "no way"; a name has letters, digits and . _ -`,
		},
		{
			"[pools]\na = 'bad:'\nb = 'sqlite:x.db'",
			`duly.toml:2: pools.a is bad`,
		},
	} {
		s := (&fixture{t: t}).write(tt.text)
		src := s.sources()
		src.CheckURL = func(url string) error {
			if url == "bad:" {
				return contract.Invalid("url", "is bad")
			}
			return nil
		}
		_, err := Load(src)
		if err == nil || s.withoutFolder(err.Error()) != tt.want {
			t.Errorf("%s: %v, want %s", tt.text, err, tt.want)
		}
	}

	s := &fixture{t: t, args: []string{"--pool", "a=sqlite:x.db", "--pool", "a=sqlite:y.db"}}
	compare(t, s.errors(), []string{`--pool has two pools "a"`})
}

// A server cannot serve another server's URL.
func TestLoadRejectsServerURL(t *testing.T) {
	t.Parallel()
	s := (&fixture{t: t, store: true}).write(`engine = 'http://SECRET@h/default'
pools.orders = 'https://SECRET@h'
pools.mails = 'ftp://SECRET@h'
`)
	got := s.errors()
	if len(got) != 3 {
		t.Fatalf("%q", got)
	}
	const hint = "; write sqlite:PATH for a file, or redis://HOST (redis+sentinel://, redis+cluster://) " +
		"for Redis or Valkey"

	for i, problem := range []string{
		"duly.toml:1: engine is ", "duly.toml:2: pools.orders is ", "duly.toml:3: pools.mails begins with ",
	} {
		if !strings.HasPrefix(got[i], problem) || !strings.HasSuffix(got[i], hint) || strings.Contains(got[i], "SECRET") {
			t.Errorf("%q", got[i])
		}
	}
}
