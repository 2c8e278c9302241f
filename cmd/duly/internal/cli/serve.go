package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/spf13/cobra"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/cmd/duly/internal/config"
	"github.com/dulymq/duly/cmd/duly/internal/sdnotify"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/ownfile"
	"github.com/dulymq/duly/open"
	"github.com/dulymq/duly/server"
	"github.com/dulymq/duly/server/auth"
	"github.com/dulymq/duly/server/metrics"
	"github.com/dulymq/duly/server/pools"
)

func serveCommand(a *app) *cobra.Command {
	var files configFiles
	var cmd *cobra.Command
	cmd = a.command("serve", "Run a server until it is stopped",
		`Serves an engine over HTTP: the embedded engine in the folder of --data, or that of --engine. On a loopback address
the first start creates a token and stores it in that folder, readable only by you. Other commands find it there. An
address that others can reach requires a token before: start on 127.0.0.1, run duly token create, then listen on that
address. For the admin address, accounts are sufficient: a file with lines NAME:PASSWORD, readable only by you.

The lmstfy-compatible API is on, and its routes for tokens need a token or an account. With --lmstfy open, callers on
this machine need none, as lmstfy's own scripts expect; the start prints a warning. --lmstfy off disables that API.

A server can have several engines, each a pool with a name: --pool. The engine of --engine is the pool default and
stores the tokens.

Any number of servers can use one Redis, each with a folder of its own. They share jobs, tokens and limits.

Each flag can also be set in a file or in the environment: drain = "1m", or DULY_DRAIN=1m. Flags override variables,
and variables override the file. duly config check finds mistakes.

On HUP the server reloads its configuration and applies the settings that can change while it runs. If the
configuration has errors, nothing changes.

On INT or TERM the server stops listening and waits for running requests, at most for the time of --drain. A second
signal ends it at once. Behind a load balancer that polls /readyz, set --drain-delay to the time that the balancer
needs to react: for this time the server continues to serve, while /readyz fails.`,
		`  duly serve
  duly serve --config /etc/duly/duly.toml
  duly serve --lmstfy-config /etc/lmstfy/config.toml
  duly serve --data /var/lib/duly --addr 0.0.0.0:7777 --log-format json
  duly serve --addr 10.0.0.5:7777 --trusted-proxy 10.0.0.0/24
  duly serve --admin-addr 10.0.0.5:7778 --admin-accounts /etc/duly/accounts
  duly serve --engine 'sqlite:/var/lib/duly/duly.db'
  duly serve --engine 'redis://user:password@127.0.0.1:6379/0'
  duly serve --pool orders=redis+cluster://10.0.0.1:6379,10.0.0.2:6379`,
		func(ctx context.Context, p *printer, _ []string) error {
			load := func() (*config.Loaded, error) { return a.loadConfig(files, cmd.Flags()) }
			c, err := load()
			if err != nil {
				return err
			}
			return a.serve(ctx, p, c, load)
		})

	cmd.Args = noArgs
	settingFlags(cmd, &files)
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		// Every command has --url. If serve ignored it, it would serve its default file.
		if cmd.Flags().Changed("url") {
			return usageErrorf("serve needs --engine instead of --url, which is for commands that call an engine")
		}
		return nil
	}
	return cmd
}

// gcFloor is the size of memory that is allocated but never touched, so it needs no real
// memory. The garbage collector counts it as live and runs less often. A server's live
// memory is a few megabytes, for which it would run many times per second.
const gcFloor = 64 << 20

func (a *app) serve(
	ctx context.Context, p *printer, c *config.Loaded, load func() (*config.Loaded, error),
) (err error) {
	// A larger heap makes the collector run less often when there are few jobs.
	floor := make([]byte, gcFloor)
	defer runtime.KeepAlive(floor)

	handler := newLogHandler(a.logTo(a.env.Stderr), &c.Log)
	log := slog.New(handler)
	a.warnAboutConfig(log, c)
	warnAboutKeys(log, c)

	// From here on, a failed start must not leave a data folder behind.
	data, url := dataAndEngine(c)
	cleanUp, err := checkStart(ctx, data, c)
	if err != nil {
		return err
	}
	defer func() { cleanUp(err) }()
	telemetry, err := a.newTelemetry(ctx, log)
	if err != nil {
		return err
	}
	defer telemetry.shutdown()

	// The hints of these codes are about a server's token or a file.
	if open.Redis(url) {
		defer func() { err = withoutRedisHints(err) }()
	}
	engine, err := a.openServedEngine(ctx, url, c, log, telemetry.metrics)
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := engine.Close(); err == nil {
			err = closeErr
		}
	}()
	// The folder is made after the engine has opened, so a wrong URL leaves none.
	if err := os.MkdirAll(data, 0o700); err != nil {
		return withHint(err, "choose a writable folder: --data")
	}

	// A service manager waits for the notice that the server listens.
	r := &reloader{
		app: a, manager: sdnotify.New(a.env.Getenv(sdnotify.Variable)), log: log, output: handler.logOutput,
		certs: [2]certReloader{newCertReloader(c.TLS), newCertReloader(c.AdminTLS)},
		data:  data, current: c, load: load, printer: p,
	}
	if r.server, err = a.newServer(r, engine, maxBodyOf(url, c.Pools), telemetry); err != nil {
		return err
	}
	if err := a.listen(ctx, r, url); err != nil {
		return err
	}
	return r.serve(ctx)
}

