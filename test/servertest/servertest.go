// Package servertest runs duly servers in their own processes, so that tests can stop and kill
// them.
package servertest

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"net/netip"
	"net/url"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/proctest"
	"github.com/dulymq/duly/open"
	"github.com/dulymq/duly/server"
	"github.com/dulymq/duly/server/auth"
	"github.com/dulymq/duly/server/webhook/target"
)

// RoleName is the role under which a test binary registers Role.
const RoleName = "server"

// Plant wraps the engine of a server in the fault that -plant selects.
type Plant func(name string, e contract.Engine) contract.Engine

// Role returns a role for proctest.Main that serves an engine until SIGTERM. It prints one line
// with its addresses and an admin token for all namespaces, or "-" with -token=false.
func Role(plant Plant) func(args []string) error {
	return func(args []string) error {
		f := flag.NewFlagSet(RoleName, flag.ContinueOnError)
		engine := f.String("engine", "", "")
		addr := f.String("addr", "127.0.0.1:0", "")
		delay := f.Duration("drain-delay", 0, "")
		token := f.Bool("token", true, "")
		planted := f.String("plant", "", "")
		account := f.String("account", "", "")
		trust := f.String("trust", "", "")
		keys := f.String("push-keys", "", "")
		data := f.String("data", "", "")
		if err := f.Parse(args); err != nil {
			return err
		}

		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		log := slog.New(slog.DiscardHandler)
		e, err := open.Engine(ctx, *engine, open.Log(log), open.Gather())
		if err != nil {
			return err
		}
		defer e.Close()

		c := server.Config{
			Engine: e, Store: server.StoreOf(e), Listen: server.Listen{Addr: *addr, AdminAddr: "127.0.0.1:0", DataDir: *data},
			DrainDelay: *delay, Logger: log,
		}
		if c.Settings, err = settings(*account, *trust); err != nil {
			return err
		}
		if *planted != "" {
			// Only calls about jobs reach the planted fault. Tokens use the engine without it.
			c.Engine = plant(*planted, e)
		}
		if *keys != "" {
			if err := push(&c, *keys); err != nil {
				return err
			}
		}
		return serve(ctx, c, *token)
	}
}

// settings returns settings with an account NAME:PASSWORD and the network of a trusted proxy.
// Either may be empty.
func settings(account, trust string) (l server.Settings, err error) {
	if account != "" {
		name, password, _ := strings.Cut(account, ":")
		one, err := auth.NewAccount(name, password)
		if err != nil {
			return l, err
		}
		l.Accounts = []auth.Account{one}
	}

	if trust != "" {
		network, err := netip.ParsePrefix(trust)
		if err != nil {
			return l, err
		}
		l.Proxies = []netip.Prefix{network}
	}
	return l, nil
}

// push lets a server send jobs to receivers on this machine. keys is the file of its keys.
func push(c *server.Config, keys string) error {
	ring, err := target.OpenKeys(keys)
	if err != nil {
		return err
	}
	c.Push = &server.PushConfig{Keys: ring}
	c.Settings.Push.Guard.Allow = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	return nil
}

// serve runs a server until ctx ends.
func serve(ctx context.Context, c server.Config, token bool) error {
	s, err := server.New(c)
	if err == nil {
		err = s.Listen(ctx)
	}
	if err != nil {
		return err
	}

	secret := "-"
	if token {
		all := contract.Token{Namespace: contract.AllNamespaces, Rights: contract.RightAdmin}
		// The token exists before the line is printed, because a test uses it at once.
		if secret, _, err = s.Guard().Create(ctx, all); err != nil {
			return err
		}
	}
	fmt.Println("serving", s.URL(), s.AdminURL(), secret)
	return s.Serve(ctx)
}

// Server is a running server.
type Server struct {
	*proctest.Process
	URL, AdminURL string
	Token         string // "-" if it was started with -token=false
}

// patience is how long a server may take to start on a busy machine.
const patience = time.Minute

// Start starts a server on an engine and returns when it serves. It is killed when the test ends.
func Start(t testing.TB, engine string, args ...string) *Server {
	t.Helper()
	return StartAs(t, proctest.Options{}, engine, args...)
}

// StartAs is like Start for a process with options.
func StartAs(t testing.TB, o proctest.Options, engine string, args ...string) *Server {
	t.Helper()
	line := append([]string{"-engine", engine}, args...)
	s := &Server{Process: proctest.Start(t, o, RoleName, line...)}
	if !s.Await("serving ", 1, patience) {
		t.Fatal("the server did not start", s.Lines())
	}
	words := strings.Fields(s.Lines()[0])
	s.URL, s.AdminURL, s.Token = words[1], words[2], words[3]
	return s
}

// Address returns the host and port of the server's API.
func (s *Server) Address() string { return strings.TrimPrefix(s.URL, "http://") }

// EngineURL returns the URL of a server as an engine for the default namespace.
func EngineURL(address, token string) string {
	u := url.URL{Scheme: "http", User: url.User(token), Host: address, Path: "/" + duly.DefaultNamespace}
	return u.String()
}
