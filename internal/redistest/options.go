package redistest

import (
	"fmt"
	"strings"
	"time"
)

// Option changes how a server is started.
type Option func(*settings)

// settings are what the options say.
type settings struct {
	lines    []string // of the configuration, after our own
	password string   // of the user default
	users    map[string]string
	tls      bool
	cluster  bool
	sentinel bool
	first    []any // command that follows each start
	ownClock bool
	ahead    time.Duration
	behind   func(addr string) string
	under    []string // the command that starts the server
}

func newSettings(opts []Option) settings {
	s := settings{users: map[string]string{}}
	for _, o := range opts {
		o(&s)
	}
	return s
}

// Config adds a line to the server's configuration, as it stands in
// redis.conf. It wins over what this package writes.
func Config(format string, args ...any) Option {
	return func(s *settings) { s.lines = append(s.lines, fmt.Sprintf(format, args...)) }
}

// AOF turns the append-only file on, synced always, everysec or no. Without it
// nothing survives the process.
func AOF(sync string) Option {
	return func(s *settings) { s.lines = append(s.lines, "appendonly yes", "appendfsync "+sync) }
}

// MaxMemory bounds the data, in bytes or as "100mb", and says what happens at
// the bound: noeviction, allkeys-lru and so on.
func MaxMemory(bound, policy string) Option {
	return func(s *settings) {
		s.lines = append(s.lines, "maxmemory "+bound, "maxmemory-policy "+policy)
	}
}

// Password is asked for from the user default, and between the servers.
func Password(password string) Option {
	return func(s *settings) { s.password = password }
}

// User adds an ACL user with that password and those rules, such as
// "~duly:*", "+@read". The user default stays what it is.
func User(name, password string, rules ...string) Option {
	return func(s *settings) {
		s.users[name] = password
		s.lines = append(s.lines, fmt.Sprintf("user %s on >%s %s", name, password, strings.Join(rules, " ")))
	}
}

// TLS lets the port speak TLS alone, with a certificate for localhost and the
// loopback addresses, made for this server and signed by a throw-away
// authority. The unix socket stays as it is.
func TLS() Option {
	return func(s *settings) { s.tls = true }
}

// Ahead lets the server's clock be that far ahead of the machine's, the clock
// of the second node of a cluster twice as far, and so on. SetClock sets it
// while the server runs. The test calls NeedClocks first.
func Ahead(d time.Duration) Option {
	return func(s *settings) { s.ownClock, s.ahead = true, d }
}

// Behind puts a proxy between the first primary of a Sentinel's group and the
// other servers: f receives the primary's address and returns the proxy's. The
// replicas and the sentinels know the primary by that address only.
func Behind(f func(addr string) string) Option {
	return func(s *settings) { s.behind = f }
}

// Under starts the server by a command that runs the rest of its arguments in its
// own place, such as nsenter.
func Under(command ...string) Option {
	return func(s *settings) { s.under = command }
}
