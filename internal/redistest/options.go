package redistest

import (
	"fmt"
	"strings"
	"time"
)

// Option changes how a server is started.
type Option func(*settings)

// settings holds the options of a server.
type settings struct {
	lines    []string // lines of the configuration, after the lines of this package
	password string   // password of the default user
	users    map[string]string
	tls      bool
	cluster  bool
	sentinel bool
	first    []any // command that is sent after each start
	ownClock bool
	ahead    time.Duration
	behind   func(addr string) string
	under    []string // command that starts the server
}

func newSettings(opts []Option) settings {
	s := settings{users: map[string]string{}}
	for _, o := range opts {
		o(&s)
	}
	return s
}

// Config adds a line to the server's configuration, as in redis.conf. It overrides the package's
// lines.
func Config(format string, args ...any) Option {
	return func(s *settings) { s.lines = append(s.lines, fmt.Sprintf(format, args...)) }
}

// AOF turns the append-only file on, synced always, everysec or no. Without it no data survives
// the process.
func AOF(sync string) Option {
	return func(s *settings) { s.lines = append(s.lines, "appendonly yes", "appendfsync "+sync) }
}

// MaxMemory limits the data, in bytes or as "100mb", and sets the policy at the limit:
// noeviction, allkeys-lru and so on.
func MaxMemory(bound, policy string) Option {
	return func(s *settings) {
		s.lines = append(s.lines, "maxmemory "+bound, "maxmemory-policy "+policy)
	}
}

// Password sets the password of the default user, which the servers also use between each other.
func Password(password string) Option {
	return func(s *settings) { s.password = password }
}

// User adds an ACL user with this password and these rules, such as "~duly:*", "+@read". The
// default user stays unchanged.
func User(name, password string, rules ...string) Option {
	return func(s *settings) {
		s.users[name] = password
		s.lines = append(s.lines, fmt.Sprintf("user %s on >%s %s", name, password, strings.Join(rules, " ")))
	}
}

// TLS makes the port accept only TLS. The certificate is for localhost and the loopback
// addresses, and a temporary authority signs it. The unix socket stays unchanged.
func TLS() Option {
	return func(s *settings) { s.tls = true }
}

// Ahead sets the server's clock ahead of the machine's clock. The second node of a cluster is twice
// as far ahead, and so on. SetClock changes it while the server runs. The test calls NeedClocks
// first.
func Ahead(d time.Duration) Option {
	return func(s *settings) { s.ownClock, s.ahead = true, d }
}

// Behind puts a proxy between the first primary of a Sentinel's group and the other servers: f
// receives the address of the primary and returns that of the proxy. The replicas and the sentinels
// know only the proxy's address.
func Behind(f func(addr string) string) Option {
	return func(s *settings) { s.behind = f }
}

// Under starts the server with a command that executes the rest of its arguments in its own
// process, such as nsenter.
func Under(command ...string) Option {
	return func(s *settings) { s.under = command }
}
