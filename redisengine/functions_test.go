package redisengine_test

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/faultproxy"
	"github.com/dulymq/duly/internal/logtest"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/internal/redistest/resp"
	"github.com/dulymq/duly/redisengine"
	"github.com/dulymq/duly/redisengine/lua"
)

// exercise calls functions of every library. All jobs that it pushes are done at its end.
func exercise(t *testing.T, e *redisengine.Engine) {
	t.Helper()
	ctx, q := t.Context(), duly.Q("q")
	must(t, e.Configure(ctx, q, duly.QueueConfig{MaxLeased: 100}))

	results, err := e.Push(ctx, []duly.Job{{Queue: "q"}, {Queue: "q", OrderKey: "k"}, {Queue: "q", Priority: 3}})
	must(t, err)
	for _, r := range results {
		must(t, r.Err)
	}
	_, err = e.Stats(ctx, q)
	must(t, err)

	ds, err := e.Reserve(ctx, duly.ReserveParams{Queues: []string{"q"}, Max: 10, Lease: time.Minute})
	must(t, err)
	if len(ds) != 3 {
		t.Fatalf("reserved %d of 3 jobs", len(ds))
	}
	var outcomes []duly.SettleRequest
	for _, d := range ds {
		outcomes = append(outcomes, duly.SettleRequest{Receipt: d.Receipt, As: duly.Ack})
	}
	errs, err := e.Settle(ctx, "", outcomes)
	must(t, errors.Join(append(errs, err)...))

	_, err = e.CreateGroup(ctx, duly.Q("t@g"), duly.FromStart)
	must(t, err)
	published, err := e.Publish(ctx, []duly.Message{{Topic: "t"}})
	must(t, err)
	must(t, published[0].Err)

	useSchedules(t, e, q)
	must(t, e.PutToken(ctx, token("shop")))
	report, err := e.Check(ctx, contract.CheckParams{})
	must(t, err)
	if len(report.Faults) > 0 {
		t.Errorf("Check found %+v", report.Faults)
	}
}

// libraries returns the names of a server's libraries.
func libraries(t *testing.T, server *redistest.Server) (names []string) {
	t.Helper()
	for _, entry := range server.Must("FUNCTION", "LIST").([]any) {
		for fields := entry.([]any); len(fields) > 1; fields = fields[2:] {
			if fields[0] == "library_name" {
				names = append(names, fields[1].(string))
			}
		}
	}
	slices.Sort(names)
	return names
}

// ownLibraries returns the names of this version's libraries.
func ownLibraries() (names []string) {
	for _, l := range lua.Libraries() {
		names = append(names, l.Name)
	}
	slices.Sort(names)
	return names
}

// basicLibraries returns the names of the libraries that a process loads when it opens.
func basicLibraries() (names []string) {
	for _, l := range lua.Libraries() {
		if l.Basic {
			names = append(names, l.Name)
		}
	}
	slices.Sort(names)
	return names
}

// TestLostFunctionsAreLoadedAgain checks that the engine reloads its functions on a server that
// lost them, without an error for callers. In the case "restart" the server keeps its jobs but not
// its functions.
//
// C11.17
func TestLostFunctionsAreLoadedAgain(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(server *redistest.Server){
		"Flush": func(server *redistest.Server) { server.Must("FUNCTION", "FLUSH") },
		"Delete": func(server *redistest.Server) {
			for _, name := range ownLibraries() {
				server.Must("FUNCTION", "DELETE", name)
			}
		},
		"Restart": func(server *redistest.Server) {
			server.Must("FUNCTION", "FLUSH")
			server.Restart()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Single(t, redistest.AOF("always"))
			e, log := openLogged(t, server.URL())
			for range 3 {
				exercise(t, e)
				lose(server)
				if left := libraries(t, server); len(left) > 0 {
					t.Fatalf("the server still has %v", left)
				}
			}
			exercise(t, e)
			if names := libraries(t, server); !slices.Equal(names, ownLibraries()) {
				t.Errorf("the server has the libraries %v, want duly's", names)
			}
			if log.Count("functions") > 0 {
				t.Errorf("the log is %q, want no line about functions", log)
			}
		})
	}
}

