package config

import (
	"crypto/tls"
	"log/slog"
	"net/netip"
	"time"

	"github.com/dulymq/duly/server/auth"
	"github.com/dulymq/duly/server/certs"
	"github.com/dulymq/duly/server/lmstfy"
	"github.com/dulymq/duly/server/webhook/guard"
)

// Settings is the configuration of a server. Every field has an entry in [Table] with
// its meaning and default.
type Settings struct {
	// Engine is the URL of the engine to serve. "" is the file in Data.
	Engine string
	// Pools are the URLs of further engines, by name.
	Pools map[string]string
	// Data is the folder of the server. "" is ./duly-data.
	Data            string
	Addr, AdminAddr string
	// Lmstfy is token, open or off.
	Lmstfy         string
	LmstfyDefaults lmstfy.Defaults

	TLS, AdminTLS TLS

	Access Access
	Log    Log
	Memory Memory
	Timing Timing
	Push   Push
	UI     UI
}

// UI configures the dashboard.
type UI struct {
	Enabled  string // on or off
	Insecure string // on or off
	Origin   string
	ReadOnly string // on or off
	Bodies   string // on or off
	// Label names the environment. Color is none or a color of the label.
	Label, Color string
	// History bounds the memory of the charts' history, in bytes.
	History int64
	// SessionKey is the file with the key of sessions. "" is ui-session.key in the data folder.
	SessionKey string
}

// Push configures HTTP push.
type Push struct {
	// Enabled is true or false: whether this server sends jobs.
	Enabled string
	// URLs is any, or targets if jobs can name only registered targets.
	URLs string
	// Ports, Allow, Deny, PlainHTTP and Proxy limit the addresses that jobs are sent to.
	Ports       guard.Ports
	Allow, Deny []netip.Prefix
	PlainHTTP   string // on or off
	Proxy       string
	// Keys is the file with the keys that seal secrets. "" is push.key in the data folder.
	Keys        string
	Concurrency int
	Memory      int64
}

// TLS holds the certificate files of an address. Without Cert it is plain HTTP.
type TLS struct {
	certs.Files
	// Config is the content of the files, nil for plain HTTP.
	Config *tls.Config
}

// Access configures accounts and trusted proxies.
type Access struct {
	// AccountsFile names a file of accounts. Accounts is its content.
	AccountsFile string
	Accounts     []auth.Account
	Proxies      []netip.Prefix
}

// Log configures the log on standard error.
type Log struct {
	Level  slog.Level
	Format string // text or json
	Access string // on or off
}

// Memory limits requests and answers, in bytes. 0 is the server's own default.
type Memory struct{ MaxBody, Answers int64 }

// Timing holds the server's timeouts and intervals.
type Timing struct{ Drain, DrainDelay, Grace, SweepEvery time.Duration }
