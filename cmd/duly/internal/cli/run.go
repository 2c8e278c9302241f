package cli

import (
	"context"
	"crypto/tls"
	"io"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/dulymq/duly/cmd/duly/internal/top"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/httpengine"
	"github.com/dulymq/duly/internal/bench"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/open"
)

// The exit statuses of a command.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// Env is the environment of a command. Args, the streams, Getenv and Open are required.
type Env struct {
	// Args are the arguments of the process. Args[0] is the name of the program.
	Args           []string
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Getenv returns a variable of the environment, or "" if it is not set.
	Getenv func(name string) string
	// Environ returns all variables, as NAME=VALUE. It may be nil.
	Environ func() []string
	// Terminal reports whether a stream is a terminal. nil means that no stream is a terminal.
	Terminal func(stream any) bool
	// Piped reports whether a stream is a pipe or a file, so that reading it to its end
	// does not wait for a person. If it is nil, no stream is.
	Piped func(stream any) bool
	// Signals receives INT and TERM. The first one drains. The second one ends the
	// command at once, unless it follows so soon that it belongs to the first one. Nil
	// means no signals.
	Signals <-chan os.Signal
	// Hangups sends HUP to a channel until stop is called, for a command that reloads its
	// configuration. In any other command HUP ends the process. Nil means no HUP.
	Hangups func(to chan<- os.Signal) (stop func())
	// Open opens an engine by its URL. Except in tests it is open.Engine.
	Open func(ctx context.Context, url string, opts ...open.Option) (contract.Engine, error)
	// CheckURL validates the URL of an engine to serve, without opening it. Except in
	// tests it is open.CheckStore. It may be nil.
	CheckURL func(url string) error
	// OpenAdmin opens the admin address of a server. secure is the configuration for
	// https, nil for the system's default.
	OpenAdmin func(ctx context.Context, url, token string, secure *tls.Config) (Admin, error)
	// Gauge returns a function that opens a gauge of the server behind an engine's URL, or nil if
	// that server has no statistics. Gauge itself may be nil.
	Gauge func(url string) func(context.Context) (bench.Gauge, error)
	// Screen returns the terminal for a live view. It may be nil.
	Screen func() top.Terminal
	// Browse opens a page in a browser. If it is nil, there is none.
	Browse func(url string) error
	// Clock is the clock for relative times. Default: the system's.
	Clock clock.Clock
	// Build is the source of the binary. Default: what the go command stored.
	Build Build
}

// Run runs the command in env.Args and returns its exit status.
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
	a := &app{env: env, log: deferredLog{to: env.Stderr}}
	// The command runs in a goroutine of its own, so that the second signal can end the
	// program even if the command ignores its context.
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

			// Cancellation lets the command drain. The loop continues to wait for its exit status.
			drain()
		case now-first >= signalGap: // a signal that follows sooner belongs to the first one
			a.abort()
			return exitFailed
		}
	}
}

// signalGap is the shortest time between two signals that count as two. Often one
// request sends a signal to the process and to its group. timeout(1) does so, and a
// terminal together with a supervisor.
const signalGap = 500 * time.Millisecond

// app is one run of the program.
type app struct {
	env  Env
	root *cobra.Command

	// The global flags.
	url, adminURL, namespace, data string
	json                           bool
	tls                            httpengine.TLS

	log      deferredLog  // log of the engines
	warnings warningLevel // level of the command's warnings
	warned   sync.Map     // warnings that were printed already

	started bool     // whether the code of a command runs, so that an error is not a usage error
	secrets []string // texts that are removed from errors

	mu         sync.Mutex
	abortHooks []func() // called if the second signal ends the program
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

// runFunc is the code of a command. It prints its results with p, which is flushed
// afterwards.
type runFunc func(ctx context.Context, p *printer, args []string) error

// command returns a subcommand. use is its usage line, short and long describe it, and
// examples has one example per line.
func (a *app) command(use, short, long, examples string, run runFunc) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Long: short + ".\n\n" + long, Example: examples,
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			// Flags and arguments are valid from here on, so later errors are not usage errors.
			a.started = true
			p := a.newPrinter()
			err := run(cmd.Context(), p, args)
			// The output may fail only here, for example on a full disk. The error of the command is more important.
			if flushErr := p.flush(); err == nil {
				err = flushErr
			}
			return err
		},
	}
}

// group returns a command that only has subcommands.
func (a *app) group(use, short string, subcommands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			// Help with status 0 would hide the mistake from a script.
			if len(args) == 0 {
				return usageErrorf("%s needs a subcommand", cmd.CommandPath())
			}
			return usageErrorf("%s has no subcommand %q", cmd.CommandPath(), args[0])
		},
	}
	cmd.AddCommand(subcommands...)
	return cmd
}

// onAbort registers a function that is called if the second signal ends the program at once. remove
// unregisters it.
func (a *app) onAbort(f func()) (remove func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	i := len(a.abortHooks)
	a.abortHooks = append(a.abortHooks, f)
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()

		// The element stays, because removing it would change the indexes of later hooks.
		a.abortHooks[i] = func() {}
	}
}

// abort calls the functions of onAbort.
func (a *app) abort() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, f := range a.abortHooks {
		f()
	}
}
