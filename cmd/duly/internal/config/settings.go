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

// Settings is how a server is set up. Every field has a line in [Table], which
// says what it means and what holds without it.
type Settings struct {
	// Engine is the URL of what is served; "" is the file in Data.
	Engine string
	// Pools are the URLs of more engines, by name.
	Pools map[string]string
	// Data is the folder of the server; "" is ./duly-data.
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
}

// Push says how jobs are sent by HTTP request.
type Push struct {
	// Enabled is true or false: whether this server sends jobs at all.
	Enabled string
	// URLs is any, or targets if jobs can name registered targets alone.
	URLs string
	// Ports, Allow, Deny, PlainHTTP and Proxy say what may be called.
	Ports       guard.Ports
	Allow, Deny []netip.Prefix
	PlainHTTP   string // on or off
	Proxy       string
	// Keys is the file of the keys that seal secrets; "" is push.key in the data folder.
	Keys        string
	Concurrency int
	Memory      int64
}

// TLS says what an address is served with. Without Cert it is plain HTTP.
type TLS struct {
	certs.Files
	// Config is what the files hold; nil for plain HTTP.
	Config *tls.Config
}

// Access says who may come in, and who is believed.
type Access struct {
	// AccountsFile names a file of accounts, and Accounts is what stands in it.
	AccountsFile string
	Accounts     []auth.Account
	Proxies      []netip.Prefix
}

// Log says what is written to standard error, and how.
type Log struct {
	Level  slog.Level
	Format string // text or json
	Access string // on or off
}

// Memory bounds what requests and answers may take, in bytes; 0 is what the
// server itself takes.
type Memory struct{ MaxBody, Answers int64 }

// Timing is for how long the server lets something be.
type Timing struct{ Drain, DrainDelay, Grace, SweepEvery time.Duration }