// TestForeignLibraryIsLogged checks that another program's library with the name of one of duly's
// is logged once, when an engine opens. Calls use EVAL until it is deleted, and functions
// afterwards.
//
// C11.17
func TestForeignLibraryIsLogged(t *testing.T) {
	t.Parallel()
	single, cluster := redistest.Single(t), redistest.NewCluster(t, 0)
	for name, at := range map[string]struct {
		url     string
		servers []*redistest.Server
	}{"Single": {single.URL(), []*redistest.Server{single}}, "Cluster": {cluster.URL(), cluster.Nodes()}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			foreign := lua.Load("push").Library.Name
			for _, server := range at.servers {
				loadLibrary(server, foreign)
			}
			e, log := openLogged(t, at.url)
			exercise(t, e)
			exercise(t, e)
			if lines := log.Lines("FUNCTION DELETE " + foreign); len(lines) != 1 || log.Count("setting=scripts") != 1 {
				t.Errorf("unexpected log: %s", log)
			}

			for _, server := range at.servers {
				server.Must("FUNCTION", "DELETE", foreign)
			}
			exercise(t, e)
			if names := libraries(t, at.servers[0]); name == "Single" && !slices.Equal(names, ownLibraries()) {
				t.Errorf("the server has the libraries %v, want duly's", names)
			}
			if _, log := openLogged(t, at.url); log.Count("setting=scripts") != 0 {
				t.Errorf("an engine with its own libraries logged %s", log)
			}
		})
	}
}

// TestForeignFunctionsAreNotCalled checks that functions of another library with the names of
// duly's are not called. An engine that must use functions does not open.
//
// C11.17
func TestForeignFunctionsAreNotCalled(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	foreign := "#!lua name=foreign\n"
	for _, name := range []string{"push", "reserve", "settle", "topic_publish"} {
		foreign += fmt.Sprintf("redis.register_function('%s', function() return {'ok'} end)\n", lua.Load(name).Function)
	}
	server.Must("FUNCTION", "LOAD", foreign)

	e, log := openLogged(t, server.URL())
	exercise(t, e)
	if log.Count("setting=scripts") != 1 || len(log.Lines("FUNCTION DELETE")) != 1 {
		t.Errorf("unexpected log: %s", log)
	}
	_, err := redisengine.Open(t.Context(), redisengine.Config{URL: server.URL() + "?scripts=functions"})
	if !errors.Is(err, duly.ErrUnsupported) || !strings.Contains(err.Error(), "FUNCTION DELETE") {
		t.Errorf("Open returned %v", err)
	}
}

// TestFunctionsAreLoadedAfterAFailover checks that a replica without the functions gets them
// after a failover.
//
// C11.13, C11.17
func TestFunctionsAreLoadedAfterAFailover(t *testing.T) {
	t.Parallel()
	group := redistest.NewSentinel(t)
	e := open(t, group.URL())
	exercise(t, e)
	old := group.Primary()
	old.Must("FUNCTION", "FLUSH")
	for _, server := range group.Servers() {
		redistest.Await(t, "the functions are gone", func() bool { return len(libraries(t, server)) == 0 })
	}
	group.Failover()
	exercise(t, e)
	if names := libraries(t, group.Primary()); !slices.Equal(names, ownLibraries()) {
		t.Errorf("the new primary has the libraries %v", names)
	}
}

// TestNewNodeGetsTheFunctions checks that every node of a cluster has the basic functions after
// Open, and that a node which joins later gets its functions from the first call.
//
// C11.13, C11.17
func TestNewNodeGetsTheFunctions(t *testing.T) {
	t.Parallel()
	c := redistest.NewCluster(t, 0)
	e := open(t, c.URL())
	for _, node := range c.Nodes() {
		if names := libraries(t, node); !slices.Equal(names, basicLibraries()) {
			t.Errorf("%s has the libraries %v", node.Addr(), names)
		}
	}
	exercise(t, e)

	key := "duly:{default/q/0}:config"
	joined := c.Join()
	c.MoveSlot(c.Slot(key), c.For(key), joined, nil)
	if names := libraries(t, joined); len(names) > 0 {
		t.Fatalf("the new node has %v before any call", names)
	}
	exercise(t, e)
	if names := libraries(t, joined); !slices.Contains(names, lua.Load("push").Library.Name) {
		t.Errorf("the new node has the libraries %v", names)
	}
}

