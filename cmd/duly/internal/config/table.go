package config

import (
	"math"
	"strings"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/server"
	"github.com/dulymq/duly/server/webhook/guard"
)

// Setting is one line of the table of settings.
type Setting struct {
	// Key is its name in the file, with its table: "log.level".
	Key string
	// Flag is its name on the command line, without the dashes.
	Flag string
	// Default is what holds where nobody sets it, as one would write it. Where
	// it is "", Unset says in words what then holds.
	Default, Unset string
	// Meaning says what it does. The argument of the flag stands in backquotes.
	Meaning string
	// Live tells that a running server takes it over when it reads its
	// configuration anew; else it has to be restarted.
	Live bool

	kind  kind
	oneOf []string
	// least and most bound a duration, in nanoseconds, a size, in bytes, or a
	// number. A duration is a multiple of step, if that is not 0.
	least, most, step int64
	// shared tells that every command has the flag.
	shared bool
	to     func(*Settings) any // the field that it sets
}

// Variable is the setting's name in the environment.
func (s *Setting) Variable() string {
	return prefix + strings.ToUpper(strings.ReplaceAll(s.Key, dot, "_"))
}

// OneOf lists what the value may be; nil where that is no list.
func (s *Setting) OneOf() []string { return s.oneOf }

const (
	second = int64(time.Second)
	// mostSeconds is the most that lmstfy's API can say, in nanoseconds.
	mostSeconds = math.MaxUint32 * second
)

