package redisengine_test

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/logtest"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/redisengine"
)

// These are libraries that the tests load, in addition to those of duly.
const (
	oldLibrary   = "duly_jobs_0123456789"
	usedLibrary  = "duly_check_abcdef0123"
	otherLibrary = "duly_helpers" // a library of another program
)

// loadLibrary loads a library with one function on a server.
func loadLibrary(server *redistest.Server, name string) {
	server.Must("FUNCTION", "LOAD", "#!lua name="+name+"\nredis.register_function('f_"+name+"', function() return 1 end)")
}

// tidyEngine returns an engine with a fake clock, and its log.
func tidyEngine(t *testing.T, url string, c *clock.Fake) (*redisengine.Engine, *logtest.Log) {
	t.Helper()
	log := new(logtest.Log)
	e, err := redisengine.Open(t.Context(), redisengine.Config{URL: url, Clock: c, Manual: true, Logger: log.Logger()})
	must(t, err)
	t.Cleanup(func() { e.Close() })
	return e, log
}

// TestUnusedLibrariesAreRemoved checks that a library of another version is removed from every
// node only after no process has recorded it for a week. A new library counts as recorded when it
// is first seen. Other programs' libraries stay.
//
// C11.17
func TestUnusedLibrariesAreRemoved(t *testing.T) {
	t.Parallel()
	single, cluster := redistest.Single(t), redistest.NewCluster(t, 0)
	for name, at := range map[string]struct {
		url     string
		servers []*redistest.Server
	}{"Single": {single.URL(), []*redistest.Server{single}}, "Cluster": {cluster.URL(), cluster.Nodes()}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, server := range at.servers {
				loadLibrary(server, oldLibrary)
				loadLibrary(server, usedLibrary)
				loadLibrary(server, otherLibrary)
			}
			c := clock.NewFake()
			e, log := tidyEngine(t, at.url, c)
			hash := at.servers[0]
			if name == "Cluster" {
				hash = cluster.For("duly:{tokens}:libraries")
			}
			after := func(d time.Duration, want ...string) {
				t.Helper()
				c.Advance(d)
				must(t, e.Sweep(t.Context()))
				want = append(want, append(basicLibraries(), otherLibrary)...)
				slices.Sort(want)
				for _, server := range at.servers {
					if names := libraries(t, server); !slices.Equal(names, want) {
						t.Errorf("%v later %s has %v, want %v", d, server.Addr(), names, want)
					}
				}
			}
			const day = 24 * time.Hour
			after(0, oldLibrary, usedLibrary)
			after(6*day, oldLibrary, usedLibrary)
			hash.Must("HSET", "duly:{tokens}:libraries", usedLibrary, c.Now().UnixMilli(), "duly_jobs_fedcba9876", 1)
			after(day-time.Second, oldLibrary, usedLibrary)
			after(time.Hour, usedLibrary)
			// Only the libraries of this process and usedLibrary have entries.
			if entries := hash.Must("HKEYS", "duly:{tokens}:libraries").([]any); len(entries) != len(ownLibraries())+1 {
				t.Errorf("the recorded libraries are %q", entries)
			}
			after(5*day, usedLibrary)
			after(2 * day)
			exercise(t, e)
			if log.Count("msg=\"removed a library") != 2 || log.Count("not removed") > 0 {
				t.Errorf("unexpected log: %s", log)
			}
		})
	}
}

// TestRepairRemovesLibraries checks that a process looks for libraries once per hour, and at
// every repair. A check without repair removes nothing.
func TestRepairRemovesLibraries(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	loadLibrary(server, oldLibrary)
	c := clock.NewFake()
	e, _ := tidyEngine(t, server.URL(), c)
	looks := func(f func()) int {
		t.Helper()
		server.Must("CONFIG", "RESETSTAT")
		f()
		return statCalls(server, "function|list")
	}
	sweep := func() { must(t, e.Sweep(t.Context())) }
	check := func(repair bool) func() {
		return func() {
			_, err := e.Check(t.Context(), contract.CheckParams{Repair: repair})
			must(t, err)
		}
	}
	if n := looks(func() { sweep(); sweep() }); n != 1 {
		t.Errorf("two sweeps looked %d times", n)
	}
	c.Advance(time.Hour)
	if n := looks(func() { sweep(); sweep() }); n != 1 {
		t.Errorf("two sweeps an hour later looked %d times", n)
	}
	c.Advance(7 * 24 * time.Hour)
	if n := looks(check(false)); n != 0 || !slices.Contains(libraries(t, server), oldLibrary) {
		t.Errorf("a check looked %d times, and left %v", n, libraries(t, server))
	}
	if n := looks(check(true)); n != 1 || slices.Contains(libraries(t, server), oldLibrary) {
		t.Errorf("a repair looked %d times, and left %v", n, libraries(t, server))
	}
	if n := looks(func() { check(true)(); sweep() }); n != 1 {
		t.Errorf("a second repair and a sweep looked %d times", n)
	}
}