// TestFullMemoryWithoutFunctions checks that jobs are delivered and settled while the server's
// memory is full and it loads no library (fault D4). A push still fails as full.
//
// C9.11, C11.17
func TestFullMemoryWithoutFunctions(t *testing.T) {
	t.Parallel()
	for _, options := range []string{"", "?durability=replicas:1&durability_timeout=1ms"} {
		server := redistest.Single(t)
		e, ctx := open(t, server.URL()+options), t.Context()
		_, err := e.Push(ctx, make2("q"))
		must(t, err)

		server.Must("FUNCTION", "FLUSH")
		server.Must("CONFIG", "SET", "maxmemory", "1")
		ds, err := e.Reserve(ctx, duly.ReserveParams{Queues: []string{"q"}, Max: 2, Lease: time.Minute})
		if err != nil || len(ds) != 2 {
			t.Fatalf("reserve: %d jobs, %v", len(ds), err)
		}
		errs, err := e.Settle(ctx, "", []duly.SettleRequest{{Receipt: ds[0].Receipt, As: duly.Ack},
			{Receipt: ds[1].Receipt, As: duly.Nack, Error: "no"}})
		must(t, err)
		for _, err := range errs {
			if err != nil && !errors.Is(err, duly.ErrNotDurable) {
				t.Errorf("settle: %v", err)
			}
		}
		_, err = e.Stats(ctx, duly.Q("q"))
		must(t, err)
		results, err := e.Push(ctx, []duly.Job{{Queue: "q"}})
		if err == nil {
			err = results[0].Err
		}
		if !errors.Is(err, duly.ErrFull) {
			t.Errorf("a push: %v, want full", err)
		}
		if names := libraries(t, server); len(names) > 0 {
			t.Errorf("the full server has loaded %v", names)
		}

		server.Must("CONFIG", "SET", "maxmemory", "0")
		_, err = e.Stats(ctx, duly.Q("q"))
		must(t, err)
		if names := libraries(t, server); len(names) != 1 {
			t.Errorf("with memory again, the server has the libraries %v, want duly's", names)
		}
	}
}

// make2 returns two plain jobs.
func make2(queue string) []duly.Job { return []duly.Job{{Queue: queue}, {Queue: queue}} }

// TestServerWithoutFunctionsIsUsedByEval checks that a server without functions is used by EVAL after
// one warning. With scripts=functions Open fails. With scripts=eval there is no warning.
//
// C11.17
func TestServerWithoutFunctionsIsUsedByEval(t *testing.T) {
	t.Parallel()
	type place struct {
		url  string
		code error
		says []string // texts that the error and the warning must contain
	}
	places := map[string]func(t *testing.T) place{}
	for _, right := range []string{"function|load", "fcall", "fcall_ro"} {
		places["No "+right] = func(t *testing.T) place {
			server, prefix := redistest.Shared(t)
			rules := slices.DeleteFunc(documented(t, prefix), func(r string) bool { return r == "+"+right })
			return place{asUser(t, server, prefix, rules), duly.ErrForbidden,
				[]string{"(" + right + ")", "+function|load +fcall +fcall_ro"}}
		}
	}
	places["Proxy"] = func(t *testing.T) place {
		server, prefix := redistest.Shared(t)
		proxy := faultproxy.Redis(t, server.Addr())
		unknown := resp.Error("ERR unknown command 'FUNCTION', with args beginning with: 'LOAD'")
		proxy.Inject(faultproxy.Fault{Match: faultproxy.Named("FUNCTION"), Do: faultproxy.Answer, Reply: unknown, Times: -1})
		proxy.Inject(faultproxy.Fault{
			Match: faultproxy.Named("FCALL").Or(faultproxy.Named("FCALL_RO")), Do: faultproxy.Answer, Times: -1,
			Reply: resp.Error("ERR unknown command 'FCALL'"), Before: func([]string) { t.Error("a function is called") },
		})
		return place{withPrefix("redis://"+proxy.Addr(), prefix), duly.ErrUnsupported, []string{"command FUNCTION"}}
	}
	for name, make := range places {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := make(t)
			_, err := redisengine.Open(t.Context(), redisengine.Config{URL: p.url + "&scripts=functions",
				Logger: slog.New(slog.DiscardHandler)})
			if !errors.Is(err, p.code) || strings.Contains(err.Error(), "\n") {
				t.Errorf("scripts=functions: %v", err)
			}
			e, log := openLogged(t, p.url)
			warnings := log.Lines("functions can't be used")
			if len(warnings) != 1 || log.Count("level=WARN") != 1+log.Count("setting=appendonly")+log.Count("setting=acl") ||
				!strings.Contains(warnings[0], "scripts=eval") {
				t.Errorf("scripts=auto logs %s", log)
			}
			for _, text := range p.says {
				if err == nil || !strings.Contains(err.Error(), text) || !strings.Contains(fmt.Sprint(warnings), text) {
					t.Errorf("the error %v and the warnings %q must contain %q", err, warnings, text)
				}
			}
			exercise(t, e)

			e, log = openLogged(t, p.url+"&scripts=eval")
			if log.Count("functions") > 0 {
				t.Errorf("scripts=eval logs %s", log)
			}
			exercise(t, e)
		})
	}
}

