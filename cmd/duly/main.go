// Command duly is the server and the command line of a job queue that delivers
// every job at its time, at least once, and never early. `duly help` lists the
// commands. docs/command-line.md shows each with an example.
package main

import (
	"context"
	"crypto/tls"
	"os"
	"os/signal"
	"syscall"

	"github.com/mattn/go-isatty"

	"github.com/dulymq/duly/cmd/duly/internal/cli"
	"github.com/dulymq/duly/httpengine"
	"github.com/dulymq/duly/internal/bench"
	"github.com/dulymq/duly/internal/bench/redisgauge"
	"github.com/dulymq/duly/open"
)

// The build of a release sets these variables, see internal/release.
var version, commit, date string

func main() {
	os.Exit(cli.Run(context.Background(), cli.Env{
		Args: os.Args, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Getenv: os.Getenv, Environ: os.Environ, Terminal: isTerminal, Piped: isPiped,
		Signals: stopSignals(), Hangups: hangups,
		Open: open.Engine, CheckURL: open.CheckStore, OpenAdmin: openAdmin, Gauge: gauge, Screen: newScreen, Browse: browse,
		Build: cli.Build{Version: version, Commit: commit, Date: date},
	}))
}

// stopSignals returns a channel that receives INT and TERM.
//
// It catches PIPE too and drops it, so that a write to a closed pipe is an error
// that a command can handle, and does not end the process. Ignoring PIPE instead
// would be inherited by the commands that `duly work` runs.
func stopSignals() <-chan os.Signal {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)

	// The channel has room for two signals, so that the second one is not lost while the first is
	// handled.
	stop := make(chan os.Signal, 2)
	signal.Notify(stop, os.Interrupt, syscall.SIGTERM)
	return stop
}

// isTerminal reports whether a stream is a terminal.
func isTerminal(stream any) bool {
	f, ok := stream.(interface{ Fd() uintptr })
	return ok && (isatty.IsTerminal(f.Fd()) || isatty.IsCygwinTerminal(f.Fd()))
}

// isPiped reports whether a stream is a pipe or a file. A device such as /dev/null
// and a socket are neither.
func isPiped(stream any) bool {
	f, ok := stream.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && (info.Mode().IsRegular() || info.Mode()&os.ModeNamedPipe != 0)
}

// gauge returns a function that opens a gauge of the server behind an engine's URL.
// It returns nil if that server has no statistics.
func gauge(url string) func(context.Context) (bench.Gauge, error) {
	// nil, and not a function that fails, makes the benchmark leave out what it cannot measure.
	if !open.Redis(url) {
		return nil
	}
	return func(ctx context.Context) (bench.Gauge, error) {
		g, err := redisgauge.Open(ctx, url)
		// A nil *Gauge in the interface would not compare equal to nil.
		if err != nil {
			return nil, err
		}
		return g, nil
	}
}

// openAdmin opens the admin address of a server.
func openAdmin(ctx context.Context, url, token string, secure *tls.Config) (cli.Admin, error) {
	admin, err := httpengine.OpenAdmin(ctx, httpengine.AdminConfig{URL: url, Token: token, TLS: secure})
	if err != nil {
		return nil, err
	}
	return admin, nil
}
