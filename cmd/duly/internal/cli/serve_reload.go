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

// live is what a running server can take over.
func live(c *config.Settings) server.Live {
	return server.Live{
		Accounts: c.Access.Accounts, Proxies: c.Access.Proxies, AccessLog: c.Log.Access == "on",
		Drain: max(c.Timing.Drain, time.Millisecond), Grace: c.Timing.Grace, // 0 would be the default
		Push: livePush(&c.Push),
	}
}

// reloader serves, and reads the configuration anew meanwhile.
type reloader struct {
	app     *app
	manager sdnotify.Notifier
	server  *server.Server
	log     *slog.Logger
	out     serverLog
	secure  [2]keeper
	data    string
	held    *config.Loaded // what the server runs with
	read    func() (*config.Loaded, error)
	printer *printer
}

// serve serves until the context ends, and tells the service manager how that
// goes.
func (r *reloader) serve(ctx context.Context) error {
	ctx, stop := r.watch(ctx)
	defer stop()
	r.manager.Tell(sdnotify.Ready, sdnotify.Status("serves at "+r.server.URL()))
	draining := make(chan struct{})
	forget := context.AfterFunc(ctx, func() {
		defer close(draining)
		r.manager.Tell(sdnotify.Stopping, sdnotify.Status("lets requests end"))
		r.say("draining", "running requests may finish; a second signal ends them at once")
	})
	err := r.server.Serve(ctx)
	if !forget() {
		<-draining
	}
	if err == nil {
		r.say("stopped", "")
	}
	return err
}

// say prints a state of the server on standard output.
func (r *reloader) say(state, about string) {
	switch {
	case r.printer.json:
		_ = r.printer.value(map[string]string{"state": state})
	case about != "":
		r.printer.printf("%s: %s\n", state, about)
	default:
		r.printer.printf("%s\n", state)
	}
	_ = r.printer.flush() // a closed pipe is no reason to drop requests
}

// watch reloads on every HUP until stop is called, which waits for the last
// one. Where HUP tells that the terminal is gone, the context ends.
func (r *reloader) watch(ctx context.Context) (_ context.Context, stop func()) {
	ctx, end := context.WithCancel(ctx)
	if r.app.env.Hangups == nil {
		return ctx, end
	}
	hangups := make(chan os.Signal, 1)
	quiet := r.app.env.Hangups(hangups)
	terminal := r.onTerminal()
	var watching sync.WaitGroup
	watching.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-hangups:
			}
			if terminal && !r.onTerminal() {
				end()
				return
			}
			r.reload(ctx)
		}
	})
	return ctx, func() { end(); quiet(); watching.Wait() }
}

func (r *reloader) onTerminal() bool {
	return r.app.env.Terminal(r.app.env.Stdout) || r.app.env.Terminal(r.app.env.Stderr)
}

// reload takes over the whole of what has changed, or nothing.
func (r *reloader) reload(ctx context.Context) {
	r.manager.Tell(sdnotify.Reloading)
	defer r.manager.Tell(sdnotify.Ready)
	next, err := r.read()
	if err == nil {
		err = r.server.Apply(ctx, live(&next.Settings))
	}
	if err != nil {
		r.log.Error("the new configuration is not taken; what held before holds on", "faults", r.app.message(err))
		return
	}
	warnOfKeys(r.log, next)
	taken, restart := r.held.Changed(&next.Settings)
	r.out.set(&next.Log)
	certificates := [2]*tls.Config{r.held.TLS.Config, r.held.AdminTLS.Config}
	for i, t := range [...]config.TLS{next.TLS, next.AdminTLS} {
		if r.secure[i].Source != nil && t.Config != nil {
			r.secure[i].Set(t.Config)
			certificates[i] = t.Config
		}
	}
	if err := leaveCertificates(r.data, certificates[0], certificates[1]); err != nil {
		r.log.Error("the certificates could not be left for the command line", "error", err.Error())
	}
	r.held = next.Keeping(&r.held.Settings)
	level := slog.LevelInfo
	if len(restart) > 0 { // what is written there does not hold
		level = slog.LevelWarn
	}
	r.log.Log(ctx, level, "the configuration was read again", "changed", list(taken), "needs_restart", list(restart))
}

func list(keys []string) string {
	if len(keys) == 0 {
		return "nothing"
	}
	return strings.Join(keys, ", ")
}