// TestEvalReplacesFunctionsWithoutTheRight checks that a process uses EVAL after the right to load functions was
// revoked. Without the right to call functions, the error names the missing right.
func TestEvalReplacesFunctionsWithoutTheRight(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	e := open(t, asUser(t, server, "duly", documented(t, "duly")))
	server.Must("ACL", "SETUSER", "duly", "-function|load")
	exercise(t, e)
	server.Must("FUNCTION", "FLUSH")
	exercise(t, e)

	server.Must("ACL", "SETUSER", "duly", "-fcall")
	_, err := e.Push(t.Context(), []duly.Job{{Queue: "q"}})
	if !errors.Is(err, duly.ErrForbidden) || !strings.Contains(err.Error(), "fcall") {
		t.Errorf("a push without FCALL: %v", err)
	}
	server.Must("ACL", "SETUSER", "duly", "+fcall")
	exercise(t, e)
}

// TestTwoVersionsOnOneServer checks that two versions of duly work concurrently on the same
// queues of one Redis, each with its own libraries.
func TestTwoVersionsOnOneServer(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	var engines []*redisengine.Engine
	for i := range 2 {
		cfg := redisengine.Config{URL: server.URL(), Logger: new(logtest.Log).Logger()}
		if i > 0 {
			cfg = redisengine.OtherVersion(cfg)
		}
		e, err := redisengine.Open(t.Context(), cfg)
		must(t, err)
		t.Cleanup(func() { e.Close() })
		engines = append(engines, e)
		exercise(t, e)
	}
	if names := libraries(t, server); len(names) != 2*len(ownLibraries()) {
		t.Errorf("the server has the libraries %v, want duly's", names)
	}

	const rounds = 40
	var all sync.WaitGroup
	for i, e := range engines {
		other := engines[1-i]
		all.Go(func() {
			for n := range rounds {
				results, err := e.Push(t.Context(), []duly.Job{{Queue: "q", OrderKey: fmt.Sprint(n % 3)}, {Queue: "q"}})
				if err != nil || results[0].Err != nil || results[1].Err != nil {
					t.Errorf("push: %v, %v", results, err)
				}
				ds, err := e.Reserve(t.Context(), duly.ReserveParams{Queues: []string{"q"}, Max: 3, Lease: time.Minute})
				if err != nil {
					t.Errorf("reserve: %v", err)
				}
				for _, d := range ds {
					errs, err := other.Settle(t.Context(), "", []duly.SettleRequest{{Receipt: d.Receipt, As: duly.Ack}})
					if err := errors.Join(append(errs, err)...); err != nil {
						t.Errorf("settle: %v", err)
					}
				}
			}
		})
	}
	all.Wait()
	for done := false; !done; {
		ds, err := engines[0].Reserve(t.Context(), duly.ReserveParams{Queues: []string{"q"}, Max: 100, Lease: time.Minute})
		must(t, err)
		for _, d := range ds {
			errs, err := engines[1].Settle(t.Context(), "", []duly.SettleRequest{{Receipt: d.Receipt, As: duly.Ack}})
			must(t, errors.Join(append(errs, err)...))
		}
		done = len(ds) == 0
	}

	st, err := engines[1].Stats(t.Context(), duly.Q("q"))
	if want := int64(2*3 + 2*2*rounds); err != nil || st.Counters.Pushed != want || st.Counters.Delivered != want ||
		st.Counters.Acked != want {
		t.Errorf("%+v, %v; want %d jobs, each delivered and acked once", st.Counters, err, want)
	}
	for _, e := range engines {
		report, err := e.Check(t.Context(), contract.CheckParams{})
		if err != nil || len(report.Faults) > 0 {
			t.Errorf("Check found %+v, %v", report.Faults, err)
		}
	}
}
