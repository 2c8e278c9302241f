package link

import (
	"crypto/tls"
	"crypto/x509"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
)

// Scripts says how scripts are sent to the servers.
type Scripts string

// These are the ways to send scripts.
const (
	// Auto uses functions if the server has them and its user may load and call them. Otherwise
	// it uses EVAL.
	Auto Scripts = "auto"
	// Functions makes Open fail for servers where functions can't be used.
	Functions Scripts = "functions"
	// Eval uses EVAL only, for proxies and servers without functions. The server then runs all of
	// a script's definitions at every call.
	Eval Scripts = "eval"
)

// Options holds the settings of a URL. The zero Options with one address means a single server
// and all defaults.
type Options struct {
	// Mode is the kind of servers at the addresses. Default Single.
	Mode Mode
	// Addrs has host:port of the server, of the Sentinels, or of some nodes of the cluster.
	// With Unix it has the path of a single server's socket.
	Addrs []string
	Unix  bool
	// User and Password are the server's login. Default: the default user, and no password.
	User, Password string
	// DB is the number of the database, from 0 on. A cluster has only 0.
	DB int
	// TLS is nil for plain connections.
	TLS *TLS
	// Sentinel is used only in Mode Sentinel.
	Sentinel SentinelOptions
	// Prefix begins every key and channel. It has 1 to 64 of A-Z, a-z, 0-9, dot, underscore,
	// colon and hyphen. Default DefaultPrefix.
	Prefix string
	// Durability is what RunDurable waits for. By default it waits for nothing.
	Durability Durability
	// Scripts is how scripts are sent. Default Auto.
	Scripts Scripts
	// EvictionWarn accepts a server that may drop keys when its memory is full, and logs a
	// warning every minute. Otherwise Open fails for such a server.
	EvictionWarn bool
	// Dial bounds the time to open a connection, with its greeting: 1 ms to an hour. Default
	// DefaultDial.
	Dial time.Duration
	// Retry is how long a call without a deadline is retried if it certainly did not run: 1 ms to
	// an hour. Default DefaultRetry.
	Retry time.Duration
	// Observe, if set, is called after every round trip that does not block, for each call in it,
	// with its name and duration.
	Observe func(call string, took time.Duration)
	// Sent, if set, returns the script to send in place of the given one, for tests.
	Sent func(*Script) *Script
	// Clock is this process's clock, for tests. Default clock.System.
	Clock clock.Clock
	// Others has the options that ParseURL does not know and its caller has named.
	Others map[string]string
}

// Mode is the kind of servers at the addresses.
type Mode string

// The kinds of servers.
const (
	Single   Mode = "single"
	Sentinel Mode = "sentinel"
	Cluster  Mode = "cluster"
)

// Defaults of Options.
const (
	DefaultPrefix = "duly"
	DefaultDial   = 5 * time.Second
	DefaultRetry  = 5 * time.Second
	// DefaultDurable bounds the wait for the durability of a call.
	DefaultDurable = 5 * time.Second
)

// SentinelOptions names the primary that the Sentinels watch, and has the user and password of the
// Sentinels.
type SentinelOptions struct {
	Master         string
	User, Password string
}

// TLS has the certificates to trust and to present. Files are PEM.
type TLS struct {
	CA         string // file of certificate authorities; default: the system's
	Cert, Key  string // files of the client's certificate; default: none
	ServerName string // expected name in the server's certificate; default: the host
	SkipVerify bool   // accept any certificate
}

// Durability is the condition under which a write counts as stored: the fsync of the server's
// append-only file, the confirmation of replicas, or neither.
type Durability struct {
	AOF      bool
	Replicas int           // number of replicas that must confirm, up to 100; unused with AOF
	Timeout  time.Duration // 1 ms to an hour; default DefaultDurable
}

// Asked reports whether calls wait for durability.
func (d Durability) Asked() bool { return d.AOF || d.Replicas > 0 }

func (o Options) withDefaults() Options {
	if o.Mode == "" {
		o.Mode = Single
	}
	if o.Prefix == "" {
		o.Prefix = DefaultPrefix
	}
	if o.Dial == 0 {
		o.Dial = DefaultDial
	}
	if o.Retry == 0 {
		o.Retry = DefaultRetry
	}
	if o.Scripts == "" {
		o.Scripts = Auto
	}
	if o.Durability.Timeout == 0 {
		o.Durability.Timeout = DefaultDurable
	}
	if o.Clock == nil {
		o.Clock = clock.System()
	}

	return o
}

// These constants bound the Options.
const (
	maxPrefix   = 64
	maxTime     = time.Hour
	maxReplicas = 100
	maxDB       = 1<<31 - 1
)

