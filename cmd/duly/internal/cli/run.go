package cli

import (
	"context"
	"crypto/tls"
	"io"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/cmd/duly/internal/top"
	"github.com/dulymq/duly/httpengine"
	"github.com/dulymq/duly/internal/bench"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/open"
)

// The exit statuses.
const (
	exitOK     = 0
	exitFailed = 1
	exitMisuse = 2
)

// Env is the world around a command. Args, the streams, Getenv and Open must
// be set.
type Env struct {
	// Args are those of the process: Args[0] is how the program was called.
	Args           []string
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Getenv reads a variable of the environment, "" where it is not set.
	Getenv func(name string) string
	// Environ lists all variables, as NAME=VALUE. The field may be nil.
	Environ func() []string
	// Terminal tells whether one of the streams is a terminal. Nil: none is.
	Terminal func(stream any) bool
	// Piped reports whether a stream is a pipe or a file, whose end needs no key
	// press. Nil: none is.
	Piped func(stream any) bool
	// Signals brings INT and TERM: the first drains, the second ends at once,
	// unless it comes so soon that it is the first one again. Nil: there are
	// none.
	Signals <-chan os.Signal
	// Hangups lets HUP come to a channel until stop is called, for a command that
	// reads something anew by it; it ends every other one. Nil: there is no HUP.
	Hangups func(to chan<- os.Signal) (stop func())
	// Open opens an engine by its URL: open.Engine, but in tests.
	Open func(ctx context.Context, url string, opts ...open.Option) (duly.Contract, error)
	// CheckURL judges the URL of an engine that is to be served without opening
	// it: open.CheckStore, but in tests. Nil: the engine judges it when it is
	// opened.
	CheckURL func(url string) error
	// OpenAdmin opens the admin address of a server, over https by secure; nil is
	// as the system has it.
	OpenAdmin func(ctx context.Context, url, token string, secure *tls.Config) (Admin, error)
	// Gauge is how the server behind an engine's URL is asked what it has used;
	// nil where nobody can ask. The field itself may be nil.
	Gauge func(url string) func(context.Context) (bench.Gauge, error)
	// Screen is the terminal, for a live view. The field may be nil.
	Screen func() top.Terminal
	// Clock is what relative times are told by. Default the system's.
	Clock clock.Clock
	// Version overrides what the binary says of itself; for tests.
	Version string
}

// Run runs the command that env.Args name and returns its exit status.
func Run(ctx context.Context, env Env) int {
	if env.Terminal == nil {
		env.Terminal = func(any) bool { return false }
	}
	if env.Piped == nil {
		env.Piped = func(any) bool { return false }
	}
	if env.Clock == nil {
		env.Clock = clock.System()
	}
	ctx, drain := context.WithCancel(ctx)
	defer drain()
	a := &app{env: env, log: aside{to: env.Stderr}}
	done := make(chan int, 1)
	go func() { done <- a.execute(ctx) }()
	var first time.Duration
	for signalled := false; ; {
		select {
		case code := <-done:
			return code
		case <-env.Signals:
		}
		now := env.Clock.Mono()
		switch {
		case !signalled:
			signalled, first = true, now
			drain()
		case now-first >= oneSignal:
			a.abandon()
			return exitFailed
		}
	}
}

// oneSignal is how far apart signals are that somebody means one by one. What
// ends a command often sends two at once, one to the process and one to its
// group: timeout(1) does so, and a terminal and a supervisor together.
const oneSignal = 500 * time.Millisecond

// app is one run of the program.
type app struct {
	env  Env
	root *cobra.Command

	// The flags that every command has.
	url, adminURL, namespace, data string
	json                           bool
	tls                            httpengine.TLS

	log    aside // what engines log
	hears  hears // of what the engine of the command warns
	warned sync.Map

	begun   bool     // a command's own code has begun, so errors are no misuse
	secrets []string // never printed, whatever error text holds them

	mu    sync.Mutex
	atEnd []func() // what must be done even if the program ends at once
}

// execute runs the command and reports its error.
func (a *app) execute(ctx context.Context) int {
	a.root = newRoot(a)
	a.root.SetArgs(a.env.Args[1:])
	cmd, err := a.root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	return a.report(cmd, err)
}

// command makes a subcommand: use as cobra has it, what it does in a few words
// and in full, examples of one line each, and its code. The code's results go
// to p, which is flushed after it.
func (a *app) command(use, short, long, examples string, run func(ctx context.Context, p *printer, args []string) error) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Long: short + ".\n\n" + long, Example: examples,
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			a.begun = true
			p := a.newPrinter()
			err := run(cmd.Context(), p, args)
			if flushed := p.flush(); err == nil {
				err = flushed
			}
			return err
		},
	}
}

// group makes a command that only holds others.
func (a *app) group(use, short string, subcommands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return misusef("%s needs to know what to do", cmd.CommandPath())
			}
			return misusef("%s knows no %q", cmd.CommandPath(), args[0])
		},
	}
	cmd.AddCommand(subcommands...)
	return cmd
}

// finally registers what must be done even when the second signal ends the
// program at once, and returns the function that takes it back.
func (a *app) finally(f func()) (forget func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	i := len(a.atEnd)
	a.atEnd = append(a.atEnd, f)
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.atEnd[i] = func() {}
	}
}

func (a *app) abandon() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, f := range a.atEnd {
		f()
	}
}
