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
	"strings"

	"github.com/spf13/cobra"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/cmd/duly/internal/config"
	"github.com/dulymq/duly/cmd/duly/internal/sdnotify"
	"github.com/dulymq/duly/internal/ownfile"
	"github.com/dulymq/duly/open"
	"github.com/dulymq/duly/server"
	"github.com/dulymq/duly/server/auth"
	"github.com/dulymq/duly/server/metrics"
	"github.com/dulymq/duly/server/pools"
)

func serveCommand(a *app) *cobra.Command {
	var file files
	var cmd *cobra.Command
	cmd = a.command("serve", "Run a server until told to stop",
		`Serves an engine over HTTP: the embedded one, in the folder of --data, or that of --engine. On a loopback address the
first start makes a token and leaves it in that folder, readable by you alone, where the other commands find it. An
address that others can reach needs a token made before: start on 127.0.0.1, duly token create, then listen there.
For the admin address accounts will do as well, a file with lines NAME:PASSWORD that you alone can read.

The lmstfy-compatible API is on, and its routes for tokens need a token or an account. With --lmstfy open callers on this
machine need none, as lmstfy's own scripts expect; the start then prints a warning. --lmstfy off leaves that API out.

A server can have more engines, each a pool with a name: --pool. The one of --engine is the pool default and holds the tokens.

Any number of servers may stand on one Redis, each with a folder of its own; they share jobs, tokens and limits.

What the flags say may also stand in a file, or in the environment: drain = "1m" there is DULY_DRAIN=1m here. A flag
counts more than a variable, and that more than the file; duly config check finds what is wrong with them.

On HUP it reads all of them again, and takes over what a running server can; what is wrong changes nothing.

On INT or TERM the server stops listening and lets requests end for the time of --drain; the second time it ends at once.
Behind a balancer that asks /readyz give it --drain-delay, the time in which that notices: for so long it goes on, but red.`,
		`  duly serve
  duly serve --config /etc/duly/duly.toml
  duly serve --lmstfy-config /etc/lmstfy/config.toml
  duly serve --data /var/lib/duly --addr 0.0.0.0:7777 --log-format json
  duly serve --addr 10.0.0.5:7777 --admin-addr 10.0.0.5:7778 --admin-accounts /etc/duly/accounts --trusted-proxy 10.0.0.0/24
  duly serve --engine 'sqlite:/var/lib/duly/duly.db'
  duly serve --engine 'redis://user:password@127.0.0.1:6379/0'
  duly serve --pool orders=redis+cluster://10.0.0.1:6379,10.0.0.2:6379`,
		func(ctx context.Context, p *printer, _ []string) error {
			read := func() (*config.Loaded, error) { return a.configuration(file, cmd.Flags()) }
			c, err := read()
			if err != nil {
				return err
			}
			return a.serve(ctx, p, c, read)
		})
	cmd.Args = noArgs
	settingFlags(cmd, &file)
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		if cmd.Flags().Changed("url") { // which every command has; ignored, a file would be served in its stead
			return misusef("serve takes --engine; --url is for the commands that call an engine")
		}
		return nil
	}
	return cmd
}

// gcFloor is memory that is never touched and so takes none. The collector
// counts it as live and lets as much garbage gather before it runs: what is
// really live in a server is a few megabytes, for which it would run many times
// a second.
const gcFloor = 64 << 20

func (a *app) serve(ctx context.Context, p *printer, c *config.Loaded, read func() (*config.Loaded, error)) (err error) {
	floor := make([]byte, gcFloor)
	defer runtime.KeepAlive(floor)
	out := newServerLog(a.logTo(a.env.Stderr), &c.Log)
	log := slog.New(out)
	for _, i := range c.Ignored {
		log.Warn("this key of the lmstfy file means nothing here", "key", i.Key, "at", i.Origin.String(), "reason", i.Reason)
	}
	for _, stray := range a.strays() {
		log.Warn("this variable "+stray.Problem, "variable", stray.Origin.Place)
	}
	a.warnOfURL(log, c)
	warnOfKeys(log, c)
	data, at := places(c)
	leave, err := mayStart(ctx, data, c)
	if err != nil {
		return err
	}
	defer func() { leave(err) }()
	see, err := a.observe(ctx, log)
	if err != nil {
		return err
	}
	defer see.end()
	if open.Redis(at) {
		defer func() { err = saidByRedis(err) }()
	}
	engine, err := a.openServed(ctx, at, c, log, see.counts)
	if err != nil {
		return err
	}
	defer func() {
		if closed := engine.Close(); err == nil {
			err = closed
		}
	}()
	if err := os.MkdirAll(data, 0o700); err != nil {
		return advise(err, "choose a folder that can be written: --data")
	}
	secure := [2]keeper{newKeeper(c.TLS), newKeeper(c.AdminTLS)}
	s, err := a.newServer(engine, mostBody(at, c.Pools), data, &c.Settings, secure, log, see)
	if err != nil {
		return err
	}
	if err := a.listen(ctx, p, s, c, at, data, log); err != nil {
		return err
	}
	r := &reloader{
		app: a, manager: sdnotify.New(a.env.Getenv(sdnotify.Variable)), server: s,
		log: log, out: out, secure: secure, data: data, held: c, read: read, printer: p,
	}
	return r.serve(ctx)
}