// validate returns one error that lists all bad fields. Defaults must be set.
func (o Options) validate() error {
	var bad contract.BadFields
	if len(o.Addrs) == 0 || o.Addrs[0] == "" {
		bad.Add("url", "names no server; write %s", forms)
	}
	if o.DB < 0 || o.DB > maxDB {
		bad.Add("db", "is %d, must be between 0 and %d", o.DB, maxDB)
	}
	if o.Mode == Cluster && o.DB != 0 {
		bad.Add("db", "is %d, but a cluster has only database 0", o.DB)
	}
	if o.Mode != Cluster && o.Mode != Sentinel && len(o.Addrs) > 1 {
		bad.Add("url", "names %d servers; only redis+sentinel:// and redis+cluster:// take several", len(o.Addrs))
	}
	if o.Mode == Sentinel && o.Sentinel.Master == "" {
		bad.Add("master", "is missing: the name under which the Sentinels watch the primary, like "+
			"redis+sentinel://HOST:26379/mymaster")
	}
	if !validPrefix(o.Prefix) {
		bad.Add("prefix", "must be 1 to %d of A-Z, a-z, 0-9, dot, underscore, colon and hyphen", maxPrefix)
	}
	if o.Durability.Replicas < 0 || o.Durability.Replicas > maxReplicas {
		bad.Add("durability", "waits for %d replicas, must be between 1 and %d", o.Durability.Replicas, maxReplicas)
	}
	if o.Durability.AOF && o.Durability.Replicas > 0 {
		bad.Add("durability", "is aof or replicas:N, not both")
	}
	if t := o.TLS; t != nil && (t.Cert == "") != (t.Key == "") {
		bad.Add("tls_cert", "and tls_key must be set together")
	}

	checkTime(&bad, "dial_timeout", o.Dial)
	checkTime(&bad, "retry", o.Retry)
	checkTime(&bad, "durability_timeout", o.Durability.Timeout)
	return bad.Err()
}

func checkTime(bad *contract.BadFields, name string, d time.Duration) {
	if d < time.Millisecond || d > maxTime {
		bad.Add(name, "is %v, must be between 1ms and %v", d, maxTime)
	}
}

// validPrefix reports whether a prefix has an allowed length and only allowed characters. Braces
// are not allowed, because they would form a hash tag.
func validPrefix(s string) bool {
	for _, c := range []byte(s) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case strings.IndexByte("._:-", c) >= 0:
		default:
			return false
		}
	}
	return len(s) >= 1 && len(s) <= maxPrefix
}

// config reads the files. It returns nil for plain connections.
func (t *TLS) config() (*tls.Config, error) {
	if t == nil {
		return nil, nil
	}

	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName, InsecureSkipVerify: t.SkipVerify}
	if t.CA != "" {
		pem, err := os.ReadFile(t.CA)
		if err != nil {
			return nil, contract.Invalid("tls_ca", "can't be read: %v", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, contract.Invalid("tls_ca", "has no certificate in PEM form")
		}
	}

	if t.Cert != "" {
		cert, err := tls.LoadX509KeyPair(t.Cert, t.Key)
		if err != nil {
			return nil, contract.Invalid("tls_cert", "can't be used: %v", err)
		}
		c.Certificates = []tls.Certificate{cert}
	}

	return c, nil
}

// hidden replaces a secret in messages.
const hidden = "***"

// String returns the URL for messages. It omits users and passwords, timeouts, the files of TLS,
// and options that have their default values.
func (o Options) String() string {
	o = o.withDefaults()
	var b strings.Builder
	b.WriteString(o.scheme())
	b.WriteString("://")
	if o.User != "" || o.Password != "" {
		b.WriteString(hidden + "@")
	}

	b.WriteString(strings.Join(o.Addrs, ","))
	if o.Mode == Sentinel {
		b.WriteString("/" + url.PathEscape(o.Sentinel.Master))
	}
	if o.DB != 0 && !o.Unix {
		b.WriteString("/" + strconv.Itoa(o.DB))
	}
	if q := o.query().Encode(); q != "" {
		b.WriteString("?" + q)
	}

	return b.String()
}

func (o Options) scheme() string {
	s := "redis"
	if o.TLS != nil {
		s = "rediss"
	}
	switch {
	case o.Unix:
		s += "+unix"
	case o.Mode != Single:
		s += "+" + string(o.Mode)
	}
	return s
}

func (o Options) query() url.Values {
	q := url.Values{}
	if o.DB != 0 && o.Unix {
		q.Set("db", strconv.Itoa(o.DB))
	}
	if o.Prefix != DefaultPrefix {
		q.Set("prefix", o.Prefix)
	}
	if o.Durability.AOF {
		q.Set("durability", "aof")
	}
	if o.Durability.Replicas > 0 {
		q.Set("durability", "replicas:"+strconv.Itoa(o.Durability.Replicas))
	}
	if o.EvictionWarn {
		q.Set("eviction", "warn")
	}
	if o.Scripts != Auto {
		q.Set("scripts", string(o.Scripts))
	}

	for name, value := range o.Others {
		q.Set(name, value)
	}

	return q
}

// forms lists the forms of a URL, for errors.
const forms = "redis://[USER:PASSWORD@]HOST[:6379][/DB], rediss:// for TLS, redis+unix:///PATH, " +
	"redis+sentinel://HOST:26379,…/MASTER[/DB] or redis+cluster://HOST:6379,…"