// TestProcessesRecordTheirLibraries checks that every process records its libraries when it
// opens, and once per hour. A process without functions records nothing.
func TestProcessesRecordTheirLibraries(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	c := clock.NewFake()
	recorded := func() string { return fmt.Sprint(server.Must("HVALS", "duly:{tokens}:libraries")) }
	at := func() string {
		return fmt.Sprint(slices.Repeat([]int64{c.Now().UnixMilli()}, len(ownLibraries())))
	}
	eval, _ := tidyEngine(t, server.URL()+"?scripts=eval", c)
	must(t, eval.Sweep(t.Context()))
	if recorded() != "[]" {
		t.Errorf("with scripts=eval the process recorded %s", recorded())
	}
	e, _ := tidyEngine(t, server.URL(), c)
	opened := at()
	if recorded() != opened {
		t.Errorf("Open recorded %s, want %s", recorded(), opened)
	}
	must(t, e.Sweep(t.Context()))
	c.Advance(time.Hour - time.Millisecond)
	must(t, e.Sweep(t.Context()))
	if recorded() != opened {
		t.Errorf("within the hour the process recorded %s, want %s", recorded(), opened)
	}
	c.Advance(time.Millisecond)
	must(t, e.Sweep(t.Context()))
	if recorded() != at() {
		t.Errorf("an hour later the process recorded %s, want %s", recorded(), at())
	}
}

// TestRemovedLibraryInUseIsLoadedAgain checks that the next call loads a library again that was
// removed while a process uses it.
func TestRemovedLibraryInUseIsLoadedAgain(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	c := clock.NewFake()
	e, _ := tidyEngine(t, server.URL(), c)
	other, err := redisengine.Open(t.Context(), redisengine.OtherVersion(redisengine.Config{URL: server.URL(), Clock: c,
		Manual: true, Logger: slog.New(slog.DiscardHandler)}))
	must(t, err)
	defer other.Close()
	exercise(t, other)
	// others returns how many libraries the server has of the other version.
	others := func() (n int) {
		for _, name := range libraries(t, server) {
			if !slices.Contains(ownLibraries(), name) {
				n++
			}
		}
		return n
	}
	for range 2 {
		for _, d := range []time.Duration{time.Hour, 7 * 24 * time.Hour} {
			c.Advance(d)
			must(t, e.Sweep(t.Context()))
		}
		if n := others(); n > 0 {
			t.Errorf("after a week the server has %d libraries of the other version", n)
		}
		exercise(t, other)
		if n := others(); n != len(ownLibraries()) {
			t.Errorf("after the next calls the server has %d libraries of the other version, want all", n)
		}
	}
}

func TestLibrariesStayWithoutTheRightToRemoveThem(t *testing.T) {
	t.Parallel()
	for _, grant := range []string{"", "+function|list"} {
		server := redistest.Single(t)
		loadLibrary(server, oldLibrary)
		c := clock.NewFake()
		url := asUser(t, server, "duly", append(documented(t, "duly"), strings.Fields(grant)...))
		e, log := tidyEngine(t, url, c)
		for range 10 {
			must(t, e.Sweep(t.Context()))
			c.Advance(24 * time.Hour)
		}
		_, err := e.Check(t.Context(), contract.CheckParams{Repair: true})
		must(t, err)
		if lines := log.Lines("+function|list +function|delete"); len(lines) != 1 ||
			log.Count("msg=") != 1+log.Count("setting=") {
			t.Errorf("unexpected log: %s", log)
		}
		if names := libraries(t, server); !slices.Contains(names, oldLibrary) {
			t.Errorf("the server has %v", names)
		}

		// With the right to delete libraries, the process removes them without a restart.
		server.Must("ACL", "SETUSER", "duly", "+function|list", "+function|delete")
		for range 2 {
			must(t, e.Sweep(t.Context()))
			c.Advance(8 * 24 * time.Hour)
		}
		must(t, e.Sweep(t.Context()))
		if names := libraries(t, server); !slices.Equal(names, basicLibraries()) {
			t.Errorf("with the rights the server has %v", names)
		}
	}
}