// warnOfURL is for who has named a store in DULY_URL alone: a server does not
// read it, and serves its file. That of a server is there for other commands.
func (a *app) warnOfURL(log *slog.Logger, c *config.Loaded) {
	if url := a.env.Getenv("DULY_URL"); url != "" && !remote(url) && c.Engine == "" {
		log.Warn("DULY_URL is for commands that call an engine; serve takes --engine or DULY_ENGINE, and serves its file without them")
	}
}

// warnOfKeys logs each private key that other users can read.
func warnOfKeys(log *slog.Logger, c *config.Loaded) {
	for key, t := range map[string]config.TLS{"tls.key": c.TLS, "admin_tls.key": c.AdminTLS} {
		if t.Config == nil {
			continue
		}
		f, err := ownfile.Open(t.Key)
		if err != nil {
			log.Warn("other users may know the private key", "setting", key, "problem", err.Error())
			continue
		}
		f.Close()
	}
}

// places are the data folder and the URL of the engine.
func places(c *config.Loaded) (data, engine string) {
	if data = c.Data; data == "" {
		data = "." + string(filepath.Separator) + defaultData
	}
	if engine = c.Engine; engine == "" {
		engine = open.File(filepath.Join(data, storeFile))
	}
	return data, open.WithMaxBody(engine, int(c.Memory.MaxBody))
}

// mayStart comes before a data folder is made. A start that fails should leave
// none behind: so it looks first whether the server could listen, and leave
// takes a folder away that the start has made and left empty. One with a store in
// it stays, whatever is in that.
//
// An existing folder must not be writable by other users, who could have put a
// store or a token into it.
func mayStart(ctx context.Context, data string, c *config.Loaded) (leave func(err error), err error) {
	if info, err := os.Stat(data); err == nil && info.IsDir() {
		if err := ownfile.CheckFolder(data); err != nil {
			return nil, advise(err, "")
		}
	}
	if _, err := os.Stat(data); !errors.Is(err, fs.ErrNotExist) {
		return func(error) {}, nil
	}
	leave = func(err error) {
		if err == nil {
			return
		}
		// A server that has served leaves more than its key.
		if files, _ := os.ReadDir(data); len(files) == 1 && files[0].Name() == keyFile {
			_ = os.Remove(filepath.Join(data, keyFile))
		}
		_ = os.Remove(data) // which takes empty ones alone
	}
	return leave, server.CanListen(ctx, c.Addr, c.AdminAddr)
}

// openServed opens the engine of --engine, and those of the other pools.
func (a *app) openServed(ctx context.Context, at string, c *config.Loaded, log *slog.Logger, counts *metrics.Metrics) (duly.Contract, error) {
	engine, err := a.env.Open(ctx, at, open.Log(log), open.Gather(), open.Observe(counts.Called))
	switch {
	case err != nil && open.Redis(at):
		return nil, inStoreURL(err, at, "--engine")
	case err != nil:
		return nil, adviseOn(duly.CodeUnavailable, inStoreURL(err, at, "--engine"), "or choose another folder: --data")
	case len(c.Pools) == 0:
		return engine, nil
	}
	return a.openPools(ctx, engine, c.Pools, int(c.Memory.MaxBody), log, counts)
}

// listen begins to listen, and then says so: to the other commands by what it
// leaves in the data folder, and to the person who started it.
func (a *app) listen(ctx context.Context, p *printer, s *server.Server, c *config.Loaded, at, data string, log *slog.Logger) error {
	if err := s.Listen(ctx); err != nil {
		return err
	}
	if err := leaveCertificates(data, c.TLS.Config, c.AdminTLS.Config); err != nil {
		log.Warn("the certificates can't be left for the other commands; give them --ca", "data", data, "error", err)
	}
	return a.welcome(p, s, c, at, data)
}

