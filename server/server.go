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
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/server/admin"
	"github.com/dulymq/duly/server/auth"
	"github.com/dulymq/duly/server/bridges"
	"github.com/dulymq/duly/server/cancelfeed"
	"github.com/dulymq/duly/server/lmstfy"
	"github.com/dulymq/duly/server/metrics"
	"github.com/dulymq/duly/server/native"
	"github.com/dulymq/duly/server/poll"
	"github.com/dulymq/duly/server/route"
)

// Server serves an engine; see [New].
type Server struct {
	cfg   Config
	host  *route.Host
	guard *auth.Guard
	sweep *sweeper
	// survey looks at all queues, deaths at those that jobs were handed out of.
	survey *metrics.Survey
	deaths *deaths
	// bridges push the messages of groups with a target into their queues. Nil for an
	// engine without topics, and for one whose storage another process owns.
	bridges *bridges.Bridges
	// push sends the jobs of push queues. Nil: this server has no HTTP push.
	push *push
	// removed has the jobs that were removed, for those who poll them.
	removed *cancelfeed.Feeds
	drain   context.CancelFunc

	live                   atomic.Pointer[Live]
	api, admin             http.Handler
	apiRoutes, adminRoutes []route.Route
	listeners              [2]net.Listener // API, admin
}

// New puts a server together. It does nothing until [Server.Listen].
func New(cfg Config) (*Server, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	draining, drain := context.WithCancel(context.Background())
	s := &Server{cfg: cfg, drain: drain, guard: auth.NewGuard(auth.Config{
		Registry: cfg.Registry, Watcher: cfg.Watcher, Limiter: cfg.Limiter, Accounts: cfg.Accounts, Clock: cfg.Clock,
	})}
	// What looks at the queues for a metric is not counted among what clients do.
	looks := metrics.SurveyConfig{Engine: cfg.Engine, Registry: cfg.Registry, Clock: cfg.Clock, Queues: cfg.Metrics.Queues()}
	if cfg.Pools != nil {
		looks.Namespaces = namespaces(&cfg)
	}
	topics, _ := cfg.Engine.(duly.Topics)
	looks.Topics = topics
	s.survey = metrics.NewSurvey(looks)
	// What only some engines do is found before the engine is decorated.
	surveyor, passer := duly.SurveyorOf(cfg.Engine), duly.PasserOf(cfg.Engine)
	watcher, _ := cfg.Engine.(duly.CancelWatcher)
	s.removed = cancelfeed.New(cancelfeed.Config{Watcher: watcher, Clock: cfg.Clock, Polling: cfg.Metrics.Polling, Log: cfg.Logger})
	s.deaths = &deaths{engine: cfg.Engine, counts: cfg.Metrics, log: cfg.Logger}
	cfg.Engine = cfg.Metrics.Engine(newAttentive(&cfg))
	if topics != nil && cfg.Maintainer != nil {
		s.bridges = bridges.New(bridges.Config{Engine: cfg.Engine, Topics: topics, Namespaces: namespaces(&cfg), Every: cfg.SweepEvery, Clock: cfg.Clock, Log: cfg.Logger})
	}
	push, err := newPush(s, &cfg)
	if err != nil {
		return nil, err
	}
	s.push = push
	s.sweep = newSweeper(cfg.Maintainer, cfg.Clock, cfg.SweepEvery, cfg.Logger)
	s.sweep.swept = s.deaths.look
	s.host = &route.Host{Guard: s.guard, Meter: cfg.Metrics, Tracer: cfg.Tracer, Log: cfg.Logger, Draining: draining, Live: route.Live{Grace: cfg.Grace, Proxies: cfg.Proxies},
		Memory: max(48<<20, 6*int64(cfg.MaxBody)), AnswerMemory: cfg.AnswerMemory}
	s.host.AccessLog.Store(cfg.AccessLog)
	taker := poll.New(poll.Config{Engine: cfg.Engine, Passer: passer, MaxBody: cfg.MaxBody, Clock: cfg.Clock, Leased: s.sweep.leased})
	compatible := lmstfy.New(cfg.Engine, taker, cfg.Pools, s.guard, cfg.Clock)
	if cfg.LmstfyDefaults != nil {
		compatible.SetDefaults(*cfg.LmstfyDefaults)
	}
	api := native.New(native.Config{Engine: compatible.Watch(), Poll: taker, Clock: cfg.Clock, Surveyor: surveyor, Removed: s.removed,
		Topics: cfg.Metrics.Topics(topics), Stepper: cfg.Maintainer, Polling: cfg.Metrics.Polling, Targeted: s.lookForBridges,
		CheckDestination: s.push.checkDestination, Push: s.push.routes()})
	gatherer := s.gatherer(compatible)
	operator := admin.API{Maintainer: cfg.Maintainer, Registry: cfg.Registry, Backuper: cfg.Backuper, Pools: cfg.Pools, Guard: s.guard, Gatherer: gatherer, Clock: cfg.Clock}
	health := s.healthRoutes()
	native, admins := api.Routes(), operator.Routes()
	s.apiRoutes = append(append(native, health...), documents(cfg.Version, native, admins, health)...)
	s.adminRoutes = append(admins, health...)
	s.api, s.admin = s.host.Mount(s.apiRoutes), s.host.Mount(s.adminRoutes)
	if cfg.Lmstfy != LmstfyOff {
		s.api = beside(s.api, compatible.Handler(s.host))
		s.admin = s.lmstfyAdmin(gatherer).Handler(s.admin)
	}
	s.live.Store(&cfg.Live)
	return s, nil
}

