package config

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// lmstfyFixture returns a fixture with an lmstfy file.
func lmstfyFixture(t *testing.T, text string) (*fixture, Sources) {
	t.Helper()
	s := (&fixture{t: t}).write(text)
	src := s.sources()
	src.File, src.Lmstfy = "", s.file
	return s, src
}

const sample = `Host = "0.0.0.0"
Port = 7777
AdminPort = 7778
LogLevel = "warning"
LogFormat = "json"
LogDir = "/var/log/lmstfy"
enableaccesslog = true
TTLSecond = 3600
TriesNum = 3
TTRSecond = 30
Colour = "blue"

[Accounts]
ada = "first-password"

[AdminRedis]
Addr = "10.0.0.9:6379"
Password = "s3cr3t-of-mine"

[Pool]
[Pool.default]
Addr = "10.0.0.9:6379"
Password = "p/a:s@s3cr3t-of-mine"
DB = 2
PoolSize = 1000

[Pool.orders]
Addr = "10.0.0.7:6379"

[Pool.old]
Addr = "10.0.0.8:6379"
Version = "v2"
`

// C15.8: every key of an lmstfy file becomes a setting, or is listed as ignored with a
// reason.
func TestLoadLmstfyFile(t *testing.T) {
	t.Parallel()
	s, src := lmstfyFixture(t, sample)
	c, err := Load(src)
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string][2]string{
		"addr":         {"0.0.0.0:7777", "duly.toml:1"},
		"admin_addr":   {"127.0.0.1:7778", "duly.toml:3"},
		"log.level":    {"warn", "duly.toml:4"},
		"log.format":   {"json", "duly.toml:5"},
		"access_log":   {"on", "duly.toml:7"},
		"lmstfy_ttl":   {"1h", "duly.toml:8"},
		"lmstfy_tries": {"3", "duly.toml:9"},
		"lmstfy_ttr":   {"30s", "duly.toml:10"},
		"lmstfy_delay": {"0s", "default"},
		"engine":       {"redis://***@10.0.0.9:6379/2", "duly.toml:22"},
		"pools":        {"orders=redis://10.0.0.7:6379/0", "duly.toml:28"},
	} {
		if text, origin := s.value(c, key); text != want[0] || origin != want[1] {
			t.Errorf("%s is %s from %s, want %s", key, text, origin, want)
		}
	}
	if c.Engine != "redis://:p%2Fa%3As%40s3cr3t-of-mine@10.0.0.9:6379/2" || len(c.Access.Accounts) != 1 ||
		c.Access.Accounts[0].Name != "ada" || c.LmstfyDefaults.TTL != time.Hour {
		t.Errorf("%+v", c.Settings)
	}

	var ignored []string
	for _, i := range c.Ignored {
		ignored = append(ignored, fmt.Sprintf("%d %s", i.Origin.Line, i.Key))
		if i.Reason == "" || strings.Contains(i.Reason, "s3cr3t") {
			t.Errorf("%s: %q", i.Key, i.Reason)
		}
	}
	compare(t, ignored, []string{
		"6 LogDir", "11 Colour", "17 AdminRedis", "25 Pool.default.PoolSize", "31 Pool.old",
	})
}

// C15.8: errors in an lmstfy file name the key and the line.
func TestLmstfyFileErrors(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"AdminPort = 7778\n[Pool.default]\nAddr = '127.0.0.1:6379'\n": {
			"duly.toml: Host is missing; lmstfy requires it too",
			"duly.toml: Port is missing; lmstfy requires it too"},
		"Host = '127.0.0.1'\nPort = '7777'\nAdminPort = 70000\nLogLevel = 'loud'\n": {
			"duly.toml: Pool.default is missing; lmstfy requires it too",
			`duly.toml:2: Port is "7777", must be a number between 1 and 65535`,
			`duly.toml:3: AdminPort is 70000, must be a number between 1 and 65535`,
			`duly.toml:4: LogLevel is "loud", must be panic, fatal, error, warn, info, debug or trace`},
		"Host = 'h'\nPort = 1\nAdminPort = 2\nLogFormat = 'yaml'\nEnableAccessLog = 'true'\n" +
			"[Pool.default]\nAddr = '127.0.0.1:6379'\n": {
			`duly.toml:4: LogFormat is "yaml", must be text or json`,
			`duly.toml:5: EnableAccessLog is "true", must be true or false, without quotes`},
		"Host = 'h'\nPort = 1\nAdminPort = 2\nLogFormat = 'text'\nEnableAccessLog = 1\n" +
			"[Pool.default]\nAddr = '127.0.0.1:6379'\n": {
			`duly.toml:5: EnableAccessLog is 1, must be true or false, without quotes`},
		"Host = 'h'\nPort = 1\nAdminPort = 2\nTTRSecond = -1\n[Accounts]\nada = 'short'\n" +
			"[Pool.default]\nPassword = 's3cr3t-of-mine'\nDB = -1\n": {
			"duly.toml:4: TTRSecond is -1, must be a number between 0 and 4294967295",
			"duly.toml:6: Accounts.ada cannot be an account: has 5 bytes, must have at least 8",
			"duly.toml:7: Pool.default.Addr is missing; lmstfy requires it too",
			"duly.toml:9: Pool.default.DB is -1, must be a number between 0 and 2147483647"},
	} {
		s, src := lmstfyFixture(t, text)
		_, err := Load(src)
		errs, ok := err.(Errors)
		if !ok {
			t.Fatalf("%s: %v", text, err)
		}
		var got []string
		for _, e := range errs {
			got = append(got, s.withoutFolder(e.Error()))
		}
		compare(t, got, want)
	}
}

// C15.8: an lmstfy file can name a pool behind Redis Sentinel.
func TestLmstfyPoolBehindSentinel(t *testing.T) {
	t.Parallel()
	_, src := lmstfyFixture(t, `Host = "127.0.0.1"
Port = 7777
AdminPort = 7778
[Pool.default]
Addr = "10.0.0.1:26379,10.0.0.2:26379"
MasterName = "mymaster"
SentinelPassword = "two"
Password = "one"
DB = 3
`)
	c, err := Load(src)
	const want = "redis+sentinel://:one@10.0.0.1:26379,10.0.0.2:26379/mymaster/3?sentinel_password=two"
	if err != nil || c.Engine != want {
		t.Errorf("%v, %v, want %s", c, err, want)
	}
}

// C15.30: a configuration file and an lmstfy file exclude each other.
func TestLoadRejectsTwoFiles(t *testing.T) {
	t.Parallel()
	s, src := lmstfyFixture(t, sample)
	own := (&fixture{t: t}).write("drain = '1s'\n")
	src.File = own.file
	_, err := Load(src)
	want := s.file + ": cannot be used together with " + own.file + "; use one of the two files"
	if err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
