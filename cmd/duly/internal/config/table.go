package config

import (
	"math"
	"strings"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/server"
	"github.com/dulymq/duly/server/webhook/guard"
)

// Setting is one entry of the table of settings.
type Setting struct {
	// Key is the setting's name in the file, with its table: "log.level".
	Key string
	// Flag is its name on the command line, without the dashes.
	Flag string
	// Default is the value if the setting is not set, in the syntax of the file. If it is
	// "", Unset describes the behaviour without a value.
	Default, Unset string
	// Meaning describes the setting. Backquotes enclose the name of the flag's argument.
	Meaning string
	// Reloadable says that a running server applies a change when it reloads its
	// configuration. Other changes need a restart.
	Reloadable bool

	kind  kind
	oneOf []string
	// min and max limit a duration in nanoseconds, a size in bytes, or a number. A
	// duration is a multiple of step if step is not 0.
	min, max, step int64
	// shared says that every command has the flag.
	shared bool
	field  func(*Settings) any // returns a pointer to the field of Settings
}

// Variable returns the setting's name in the environment.
func (s *Setting) Variable() string {
	return prefix + strings.ToUpper(strings.ReplaceAll(s.Key, dot, "_"))
}

// OneOf returns the possible values, nil if they are not a list.
func (s *Setting) OneOf() []string { return s.oneOf }

const (
	second = int64(time.Second)
	// maxSeconds is the longest duration in lmstfy's API, in nanoseconds.
	maxSeconds = math.MaxUint32 * second
)