// namespaces are the lists of all namespaces that have something.
func namespaces(cfg *Config) []func(context.Context, duly.PageParams) (duly.NamePage, error) {
	if cfg.Pools != nil {
		return cfg.Pools.EachPool()
	}
	return []func(context.Context, duly.PageParams) (duly.NamePage, error){cfg.Registry.Namespaces}
}

// lookForBridges is called when the target of a group may have changed.
func (s *Server) lookForBridges() { s.bridges.Refresh() }

// gatherer has everything that /metrics tells.
func (s *Server) gatherer(compatible *lmstfy.API) prometheus.Gatherer {
	besides := []prometheus.Collector{metrics.Panics(s.host.Panics.Load)}
	if s.cfg.Lmstfy != LmstfyOff {
		besides = append(besides, compatible.Collectors(s.survey)...)
	}
	besides = append(besides, s.push.collectors()...)
	return s.cfg.Metrics.Gatherer(s.survey, besides...)
}

func (s *Server) lmstfyAdmin(gatherer prometheus.Gatherer) *lmstfy.Admin {
	return &lmstfy.Admin{
		Engine: s.cfg.Engine, Registry: s.cfg.Registry, Pools: s.cfg.Pools, Guard: s.guard, Host: s.host, Gatherer: gatherer, Version: s.cfg.Version,
		Open: s.lmstfyOpen,
	}
}

// lmstfyOpen reports whether lmstfy's admin routes take callers on the same
// machine without a token.
func (s *Server) lmstfyOpen() bool {
	return s.cfg.Lmstfy == LmstfyOpen && loopback(s.cfg.AdminAddr) && !s.guard.HasAccounts()
}

// beside serves the lmstfy-compatible API on the native one's address.
func beside(native, compatible http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p := r.URL.Path; strings.HasPrefix(p, lmstfy.Prefix) || p+"/" == lmstfy.Prefix {
			compatible.ServeHTTP(w, r)
			return
		}
		native.ServeHTTP(w, r)
	})
}

// Handler is the API's, for tests and for a listener of one's own; limits on
// headers and idle connections are then the listener's matter. While
// [Server.Serve] does not run, nobody listens to the engine, and every request
// looks its token up.
func (s *Server) Handler() http.Handler { return s.api }

// AdminHandler is the admin API's.
func (s *Server) AdminHandler() http.Handler { return s.admin }

// Guard makes and revokes tokens.
func (s *Server) Guard() *auth.Guard { return s.guard }

// Serve serves until ctx ends, then drains and returns: nil after a clean end,
// an error if requests had to be cut off or a listener failed. [Server.Listen]
// comes before it.
func (s *Server) Serve(ctx context.Context) error {
	if s.listeners[0] == nil || s.listeners[1] == nil {
		return errors.New("server: Serve without Listen")
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	servers := [2]*http.Server{s.httpServer(s.api, s.cfg.TLS), s.httpServer(s.admin, s.cfg.AdminTLS)}
	var running sync.WaitGroup
	for i, server := range servers {
		running.Go(func() {
			if err := accept(server, s.listeners[i]); !errors.Is(err, http.ErrServerClosed) {
				stop(fmt.Errorf("server: %w", err))
			}
		})
	}
	upkeep, rest := context.WithCancel(context.WithoutCancel(ctx)) // until nothing is served any more
	defer rest()
	running.Go(func() { s.sweep.run(upkeep) })
	if s.cfg.Maintainer != nil {
		running.Go(func() { s.deaths.begin(s.survey.Snapshot(upkeep)) })
	}
	running.Go(func() { s.watch(upkeep) })
	if s.cfg.Pools != nil {
		running.Go(func() { s.cfg.Pools.Run(upkeep) })
	}
	if s.bridges != nil {
		running.Go(func() { s.bridges.Run(upkeep) })
	}
	running.Go(func() { s.push.run(ctx) }) // it drains as the listeners do
	<-ctx.Done()
	cause := context.Cause(ctx)
	failed := !errors.Is(cause, context.Canceled) && !errors.Is(cause, context.DeadlineExceeded)
	s.host.Leaving.Store(true)
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

// watch lets the guard hear of changes of tokens for as long as it serves.
func (s *Server) watch(ctx context.Context) {
	err := s.guard.Watch(ctx)
	switch {
	case ctx.Err() != nil:
	case s.cfg.Watcher == nil:
		s.cfg.Logger.Warn("this engine does not tell of changes: every request looks its token up, and one that waits outlasts its token if that is revoked by another server")
	default:
		s.cfg.Logger.Error("changes of tokens are not heard of any more; every request looks its token up", "code", string(duly.CodeOf(err)), "error", route.Fault(err))
	}
}

// shutDown lets requests end within the drain limit. Long polls end once the
// listeners are closed: whoever comes again at once finds another server.
func (s *Server) shutDown(servers [2]*http.Server) error {
	servers[0].RegisterOnShutdown(s.drain)
	limit, cancel := context.WithTimeout(context.Background(), s.live.Load().Drain)
	defer cancel()
	var ending sync.WaitGroup
	var errs [2]error
	for i, server := range servers {
		ending.Go(func() {
			if server.Shutdown(limit) != nil {
				errs[i] = fmt.Errorf("server: requests were still running after %s and were cut off", s.live.Load().Drain)
				server.Close()
			}
		})
	}
	ending.Wait()
	return errors.Join(errs[:]...)
}
