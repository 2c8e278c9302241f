package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/server/admin"
	"github.com/dulymq/duly/server/audit"
	"github.com/dulymq/duly/server/auth"
	"github.com/dulymq/duly/server/bridges"
	"github.com/dulymq/duly/server/cancelfeed"
	"github.com/dulymq/duly/server/dashboard"
	"github.com/dulymq/duly/server/lmstfy"
	"github.com/dulymq/duly/server/metrics"
	"github.com/dulymq/duly/server/native"
	"github.com/dulymq/duly/server/observe"
	"github.com/dulymq/duly/server/operations"
	"github.com/dulymq/duly/server/poll"
	"github.com/dulymq/duly/server/route"
)

// Server serves an engine; see [New].
type Server struct {
	cfg    Config
	router *route.Router
	guard  *auth.Guard
	sweep  *sweeper
	// survey reads the statistics of all queues. deaths reads those of queues with deliveries.
	survey *metrics.Survey
	deaths *deathLog
	// bridges push the messages of groups with a target into their queues. It is nil for an engine
	// without topics, and for an engine whose storage another process owns.
	bridges *bridges.Bridges
	// push sends the jobs of push queues. Nil: this server has no HTTP push.
	push *push
	// pages is the dashboard, nil if it is off.
	pages *dashboard.Dashboard
	// audit has what people change.
	audit *audit.Log
	// operations are the bulk operations of this server.
	operations *operations.Manager
	// removed has the jobs that were removed, for callers that poll for them.
	removed *cancelfeed.Feeds
	drain   context.CancelFunc

	settings               atomic.Pointer[Settings]
	api, admin             http.Handler
	apiRoutes, adminRoutes []route.Route
	listeners              [2]net.Listener // listeners of the API and the admin API
}

// New returns a server that does nothing until [Server.Listen].
func New(cfg Config) (*Server, error) {
	// Validation comes before anything is created, because one error lists all faults.
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	draining, drain := context.WithCancel(context.Background())
	s := &Server{cfg: cfg, drain: drain, guard: auth.NewGuard(auth.Config{
		Registry: cfg.Store.Registry, Watcher: cfg.Store.Watcher, Limiter: cfg.Store.Limiter,
		Accounts: cfg.Settings.Accounts, Clock: cfg.Clock,
	})}
	s.settings.Store(&cfg.Settings)

	// The observed engine hides optional interfaces of the engine. The calls of the survey
	// are not counted as calls of clients.
	bare := cfg.Engine
	topics, _ := bare.(contract.Topics)
	watcher, _ := bare.(contract.CancelWatcher)
	s.survey = newSurvey(&cfg, topics)
	s.removed = cancelfeed.New(cancelfeed.Config{
		Watcher: watcher, Clock: cfg.Clock, Polling: cfg.Metrics.Polling, Log: cfg.Logger,
	})
	s.deaths = &deathLog{engine: bare, counts: cfg.Metrics, log: cfg.Logger}
	observed := observedEngine(&cfg)
	cfg.Engine = observed

	if topics != nil && cfg.Store.Maintainer != nil {
		s.bridges = bridges.New(bridges.Config{
			Engine: cfg.Engine, Topics: topics, Namespaces: namespaces(&cfg),
			Every: cfg.SweepEvery, Clock: cfg.Clock, Log: cfg.Logger,
		})
	}
	var err error
	if s.push, err = newPush(s, &cfg); err != nil {
		return nil, err
	}
	s.sweep = newSweeper(cfg.Store.Maintainer, cfg.Clock, cfg.SweepEvery, cfg.Logger)
	s.sweep.swept = s.deaths.check

	s.router = newRouter(&cfg, s.guard, draining)
	if s.audit, err = audit.Open(auditConfig(&cfg)); err != nil {
		return nil, err
	}
	if s.operations, err = s.newOperations(&cfg, observed); err != nil {
		return nil, err
	}
	if s.pages, err = s.newDashboard(&cfg, observed); err != nil {
		return nil, err
	}
	s.mount(&cfg, observed, topics)
	return s, nil
}

// observedEngine returns the engine that all parts of the server call, with its observers.
func observedEngine(cfg *Config) *observe.Engine {
	log := newHealthLog(cfg)
	e := observe.New(cfg.Engine, cfg.Metrics.Observer())
	// Pools report the results of their engines themselves, so the log names the right pool.
	if cfg.Pools == nil {
		e.Observe(log.observer())
	}
	if cfg.Tracer != nil {
		e.Observe(observe.Observer{Pushing: cfg.Tracer.Pushing, Firing: cfg.Tracer.Firing})
	}
	return e
}

func newSurvey(cfg *Config, topics contract.Topics) *metrics.Survey {
	c := metrics.SurveyConfig{
		Engine: cfg.Engine, Registry: cfg.Store.Registry, Topics: topics,
		Clock: cfg.Clock, Queues: cfg.Metrics.Queues(),
	}
	if cfg.Pools != nil {
		c.Namespaces = namespaces(cfg)
	}
	return metrics.NewSurvey(c)
}