// warnAboutConfig logs the parts of the configuration that have no effect.
func (a *app) warnAboutConfig(log *slog.Logger, c *config.Loaded) {
	for _, i := range c.Ignored {
		log.Warn("this key of the lmstfy file has no effect", "key", i.Key, "at", i.Origin.String(), "reason", i.Reason)
	}
	for _, e := range a.unknownVariables() {
		log.Warn("this variable "+e.Problem, "variable", e.Origin.Source)
	}
	// The URL of a server in DULY_URL is for other commands.
	if url := a.env.Getenv("DULY_URL"); url != "" && !isRemote(url) && c.Engine == "" {
		log.Warn("serve ignores DULY_URL and serves its default file; to serve another engine, set --engine or DULY_ENGINE")
	}
}

// warnAboutKeys logs each private key that other users can read.
func warnAboutKeys(log *slog.Logger, c *config.Loaded) {
	for key, t := range map[string]config.TLS{"tls.key": c.TLS, "admin_tls.key": c.AdminTLS} {
		if t.Config == nil {
			continue
		}
		// A warning is enough: a key may be readable by a group of administrators.
		f, err := ownfile.Open(t.Key)
		if err != nil {
			log.Warn("other users may know the private key", "setting", key, "problem", err.Error())
			continue
		}
		f.Close()
	}
}

// dataAndEngine returns the data folder and the URL of the engine.
func dataAndEngine(c *config.Loaded) (data, engine string) {
	// The ./ shows in messages that the folder is relative.
	if data = c.Data; data == "" {
		data = "." + string(filepath.Separator) + defaultData
	}
	if engine = c.Engine; engine == "" {
		engine = open.File(filepath.Join(data, storeFile))
	}
	return data, open.WithMaxBody(engine, int(c.Memory.MaxBody))
}

// checkStart checks whether the server can start, before it creates its data folder: it
// must be able to listen, so that a failed start leaves no folder behind. cleanUp removes
// a folder that a failed start created and left empty.
//
// Other users must not be able to write to an existing folder, because they could have
// put a store or a token into it.
func checkStart(ctx context.Context, data string, c *config.Loaded) (cleanUp func(err error), err error) {
	info, err := os.Stat(data)
	if err == nil && info.IsDir() {
		if err := ownfile.CheckFolder(data); err != nil {
			return nil, withHint(err, "")
		}
	}
	// A folder that exists is not ours to remove.
	if !errors.Is(err, fs.ErrNotExist) {
		return func(error) {}, nil
	}

	cleanUp = func(err error) {
		if err == nil {
			return
		}
		// The start may have created the keys. A folder with more files has served.
		keys := []string{keyFile, server.UIKeyFile}
		files, _ := os.ReadDir(data)
		if !slices.ContainsFunc(files, func(f fs.DirEntry) bool { return !slices.Contains(keys, f.Name()) }) {
			for _, name := range keys {
				_ = os.Remove(filepath.Join(data, name))
			}
		}
		_ = os.Remove(data) // fails if the folder is not empty
	}
	return cleanUp, server.CanListen(ctx, c.Addr, c.AdminAddr)
}

// openServedEngine opens the engine of --engine and those of the other pools.
func (a *app) openServedEngine(
	ctx context.Context, url string, c *config.Loaded, log *slog.Logger, counts *metrics.Metrics,
) (contract.Engine, error) {
	engine, err := a.env.Open(ctx, url, open.Log(log), open.Gather(), open.Observe(counts.Called))
	if err != nil {
		err = namingURLFlag(err, url, "--engine")
		if !open.Redis(url) {
			err = withHintFor(duly.CodeUnavailable, err, "or choose another folder: --data")
		}
		return nil, err
	}

	// Without pools there is nothing to route, so the engine serves directly.
	if len(c.Pools) == 0 {
		return engine, nil
	}
	return a.openPools(ctx, engine, c.Pools, int(c.Memory.MaxBody), log, counts)
}