// Table lists every setting, in the order of the documentation.
var Table = []*Setting{
	{
		Key: "engine", Flag: "engine", Unset: "sqlite:DATA/duly.db",
		kind:    engine,
		Meaning: "`URL` of the engine to serve: sqlite:PATH or redis://HOST",
		field:   func(s *Settings) any { return &s.Engine },
	},
	{
		Key: "pools", Flag: "pool", Unset: "the one engine",
		kind:    poolList,
		Meaning: "a further engine, as `NAME=URL`; may be repeated",
		field:   func(s *Settings) any { return &s.Pools },
	},
	{
		Key: "data", Flag: "data", shared: true, Unset: "./duly-data",
		kind: text,
		Meaning: "`folder` of this server: the embedded engine's file, the first token, and its addresses for the " +
			"other commands",
		field: func(s *Settings) any { return &s.Data },
	},
	{
		Key: "addr", Flag: "addr", Default: server.DefaultAddr,
		kind:    address,
		Meaning: "listen address for producers and workers, as `host:port`",
		field:   func(s *Settings) any { return &s.Addr },
	},
	{
		Key: "admin_addr", Flag: "admin-addr", Default: server.DefaultAdminAddr,
		kind:    address,
		Meaning: "listen address for operators, as `host:port`",
		field:   func(s *Settings) any { return &s.AdminAddr },
	},
	{
		Key: "admin_accounts", Flag: "admin-accounts", Unset: "no accounts", Reloadable: true,
		kind:    text,
		Meaning: "`file` with a line NAME:PASSWORD for each account of the admin address (basic auth)",
		field:   func(s *Settings) any { return &s.Access.AccountsFile },
	},
	{
		Key: "trusted_proxies", Flag: "trusted-proxy", Unset: "none", Reloadable: true,
		kind:    networks,
		Meaning: "`network` (10.0.0.0/24) of proxies whose X-Forwarded-For names the client; may be repeated",
		field:   func(s *Settings) any { return &s.Access.Proxies },
	},
	{
		Key: "tls.cert", Flag: "tls-cert", Unset: "plain HTTP", Reloadable: true,
		kind:    text,
		Meaning: "`file` with the certificate of the API and its intermediate certificates, in PEM",
		field:   func(s *Settings) any { return &s.TLS.Cert },
	},
	{
		Key: "tls.key", Flag: "tls-key", Unset: "none", Reloadable: true,
		kind:    text,
		Meaning: "`file` with the private key of that certificate, in PEM",
		field:   func(s *Settings) any { return &s.TLS.Key },
	},
	{
		Key: "tls.client_ca", Flag: "tls-client-ca", Unset: "clients need no certificate", Reloadable: true,
		kind:    text,
		Meaning: "`file` with authorities, in PEM; every client of the API needs a certificate of one of them",
		field:   func(s *Settings) any { return &s.TLS.ClientCA },
	},
	{
		Key: "admin_tls.cert", Flag: "admin-tls-cert", Unset: "plain HTTP", Reloadable: true,
		kind:    text,
		Meaning: "`file` with the certificate of the admin address and its intermediate certificates, in PEM",
		field:   func(s *Settings) any { return &s.AdminTLS.Cert },
	},
	{
		Key: "admin_tls.key", Flag: "admin-tls-key", Unset: "none", Reloadable: true,
		kind:    text,
		Meaning: "`file` with the private key of that certificate, in PEM",
		field:   func(s *Settings) any { return &s.AdminTLS.Key },
	},
	{
		Key: "admin_tls.client_ca", Flag: "admin-tls-client-ca", Unset: "clients need no certificate", Reloadable: true,
		kind: text,
		Meaning: "`file` with authorities, in PEM; every client of the admin address needs a certificate of one of " +
			"them",
		field: func(s *Settings) any { return &s.AdminTLS.ClientCA },
	},
	{
		Key: "lmstfy", Flag: "lmstfy", Default: string(server.LmstfyToken),
		kind:  choice,
		oneOf: []string{string(server.LmstfyToken), string(server.LmstfyOpen), string(server.LmstfyOff)},
		Meaning: "serve lmstfy's API too: token (its admin routes need a token or an account), open (callers on this " +
			"machine need none, as with lmstfy) or off",
		field: func(s *Settings) any { return &s.Lmstfy },
	},
	{
		Key: "lmstfy_ttl", Flag: "lmstfy-ttl", Default: "1d",
		kind: duration, step: second, max: maxSeconds,
		Meaning: "time to live of jobs that lmstfy's API publishes without a ttl; 0s is none",
		field:   func(s *Settings) any { return &s.LmstfyDefaults.TTL },
	},
	{
		Key: "lmstfy_delay", Flag: "lmstfy-delay", Default: "0s",
		kind: duration, step: second, max: maxSeconds,
		Meaning: "delay of jobs that are published without a delay",
		field:   func(s *Settings) any { return &s.LmstfyDefaults.Delay },
	},
	{
		Key: "lmstfy_tries", Flag: "lmstfy-tries", Default: "1",
		kind: count, min: 1, max: math.MaxUint16,
		Meaning: "tries of jobs that are published without tries",
		field:   func(s *Settings) any { return &s.LmstfyDefaults.Tries },
	},
	{
		Key: "lmstfy_ttr", Flag: "lmstfy-ttr", Default: "2m",
		kind: duration, step: second, max: maxSeconds,
		Meaning: "lease of a consume without a ttr",
		field:   func(s *Settings) any { return &s.LmstfyDefaults.TTR },
	},
	{
		Key: "lmstfy_timeout", Flag: "lmstfy-timeout", Default: "0s",
		kind: duration, step: second, max: maxSeconds,
		Meaning: "wait of a consume without a timeout",
		field:   func(s *Settings) any { return &s.LmstfyDefaults.Timeout },
	},
	{
		Key: "log.level", Flag: "log-level", Default: "info", Reloadable: true,
		kind:    level,
		oneOf:   []string{"debug", "info", "warn", "error"},
		Meaning: "lowest `level` to log: debug, info, warn or error",
		field:   func(s *Settings) any { return &s.Log.Level },
	},
	{
		Key: "log.format", Flag: "log-format", Default: "text", Reloadable: true,
		kind:    choice,
		oneOf:   []string{"text", "json"},
		Meaning: "`format` of the log on standard error: text or json",
		field:   func(s *Settings) any { return &s.Log.Format },
	},
	{
		Key: "access_log", Flag: "access-log", Default: "off", Reloadable: true,
		kind:    choice,
		oneOf:   []string{"on", "off"},
		Meaning: "on: log every request; off: log failed requests, and all requests at level debug",
		field:   func(s *Settings) any { return &s.Log.Access },
	},
	{
		Key: "max_body", Flag: "max-body", Unset: "1 MiB, or what the engine's URL says",
		kind: size, min: 1, max: duly.MaxMaxBody,
		Meaning: "largest body of a job, in `bytes`",
		field:   func(s *Settings) any { return &s.Memory.MaxBody },
	},
	{
		Key: "answer_memory", Flag: "answer-memory", Unset: "128 MiB, or four times max_body",
		kind: size, min: 1 << 20, max: math.MaxInt64,
		Meaning: "`bytes` for all long answers together; further callers wait, and are refused after the time of " +
			"--grace",
		field: func(s *Settings) any { return &s.Memory.Answers },
	},
	{
		Key: "drain", Flag: "drain", Default: duly.FormatDuration(server.DefaultDrain), Reloadable: true,
		kind: duration, max: int64(24 * time.Hour),
		Meaning: "how long requests may run after INT or TERM",
		field:   func(s *Settings) any { return &s.Timing.Drain },
	},
	{
		Key: "drain_delay", Flag: "drain-delay", Default: "0s",
		kind: duration, max: int64(time.Hour),
		Meaning: "how long to serve after INT or TERM while /readyz fails, so that a load balancer can react",
		field:   func(s *Settings) any { return &s.Timing.DrainDelay },
	},
	{
		Key: "grace", Flag: "grace", Default: "10s", Reloadable: true,
		kind: duration, min: int64(100 * time.Millisecond), max: int64(time.Hour),
		Meaning: "how long a request or an answer may take before it must move at 1 KiB per second",
		field:   func(s *Settings) any { return &s.Timing.Grace },
	},
	{
		Key: "sweep_every", Flag: "sweep-every", Default: "30s",
		kind: duration, min: int64(time.Second), max: int64(30 * time.Second),
		Meaning: "interval of the checks of queues without callers",
		field:   func(s *Settings) any { return &s.Timing.SweepEvery },
	},
	{
		Key: "push.enabled", Flag: "push", Default: "true",
		kind:    choice,
		oneOf:   []string{"true", "false"},
		Meaning: "true: send the jobs of push queues to their receivers; false: other servers do that",
		field:   func(s *Settings) any { return &s.Push.Enabled },
	},
	{
		Key: "push.urls", Flag: "push-urls", Default: "any", Reloadable: true,
		kind:    choice,
		oneOf:   []string{"any", "targets"},
		Meaning: "destinations that jobs and queues may name: any URL, or only registered targets",
		field:   func(s *Settings) any { return &s.Push.URLs },
	},
	{
		Key: "push.allow", Flag: "push-allow", Unset: "none", Reloadable: true,
		kind:    ranges,
		Meaning: "private or special `network` that jobs may be sent to, as 10.1.0.0/16; may be repeated",
		field:   func(s *Settings) any { return &s.Push.Allow },
	},
	{
		Key: "push.deny", Flag: "push-deny", Unset: "none", Reloadable: true,
		kind:    ranges,
		Meaning: "`network` that no job is sent to; overrides push.allow; may be repeated",
		field:   func(s *Settings) any { return &s.Push.Deny },
	},
	{
		Key: "push.ports", Flag: "push-ports", Default: guard.DefaultPorts().String(), Reloadable: true,
		kind:    ports,
		Meaning: "`ports` that jobs may be sent to",
		field:   func(s *Settings) any { return &s.Push.Ports },
	},
	{
		Key: "push.plain_http", Flag: "push-plain-http", Default: "off", Reloadable: true,
		kind:    choice,
		oneOf:   []string{"on", "off"},
		Meaning: "on: http URLs may have public addresses; off: they reach only addresses inside push.allow",
		field:   func(s *Settings) any { return &s.Push.PlainHTTP },
	},
	{
		Key: "push.proxy", Flag: "push-proxy", Unset: "none", Reloadable: true,
		kind:    proxy,
		Meaning: "`URL` of an http or https proxy for all requests; it then decides about addresses",
		field:   func(s *Settings) any { return &s.Push.Proxy },
	},
	{
		Key: "push.keys", Flag: "push-keys", Unset: "DATA/push.key",
		kind: text,
		Meaning: "`file` with the keys that seal secrets, one per line; the first one seals; all servers on one " +
			"engine need the same file",
		field: func(s *Settings) any { return &s.Push.Keys },
	},
	{
		Key: "push.concurrency", Flag: "push-concurrency", Default: "256",
		kind: count, min: 4, max: 10_000,
		Meaning: "`number` of requests in flight, over all hosts",
		field:   func(s *Settings) any { return &s.Push.Concurrency },
	},
	{
		Key: "push.memory", Flag: "push-memory", Default: "64MiB",
		kind: size, min: 1 << 20, max: math.MaxInt64,
		Meaning: "`bytes` for the bodies of the requests in flight",
		field:   func(s *Settings) any { return &s.Push.Memory },
	},
	{
		Key: "ui.enabled", Flag: "ui", Default: "on",
		kind: choice, oneOf: []string{"on", "off"},
		Meaning: "on: serve the dashboard on the admin address, below /ui",
		field:   func(s *Settings) any { return &s.UI.Enabled },
	},
	{
		Key: "ui.insecure", Flag: "ui-insecure", Default: "off",
		kind: choice, oneOf: []string{"on", "off"},
		Meaning: "on: permit a login over plain HTTP on an address that other machines reach",
		field:   func(s *Settings) any { return &s.UI.Insecure },
	},
	{
		Key: "ui.origin", Flag: "ui-origin", Unset: "none",
		kind:    text,
		Meaning: "`URL` of a proxy in front of the dashboard, such as https://duly.example.com",
		field:   func(s *Settings) any { return &s.UI.Origin },
	},
	{
		Key: "ui.read_only", Flag: "ui-read-only", Default: "off",
		kind: choice, oneOf: []string{"on", "off"},
		Meaning: "on: the dashboard changes nothing, whatever the rights of a session",
		field:   func(s *Settings) any { return &s.UI.ReadOnly },
	},
	{
		Key: "ui.bodies", Flag: "ui-bodies", Default: "on",
		kind: choice, oneOf: []string{"on", "off"},
		Meaning: "off: the dashboard shows no bodies, headers and results",
		field:   func(s *Settings) any { return &s.UI.Bodies },
	},
	{
		Key: "ui.label", Flag: "ui-label", Unset: "none",
		kind:    text,
		Meaning: "`name` of the environment in the header and the title of the dashboard",
		field:   func(s *Settings) any { return &s.UI.Label },
	},
	{
		Key: "ui.color", Flag: "ui-color", Default: "none",
		kind: choice, oneOf: []string{"none", "blue", "green", "orange", "red"},
		Meaning: "color of that name",
		field:   func(s *Settings) any { return &s.UI.Color },
	},
	{
		Key: "ui.session_key_file", Flag: "ui-session-key-file", Unset: "DATA/ui-session.key",
		kind:    text,
		Meaning: "`file` with the key that seals the dashboard's sessions; servers with one file share their sessions",
		field:   func(s *Settings) any { return &s.UI.SessionKey },
	},
	{
		Key: "ui.history", Flag: "ui-history", Default: "64MiB",
		kind: size, min: 1 << 20, max: math.MaxInt64,
		Meaning: "`bytes` of memory for the history of the dashboard's charts; beyond it the quietest queues lose theirs",
		field:   func(s *Settings) any { return &s.UI.History },
	},
}

// settingOf returns the setting with a key, or nil if there is none.
func settingOf(key string) *Setting {
	for _, s := range Table {
		if s.Key == key {
			return s
		}
	}
	return nil
}