// newServer composes the server; what the engine does not offer, it does not
// serve.
func (a *app) newServer(engine duly.Contract, maxBody int, data string, set *config.Settings, secure [2]keeper, log *slog.Logger, see *observed) (*server.Server, error) {
	c := server.Config{
		Engine: engine, TLS: secure[0].config(), AdminTLS: secure[1].config(), Addr: set.Addr, AdminAddr: set.AdminAddr, DataDir: data, Version: a.version().Version, Clock: a.env.Clock, Logger: log,
		Live: live(set), Lmstfy: server.LmstfyMode(set.Lmstfy), LmstfyDefaults: &set.LmstfyDefaults,
		MaxBody: maxBody, AnswerMemory: set.Memory.Answers,
		DrainDelay: set.Timing.DrainDelay, SweepEvery: set.Timing.SweepEvery,
	}
	push, err := pushOf(&set.Push, data, see)
	if err != nil {
		return nil, err
	}
	c.Push = push
	see.put(&c)
	if in, ok := engine.(*pools.Pools); ok {
		c.Pools = in
		return server.New(c)
	}
	c.Maintainer, _ = engine.(duly.Maintainer)
	c.Registry, _ = engine.(duly.Registry)
	c.Watcher, _ = engine.(duly.Watcher)
	c.Limiter, _ = engine.(duly.Limiter)
	c.Targeter, _ = engine.(duly.Targeter)
	c.Resetter, _ = engine.(duly.Resetter)
	c.Accepter, _ = engine.(duly.Accepter)
	c.Backuper, _ = engine.(duly.Backuper)
	if c.Registry == nil {
		return nil, duly.Errorf(duly.CodeUnsupported, "this engine stores no tokens, so it can't be served; give a file or Redis to --engine")
	}
	return server.New(c)
}

// serving is what `duly serve --json` prints when it listens.
type serving struct {
	URL      string `json:"url"`
	AdminURL string `json:"admin_url"`
	Engine   string `json:"engine"`
	Data     string `json:"data"`
}

// welcome says where the server listens, and three lines to try it with.
func (a *app) welcome(p *printer, s *server.Server, c *config.Loaded, engine, data string) error {
	if p.json {
		if err := p.value(serving{s.URL(), s.AdminURL(), open.Redact(engine), data}); err != nil {
			return err
		}
		return p.flush()
	}
	p.printf("duly %s serves %s\n\n", a.version().Version, open.Redact(engine))
	token := filepath.Join(data, auth.TokenFile)
	note := ""
	if _, err := os.Stat(token); errors.Is(err, os.ErrNotExist) {
		note, token = ", with a token in DULY_TOKEN", ""
	}
	p.pairs(
		txt("  API"), txt(s.URL()+", described at "+s.URL()+"/docs"),
		txt("  admin"), txt(s.AdminURL()),
		txt("  token"), txt(token),
		txt("  lmstfy"), txt(lmstfyLine(c.Lmstfy)),
	)
	p.printf("\nTo try it, in another shell in this folder%s: push a job that is due in 3 s, take it, ack it.\n\n", note)
	for _, line := range a.tryLines(data) {
		p.printf("  %s\n", line)
	}
	if open.Redis(engine) {
		data = open.Redact(engine)
	}
	p.printf("\nCtrl-C stops the server; what it holds stays in %s.\n", data)
	return p.flush()
}

// lmstfyLine says how the lmstfy-compatible API is served.
func lmstfyLine(mode string) string {
	switch server.LmstfyMode(mode) {
	case server.LmstfyOpen:
		return "open: every user of this machine may make tokens; --lmstfy token closes it"
	case server.LmstfyOff:
		return "off"
	}
	return "on, its token routes need a token; --lmstfy open for lmstfy's own scripts"
}

// tryLines work as they are, in another shell in the same folder.
func (a *app) tryLines(data string) []string {
	duly, folder := a.program(), ""
	if here, err := filepath.Abs(defaultData); err == nil {
		if there, err := filepath.Abs(data); err == nil && here != there {
			folder = " --data " + shellQuote(data)
		}
	}
	receipt, take := "$receipt", "receipt=$(%s)"
	if runtime.GOOS == "windows" { // PowerShell
		take = "$receipt = %s"
	}
	return []string{
		strings.Join([]string{duly, "push hello 'at the proper time' --delay 3s"}, " ") + folder,
		fmt.Sprintf(take, duly+" reserve hello --wait --receipts"+folder),
		duly + " ack " + receipt + folder,
	}
}