// newServer returns a server for the engine. It does not serve what the engine does not
// implement.
func (a *app) newServer(r *reloader, engine contract.Engine, maxBody int, t *telemetry) (*server.Server, error) {
	settings := &r.current.Settings
	c := server.Config{
		Engine: engine, Version: a.version().Version, Clock: a.env.Clock, Logger: r.log,
		Listen: server.Listen{
			Addr: settings.Addr, AdminAddr: settings.AdminAddr, DataDir: r.data,
			TLS: r.certs[0].config(), AdminTLS: r.certs[1].config(),
		},
		Settings:   serverSettings(settings),
		Limits:     server.Limits{MaxBody: maxBody, AnswerMemory: settings.Memory.Answers},
		Lmstfy:     server.Lmstfy{Mode: server.LmstfyMode(settings.Lmstfy), Defaults: &settings.LmstfyDefaults},
		DrainDelay: settings.Timing.DrainDelay, SweepEvery: settings.Timing.SweepEvery,
	}
	push, err := newPushConfig(&settings.Push, r.data, t)
	if err != nil {
		return nil, err
	}
	c.Push = push
	if c.UI, err = newUIConfig(&settings.UI, r.data); err != nil {
		return nil, err
	}
	t.addTo(&c)
	// Pools have a store of their own, in the default pool.
	if in, ok := engine.(*pools.Pools); ok {
		c.Pools = in
		return server.New(c)
	}

	c.Store = server.StoreOf(engine)

	// The tokens protect the API, so an engine without them must not be served.
	if c.Store.Registry == nil {
		return nil, contract.Errorf(duly.CodeUnsupported,
			"this engine stores no tokens, so it cannot be served; set --engine to a file or Redis")
	}
	return server.New(c)
}

// listen starts to listen, stores the certificates and prints the banner.
func (a *app) listen(ctx context.Context, r *reloader, url string) error {
	if err := r.server.Listen(ctx); err != nil {
		return err
	}

	// The server works without these files. Only the local commands need them.
	if err := storeCertificates(r.data, r.current.TLS.Config, r.current.AdminTLS.Config); err != nil {
		r.log.Warn("cannot store the certificates for other commands; set their --ca", "data", r.data, "error", err)
	}
	return a.printBanner(r.printer, r.server, r.current, url, r.data)
}

// servingView is the JSON of the banner.
type servingView struct {
	URL      string `json:"url"`
	AdminURL string `json:"admin_url"`
	Engine   string `json:"engine"`
	Data     string `json:"data"`
}

// printBanner prints the server's addresses and commands to try.
func (a *app) printBanner(p *printer, s *server.Server, c *config.Loaded, engine, data string) error {
	if p.json {
		if err := p.value(servingView{s.URL(), s.AdminURL(), open.Redact(engine), data}); err != nil {
			return err
		}
		return p.flush()
	}
	p.printf("duly %s serves %s\n\n", a.version().Version, open.Redact(engine))
	token := filepath.Join(data, auth.TokenFile)
	note := ""
	// Without the file of a first token, the user already has another token.
	if _, err := os.Stat(token); errors.Is(err, os.ErrNotExist) {
		note, token = ", with a token in DULY_TOKEN", ""
	}

	p.pairs(
		txt("  API"), txt(s.URL()+", described at "+s.URL()+"/docs"),
		txt("  admin"), txt(adminLine(s, c)),
		txt("  token"), txt(token),
		txt("  lmstfy"), txt(lmstfyLine(c.Lmstfy)),
	)
	lines, steps := a.exampleCommands(data), "push a job due in 3 s, reserve it, ack it"
	if c.UI.Enabled == "off" {
		lines = lines[:len(lines)-1]
	} else {
		steps += ", see it in a browser"
	}
	p.printf("\nTo try it, in another shell in this folder%s: %s.\n\n", note, steps)
	for _, line := range lines {
		p.printf("  %s\n", line)
	}
	// The jobs are on Redis, not in the data folder.
	if open.Redis(engine) {
		data = open.Redact(engine)
	}
	p.printf("\nCtrl-C stops the server; its jobs stay in %s.\n", data)
	return p.flush()
}

// adminLine returns the line that serve prints about the admin address and the dashboard.
func adminLine(s *server.Server, c *config.Loaded) string {
	if c.UI.Enabled == "off" {
		return s.AdminURL()
	}
	return s.AdminURL() + ", dashboard at " + s.AdminURL() + server.UIPath
}

// lmstfyLine describes the mode of the lmstfy-compatible API.
func lmstfyLine(mode string) string {
	switch server.LmstfyMode(mode) {
	case server.LmstfyOpen:
		return "open: every user of this machine can create tokens; --lmstfy token disables that"
	case server.LmstfyOff:
		return "off"
	}
	return "on, its token routes need a token; --lmstfy open for lmstfy's own scripts"
}

// exampleCommands returns commands that work in another shell in the same folder. The last one opens the dashboard.
func (a *app) exampleCommands(data string) []string {
	duly, flag := a.program(), ""
	if defaultDir, err := filepath.Abs(defaultData); err == nil {
		// In the default folder the commands find the server without a flag.
		if dir, err := filepath.Abs(data); err == nil && dir != defaultDir {
			flag = " --data " + shellQuote(data)
		}
	}
	assign := "receipt=$(%s)"
	if runtime.GOOS == "windows" { // the syntax of PowerShell
		assign = "$receipt = %s"
	}
	return []string{
		duly + " push hello 'at the proper time' --delay 3s" + flag,
		fmt.Sprintf(assign, duly+" reserve hello --wait --receipts"+flag),
		duly + " ack $receipt" + flag,
		duly + " ui" + flag,
	}
}
