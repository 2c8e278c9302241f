package cli

import (
	"context"
	"crypto/tls"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/dulymq/duly/cmd/duly/internal/config"
	"github.com/dulymq/duly/cmd/duly/internal/sdnotify"
	"github.com/dulymq/duly/server"
)

// serverSettings returns the settings that can change while a server runs.
func serverSettings(c *config.Settings) server.Settings {
	return server.Settings{
		Accounts: c.Access.Accounts, Proxies: c.Access.Proxies, AccessLog: c.Log.Access == "on",
		Drain: max(c.Timing.Drain, time.Millisecond), // 0 would mean the default
		Grace: c.Timing.Grace,
		Push:  pushSettings(&c.Push),
	}
}

// reloader runs a server and reloads its configuration.
type reloader struct {
	app     *app
	manager sdnotify.Notifier
	server  *server.Server
	log     *slog.Logger
	output  *logOutput      // destination of log
	certs   [2]certReloader // certificates of the API and the admin address
	data    string
	current *config.Loaded // configuration of the running server
	load    func() (*config.Loaded, error)
	printer *printer
}

// serve serves until the context ends, and reports its state to the service manager.
func (r *reloader) serve(ctx context.Context) error {
	// HUP is watched before Ready, because a manager may reload as soon as it gets the notice.
	ctx, stop := r.watchHangups(ctx)
	defer stop()
	r.manager.Notify(sdnotify.Ready, sdnotify.Status("serves at "+r.server.URL()))

	draining := make(chan struct{})
	removeDrain := context.AfterFunc(ctx, func() {
		defer close(draining)
		r.manager.Notify(sdnotify.Stopping, sdnotify.Status("drains"))
		r.printState("draining", "running requests may finish; a second signal ends them at once")
	})
	err := r.server.Serve(ctx)
	// The notice has begun already, and must be printed before the next one.
	if !removeDrain() {
		<-draining
	}
	if err == nil {
		r.printState("stopped", "")
	}
	return err
}

// printState prints the server's state on standard output.
func (r *reloader) printState(state, detail string) {
	switch {
	case r.printer.json:
		_ = r.printer.value(map[string]string{"state": state})
	case detail != "":
		r.printer.printf("%s: %s\n", state, detail)
	default:
		r.printer.printf("%s\n", state)
	}
	_ = r.printer.flush() // a server continues after its output was closed
}

// watchHangups reloads the configuration on every HUP until stop is called. stop waits for
// a reload in progress. If the terminal was closed, HUP ends the returned context instead.
func (r *reloader) watchHangups(ctx context.Context) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	if r.app.env.Hangups == nil {
		return ctx, cancel
	}
	hangups := make(chan os.Signal, 1)

	// The signal is taken over before the goroutine starts, or an early HUP would end the process.
	stopSignals := r.app.env.Hangups(hangups)
	hadTerminal := r.hasTerminal()

	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-hangups:
			}
			// The terminal was closed, so HUP means the end and no reload.
			if hadTerminal && !r.hasTerminal() {
				cancel()
				return
			}
			r.reload(ctx)
		}
	})
	return ctx, func() { cancel(); stopSignals(); wg.Wait() }
}

func (r *reloader) hasTerminal() bool {
	return r.app.env.Terminal(r.app.env.Stdout) || r.app.env.Terminal(r.app.env.Stderr)
}

// reload applies all changes of the configuration, or none if it has errors.
func (r *reloader) reload(ctx context.Context) {
	// The manager must see Ready again after an error too, because the server still runs.
	r.manager.Notify(sdnotify.Reloading)
	defer r.manager.Notify(sdnotify.Ready)

	// Apply changes nothing if it returns an error.
	next, err := r.load()
	if err == nil {
		err = r.server.Apply(ctx, serverSettings(&next.Settings))
	}
	if err != nil {
		r.log.Error("cannot reload the configuration; nothing changed", "faults", r.app.message(err))
		return
	}
	warnAboutKeys(r.log, next)
	// Some settings need a restart. The log names them, because the file has them already.
	reloaded, restart := r.current.Changed(&next.Settings)
	r.output.configure(&next.Log)
	r.reloadCertificates(next)
	r.current = next.ReloadOver(&r.current.Settings)

	level := slog.LevelInfo
	if len(restart) > 0 { // the server does not run with the configuration of the file
		level = slog.LevelWarn
	}
	r.log.Log(ctx, level, "reloaded the configuration",
		"changed", joinKeys(reloaded), "needs_restart", joinKeys(restart))
}

// reloadCertificates replaces the certificates of both addresses, and stores them.
func (r *reloader) reloadCertificates(next *config.Loaded) {
	// An address without a reload keeps its certificate, and its file must stay.
	configs := [2]*tls.Config{r.current.TLS.Config, r.current.AdminTLS.Config}
	for i, t := range [...]config.TLS{next.TLS, next.AdminTLS} {
		// TLS cannot be switched on or off while the server listens.
		if r.certs[i].Source != nil && t.Config != nil {
			r.certs[i].Set(t.Config)
			configs[i] = t.Config
		}
	}

	// The running server has the new certificates already, so an error here is only logged.
	if err := storeCertificates(r.data, configs[0], configs[1]); err != nil {
		r.log.Error("cannot store the certificates for other commands", "error", err.Error())
	}
}

func joinKeys(keys []string) string {
	if len(keys) == 0 {
		return "nothing"
	}
	return strings.Join(keys, ", ")
}
