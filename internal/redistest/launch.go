package redistest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/dulymq/duly/internal/porttest"
)

// tries is how often a server is started at most, if its port is taken each time.
const tries = 5

// program returns the name of the server program.
func program() string {
	if name := os.Getenv("DULY_REDIS_SERVER"); name != "" {
		return name
	}
	return "redis-server"
}

// launch creates a folder and starts a server in it, on a free port.
func launch(s settings) (*process, error) {
	for try := 1; ; try++ {
		port, claim, err := porttest.Claim()
		if err != nil {
			return nil, err
		}
		p, err := launchAt(s, port, claim)
		// Another program may take the port before the server does.
		if err == nil || !taken(err) || try == tries {
			return p, err
		}
	}
}

// taken reports whether a server failed because its port was in use.
func taken(err error) bool { return strings.Contains(err.Error(), "Address already in use") }

func launchAt(s settings, port int, claim io.Closer) (p *process, err error) {
	p = &process{settings: s, port: port, claims: []io.Closer{claim}}
	defer func() {
		if err != nil {
			// A failed start must leave no process, folder or port behind.
			err = errors.Join(err, p.remove())
			p = nil
		}
	}()

	if p.leash, err = theLeash(); err != nil {
		return p, err
	}
	// A cluster needs a second port, for the nodes' own connections.
	if p.bus, claim, err = porttest.Claim(); err != nil {
		return p, err
	}

	p.claims = append(p.claims, claim)
	// The test's own folder may have too long a name for a unix socket.
	if p.folder, err = os.MkdirTemp(p.leash.folder, ""); err != nil {
		return p, err
	}

	if s.tls {
		if p.trust, err = makeCertificate(p.folder); err != nil {
			return p, err
		}
	}
	return p, p.start()
}

// remove ends the server, removes its folder and releases its ports.
func (p *process) remove() error {
	err := p.kill()
	for _, claim := range p.claims {
		err = errors.Join(err, claim.Close())
	}
	p.claims = nil
	if p.folder != "" {
		err = errors.Join(err, os.RemoveAll(p.folder))
	}
	return err
}

// configuration returns the server's redis.conf. Later lines override earlier ones.
func (p *process) configuration() string {
	lines := []string{
		"bind 127.0.0.1", "protected-mode no", "daemonize no", `pidfile ""`,
		fmt.Sprintf("dir %q", p.folder), fmt.Sprintf("logfile %q", p.log()), "loglevel warning",
		fmt.Sprintf("unixsocket %q", p.socket()), "unixsocketperm 700",
	}
	if p.settings.sentinel {
		lines = append(lines, fmt.Sprintf("port %d", p.port))
		return strings.Join(append(lines, p.settings.lines...), "\n") + "\n"
	}

	// A replica counts after its first data, which may be the ping.
	lines = append(lines, `save ""`, "appendonly no", "enable-debug-command yes", "repl-diskless-sync-delay 0",
		"repl-ping-replica-period 1")
	if p.settings.tls {
		lines = append(lines, "port 0", fmt.Sprintf("tls-port %d", p.port), "tls-auth-clients no",
			fmt.Sprintf("tls-cert-file %q", p.trust.certFile), fmt.Sprintf("tls-key-file %q", p.trust.keyFile),
			fmt.Sprintf("tls-ca-cert-file %q", p.trust.caFile))
	} else {
		lines = append(lines, fmt.Sprintf("port %d", p.port))
	}

	if password := p.settings.password; password != "" {
		lines = append(lines, "requirepass "+password, "masterauth "+password)
	}
	if p.settings.cluster {
		lines = append(lines, "cluster-enabled yes", fmt.Sprintf("cluster-port %d", p.bus))
	}

	return strings.Join(append(lines, p.settings.lines...), "\n") + "\n"
}