func newRouter(cfg *Config, guard *auth.Guard, draining context.Context) *route.Router {
	r := &route.Router{
		Guard: guard, Meter: cfg.Metrics, Tracer: cfg.Tracer, Log: cfg.Logger, Draining: draining,
		Settings: route.Settings{Grace: cfg.Settings.Grace, Proxies: cfg.Settings.Proxies},
		Memory:   max(48<<20, 6*int64(cfg.Limits.MaxBody)), AnswerMemory: cfg.Limits.AnswerMemory,
	}
	r.AccessLog.Store(cfg.Settings.AccessLog)
	return r
}

// mount builds the routes of both addresses.
func (s *Server) mount(cfg *Config, observed *observe.Engine, topics contract.Topics) {
	bare := observed.Engine
	polls := poll.New(poll.Config{
		Engine: cfg.Engine, Passer: contract.PasserOf(bare), MaxBody: cfg.Limits.MaxBody,
		Clock: cfg.Clock, Leased: s.sweep.leased,
	})
	compatible := lmstfy.New(cfg.Engine, polls, cfg.Pools, s.guard, cfg.Clock)
	if cfg.Lmstfy.Defaults != nil {
		compatible.SetDefaults(*cfg.Lmstfy.Defaults)
	}

	// The API needs the engine, so its observer can be added only now.
	observed.Observe(compatible.Observer())

	scheduler, _ := bare.(duly.Scheduler)
	api := native.New(native.Config{
		Engine: cfg.Engine, Poll: polls, Clock: cfg.Clock, Surveyor: contract.SurveyorOf(bare),
		Finder: contract.FinderOf(bare), Explainer: contract.ExplainerOf(bare), Keys: contract.KeyListerOf(bare),
		Removed: s.removed, Operations: s.operations,
		Topics: cfg.Metrics.Topics(topics), Scheduler: scheduler, Stepper: cfg.Store.Maintainer, Polling: cfg.Metrics.Polling,
		Targeted: s.refreshBridges, CheckDestination: s.push.checkDestination, Push: s.push.routes(),
	})
	gatherer := s.gatherer(compatible)
	operator := admin.API{
		Maintainer: cfg.Store.Maintainer, Registry: cfg.Store.Registry, Backuper: cfg.Store.Backuper, Pools: cfg.Pools,
		Guard: s.guard, Gatherer: gatherer, Clock: cfg.Clock, LoginCode: loginCode(s.pages),
	}

	jobs, admins, health := s.audited(api.Routes(), "api"), s.audited(operator.Routes(), "admin"), s.healthRoutes()
	s.apiRoutes = append(append(jobs, health...), documents(cfg.Version, jobs, admins, health)...)
	s.adminRoutes = append(admins, health...)
	s.api, s.admin = s.router.Mount(s.apiRoutes), s.router.Mount(s.adminRoutes)
	if cfg.Lmstfy.Mode != LmstfyOff {
		s.api = withLmstfy(s.api, compatible.Handler(s.router))
		s.admin = s.lmstfyAdmin(gatherer).Handler(s.admin)
	}
	if s.pages != nil {
		s.admin = s.pages.Handler(s.router.Mount(s.pages.Routes()), s.admin)
	}
}

// namespaces returns one function for each pool, which lists the pool's namespaces with queues.
func namespaces(cfg *Config) []func(context.Context, duly.PageParams) (duly.NamePage, error) {
	if cfg.Pools != nil {
		return cfg.Pools.EachPool()
	}
	return []func(context.Context, duly.PageParams) (duly.NamePage, error){cfg.Store.Registry.Namespaces}
}

// refreshBridges is called when the target of a group may have changed.
func (s *Server) refreshBridges() { s.bridges.Refresh() }

// gatherer returns all metrics.
func (s *Server) gatherer(compatible *lmstfy.API) prometheus.Gatherer {
	more := []prometheus.Collector{
		metrics.Panics(s.router.Panics.Load), metrics.LostAuditLines(s.audit.Failed), s.operationMetrics(),
	}
	if s.cfg.Lmstfy.Mode != LmstfyOff {
		more = append(more, compatible.Collectors(s.survey)...)
	}
	more = append(more, s.push.collectors()...)
	return s.cfg.Metrics.Gatherer(s.survey, more...)
}

func (s *Server) lmstfyAdmin(gatherer prometheus.Gatherer) *lmstfy.Admin {
	return &lmstfy.Admin{
		Engine: s.cfg.Engine, Registry: s.cfg.Store.Registry, Pools: s.cfg.Pools, Guard: s.guard, Router: s.router,
		Gatherer: gatherer, Version: s.cfg.Version, Open: s.lmstfyOpen,
	}
}