// Table is every setting, in the order of the documentation.
var Table = []*Setting{
	{
		Key: "engine", Flag: "engine", Unset: "sqlite:DATA/duly.db", kind: engine, to: func(s *Settings) any { return &s.Engine },
		Meaning: "`URL` of the engine to serve: sqlite:PATH or redis://HOST",
	},
	{
		Key: "pools", Flag: "pool", Unset: "the one engine", kind: poolList, to: func(s *Settings) any { return &s.Pools },
		Meaning: "one more engine, as `NAME=URL`; may be repeated",
	},
	{
		Key: "data", Flag: "data", shared: true, Unset: "./duly-data", kind: text, to: func(s *Settings) any { return &s.Data },
		Meaning: "`folder` of this server: the embedded engine's file, the first token, and where it listens, for the other commands",
	},
	{
		Key: "addr", Flag: "addr", Default: server.DefaultAddr, kind: address, to: func(s *Settings) any { return &s.Addr },
		Meaning: "where producers and workers connect, as `host:port`",
	},
	{
		Key: "admin_addr", Flag: "admin-addr", Default: server.DefaultAdminAddr, kind: address, to: func(s *Settings) any { return &s.AdminAddr },
		Meaning: "where operators connect, as `host:port`",
	},
	{
		Key: "admin_accounts", Flag: "admin-accounts", Unset: "no accounts", Live: true, kind: text, to: func(s *Settings) any { return &s.Access.AccountsFile },
		Meaning: "`file` with a line NAME:PASSWORD for each who may use the admin address by basic auth",
	},
	{
		Key: "trusted_proxies", Flag: "trusted-proxy", Unset: "none", Live: true,
		kind: networks, to: func(s *Settings) any { return &s.Access.Proxies },
		Meaning: "`network` (10.0.0.0/24) of proxies whose X-Forwarded-For names the client; may be repeated",
	},
	{
		Key: "tls.cert", Flag: "tls-cert", Unset: "plain HTTP", Live: true, kind: text, to: func(s *Settings) any { return &s.TLS.Cert },
		Meaning: "`file` with the certificate of the API, and what stands between it and its authority, in PEM",
	},
	{
		Key: "tls.key", Flag: "tls-key", Unset: "none", Live: true, kind: text, to: func(s *Settings) any { return &s.TLS.Key },
		Meaning: "`file` with the private key of that certificate, in PEM",
	},
	{
		Key: "tls.client_ca", Flag: "tls-client-ca", Unset: "clients need no certificate", Live: true, kind: text, to: func(s *Settings) any { return &s.TLS.ClientCA },
		Meaning: "`file` with the authorities, in PEM, one of which must have signed the certificate of every client of the API",
	},
	{
		Key: "admin_tls.cert", Flag: "admin-tls-cert", Unset: "plain HTTP", Live: true, kind: text, to: func(s *Settings) any { return &s.AdminTLS.Cert },
		Meaning: "`file` with the certificate of the admin address, and what stands between it and its authority, in PEM",
	},
	{
		Key: "admin_tls.key", Flag: "admin-tls-key", Unset: "none", Live: true, kind: text, to: func(s *Settings) any { return &s.AdminTLS.Key },
		Meaning: "`file` with the private key of that certificate, in PEM",
	},
	{
		Key: "admin_tls.client_ca", Flag: "admin-tls-client-ca", Unset: "clients need no certificate", Live: true, kind: text, to: func(s *Settings) any { return &s.AdminTLS.ClientCA },
		Meaning: "`file` with the authorities, in PEM, one of which must have signed the certificate of every client of the admin address",
	},
	{
		Key: "lmstfy", Flag: "lmstfy", Default: string(server.LmstfyToken), kind: choice, to: func(s *Settings) any { return &s.Lmstfy },
		oneOf:   []string{string(server.LmstfyToken), string(server.LmstfyOpen), string(server.LmstfyOff)},
		Meaning: "serve lmstfy's API beside duly's own: token (its admin routes need a token or an account), open (callers on this machine need none, as with lmstfy) or off",
	},
	{
		Key: "lmstfy_ttl", Flag: "lmstfy-ttl", Default: "1d", kind: span, step: second, most: mostSeconds, to: func(s *Settings) any { return &s.LmstfyDefaults.TTL },
		Meaning: "the time to live of jobs that lmstfy's API publishes without a ttl; 0s is none",
	},
	{
		Key: "lmstfy_delay", Flag: "lmstfy-delay", Default: "0s", kind: span, step: second, most: mostSeconds, to: func(s *Settings) any { return &s.LmstfyDefaults.Delay },
		Meaning: "the delay of those without a delay",
	},
	{
		Key: "lmstfy_tries", Flag: "lmstfy-tries", Default: "1", kind: count, least: 1, most: math.MaxUint16, to: func(s *Settings) any { return &s.LmstfyDefaults.Tries },
		Meaning: "the tries of those without tries",
	},
	{
		Key: "lmstfy_ttr", Flag: "lmstfy-ttr", Default: "2m", kind: span, step: second, most: mostSeconds, to: func(s *Settings) any { return &s.LmstfyDefaults.TTR },
		Meaning: "the lease of a consume without a ttr",
	},
	{
		Key: "lmstfy_timeout", Flag: "lmstfy-timeout", Default: "0s", kind: span, step: second, most: mostSeconds, to: func(s *Settings) any { return &s.LmstfyDefaults.Timeout },
		Meaning: "how long a consume without a timeout waits",
	},
	{
		Key: "log.level", Flag: "log-level", Default: "info", Live: true, kind: level, to: func(s *Settings) any { return &s.Log.Level },
		oneOf:   []string{"debug", "info", "warn", "error"},
		Meaning: "the least `level` to log: debug, info, warn or error",
	},
	{
		Key: "log.format", Flag: "log-format", Default: "text", Live: true, kind: choice, to: func(s *Settings) any { return &s.Log.Format },
		oneOf:   []string{"text", "json"},
		Meaning: "`format` of the log on standard error: text or json",
	},
	{
		Key: "access_log", Flag: "access-log", Default: "off", Live: true, kind: choice, to: func(s *Settings) any { return &s.Log.Access },
		oneOf:   []string{"on", "off"},
		Meaning: "on: log a line for every request; off: only for those that fail, and at level debug for all",
	},
	{
		Key: "max_body", Flag: "max-body", Unset: "1 MiB, or what the engine's URL says", kind: size, least: 1, most: duly.MaxMaxBody, to: func(s *Settings) any { return &s.Memory.MaxBody },
		Meaning: "the most `bytes` that a job's body may have",
	},
	{
		Key: "answer_memory", Flag: "answer-memory", Unset: "128 MiB, or four times max_body", kind: size, least: 1 << 20, most: math.MaxInt64, to: func(s *Settings) any { return &s.Memory.Answers },
		Meaning: "`bytes` for all long answers together; who asks while others use them waits, and is refused after the time of --grace",
	},
	{
		Key: "drain", Flag: "drain", Default: duly.FormatDuration(server.DefaultDrain), Live: true, kind: span, most: int64(24 * time.Hour), to: func(s *Settings) any { return &s.Timing.Drain },
		Meaning: "how long requests may take to end after INT or TERM",
	},
	{
		Key: "drain_delay", Flag: "drain-delay", Default: "0s", kind: span, most: int64(time.Hour), to: func(s *Settings) any { return &s.Timing.DrainDelay },
		Meaning: "how long to go on after INT or TERM with /readyz red, so that a balancer notices",
	},
	{
		Key: "grace", Flag: "grace", Default: "10s", Live: true, kind: span, least: int64(100 * time.Millisecond), most: int64(time.Hour), to: func(s *Settings) any { return &s.Timing.Grace },
		Meaning: "how long a request may take to arrive, and an answer to be taken, before they must come at 1 KiB a second",
	},
	{
		Key: "sweep_every", Flag: "sweep-every", Default: "30s", kind: span, least: int64(time.Second), most: int64(30 * time.Second), to: func(s *Settings) any { return &s.Timing.SweepEvery },
		Meaning: "how often queues that nobody asks for are looked at",
	},
	{
		Key: "push.enabled", Flag: "push", Default: "true", kind: choice, to: func(s *Settings) any { return &s.Push.Enabled },
		oneOf:   []string{"true", "false"},
		Meaning: "true: send the jobs of push queues to their receivers; false: leave that to other servers",
	},
	{
		Key: "push.urls", Flag: "push-urls", Default: "any", Live: true, kind: choice, to: func(s *Settings) any { return &s.Push.URLs },
		oneOf:   []string{"any", "targets"},
		Meaning: "what jobs and queues can name as a destination: any URL, or registered targets alone",
	},
	{
		Key: "push.allow", Flag: "push-allow", Unset: "none", Live: true, kind: ranges, to: func(s *Settings) any { return &s.Push.Allow },
		Meaning: "`network` that jobs may be sent to although it is private or special, as 10.1.0.0/16; may be repeated",
	},
	{
		Key: "push.deny", Flag: "push-deny", Unset: "none", Live: true, kind: ranges, to: func(s *Settings) any { return &s.Push.Deny },
		Meaning: "`network` that no job is sent to; overrides push.allow; may be repeated",
	},
	{
		Key: "push.ports", Flag: "push-ports", Default: guard.DefaultPorts().String(), Live: true, kind: ports, to: func(s *Settings) any { return &s.Push.Ports },
		Meaning: "`ports` that jobs may be sent to",
	},
	{
		Key: "push.plain_http", Flag: "push-plain-http", Default: "off", Live: true, kind: choice, to: func(s *Settings) any { return &s.Push.PlainHTTP },
		oneOf:   []string{"on", "off"},
		Meaning: "on: http URLs may have public addresses; off: they reach only addresses inside push.allow",
	},
	{
		Key: "push.proxy", Flag: "push-proxy", Unset: "none", Live: true, kind: proxy, to: func(s *Settings) any { return &s.Push.Proxy },
		Meaning: "`URL` of an http or https proxy for all requests; it then decides about addresses",
	},
	{
		Key: "push.keys", Flag: "push-keys", Unset: "DATA/push.key", kind: text, to: func(s *Settings) any { return &s.Push.Keys },
		Meaning: "`file` with the keys that seal secrets, one in a line, the one that seals first; all servers on one engine need the same",
	},
	{
		Key: "push.concurrency", Flag: "push-concurrency", Default: "256", kind: count, least: 4, most: 10_000, to: func(s *Settings) any { return &s.Push.Concurrency },
		Meaning: "`number` of requests in flight, over all hosts",
	},
	{
		Key: "push.memory", Flag: "push-memory", Default: "64MiB", kind: size, least: 1 << 20, most: math.MaxInt64, to: func(s *Settings) any { return &s.Push.Memory },
		Meaning: "`bytes` for the bodies of the requests in flight",
	},
}

// named finds the setting of a key.
func named(key string) *Setting {
	for _, s := range Table {
		if s.Key == key {
			return s
		}
	}
	return nil
}