// lmstfyOpen reports whether lmstfy's admin routes accept callers on the same machine
// without a token.
func (s *Server) lmstfyOpen() bool {
	return s.cfg.Lmstfy.Mode == LmstfyOpen && loopback(s.cfg.Listen.AdminAddr) && !s.guard.HasAccounts()
}

// withLmstfy serves the lmstfy-compatible API on the address of the native API.
func withLmstfy(native, compatible http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p := r.URL.Path; strings.HasPrefix(p, lmstfy.Prefix) || p+"/" == lmstfy.Prefix {
			compatible.ServeHTTP(w, r)
			return
		}
		native.ServeHTTP(w, r)
	})
}

// Handler returns the API, for tests and for a listener of the caller. Such a listener must
// limit headers and idle connections itself. While [Server.Serve] is not running, the server
// does not watch the engine, so every request looks its token up.
func (s *Server) Handler() http.Handler { return s.api }

// AdminHandler returns the admin API.
func (s *Server) AdminHandler() http.Handler { return s.admin }

// Guard returns the guard, which creates and revokes tokens.
func (s *Server) Guard() *auth.Guard { return s.guard }

// Serve serves until ctx ends, then drains. It returns nil after a clean end, and an error
// if requests were cut off or a listener failed. Call [Server.Listen] first.
func (s *Server) Serve(ctx context.Context) error {
	if s.listeners[0] == nil || s.listeners[1] == nil {
		return errors.New("server: Serve was called without Listen; call Listen first")
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)

	servers := [2]*http.Server{
		s.httpServer(s.api, s.cfg.Listen.TLS), s.httpServer(s.admin, s.cfg.Listen.AdminTLS),
	}
	var running sync.WaitGroup
	for i, server := range servers {
		running.Go(func() {
			if err := accept(server, s.listeners[i]); !errors.Is(err, http.ErrServerClosed) {
				stop(fmt.Errorf("server: %w", err))
			}
		})
	}

	// Upkeep continues until the last request has ended.
	upkeep, rest := context.WithCancel(context.WithoutCancel(ctx))
	defer rest()
	s.startUpkeep(upkeep, &running)
	running.Go(func() { s.push.run(ctx) }) // ends by itself when ctx ends, like the listeners

	<-ctx.Done()
	cause := context.Cause(ctx)
	failed := !errors.Is(cause, context.Canceled) && !errors.Is(cause, context.DeadlineExceeded)
	s.router.Leaving.Store(true)
	if !failed {
		_ = clock.Sleep(upkeep, s.cfg.Clock, s.cfg.DrainDelay)
	}

	err := s.shutDown(servers)
	s.removed.Close()
	rest()
	running.Wait()
	if failed {
		return cause
	}
	return err
}

// startUpkeep starts the background work: everything that runs concurrently with requests.
func (s *Server) startUpkeep(ctx context.Context, running *sync.WaitGroup) {
	running.Go(func() { s.sweep.run(ctx) })
	running.Go(func() { s.watchTokens(ctx) })
	if s.cfg.Store.Maintainer != nil {
		running.Go(func() { s.deaths.begin(s.survey.Snapshot(ctx)) })
	}
	if s.cfg.Pools != nil {
		running.Go(func() { s.cfg.Pools.Run(ctx) })
	}
	if s.bridges != nil {
		running.Go(func() { s.bridges.Run(ctx) })
	}
	running.Go(func() { s.operations.Run(ctx) })
	if s.pages != nil {
		running.Go(func() { s.pages.Run(ctx) })
	}
}

// watchTokens keeps the guard up to date with changes of tokens until ctx ends.
func (s *Server) watchTokens(ctx context.Context) {
	err := s.guard.Watch(ctx)
	switch {
	case ctx.Err() != nil:
	case s.cfg.Store.Watcher == nil:
		s.cfg.Logger.Warn("this engine does not report changes of tokens: every request looks its token up, " +
			"and a long poll outlasts a token that another server revokes")
	default:
		s.cfg.Logger.Error("the engine no longer reports changes of tokens, so every request looks its token up",
			"code", string(duly.CodeOf(err)), "error", route.Fault(err))
	}
}

// shutDown lets requests end within the drain limit. Long polls end after the listeners are closed,
// so that a caller that polls again at once reaches another server.
func (s *Server) shutDown(servers [2]*http.Server) error {
	servers[0].RegisterOnShutdown(s.drain)
	drain := s.settings.Load().Drain
	limit, cancel := context.WithTimeout(context.Background(), drain)
	defer cancel()

	var ending sync.WaitGroup
	var errs [2]error
	for i, server := range servers {
		ending.Go(func() {
			if server.Shutdown(limit) != nil {
				errs[i] = fmt.Errorf("server: requests were still running after %s and were cut off", drain)
				server.Close()
			}
		})
	}
	ending.Wait()
	return errors.Join(errs[:]...)
}
