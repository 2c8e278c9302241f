package catalog

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/redisengine/internal/store"
)

func newTestCatalog() *Catalog {
	return New(&store.Store{Prefix: "duly", Settings: store.Settings{Shards: 1, Clock: clock.NewFake(),
		Logger: slog.New(slog.DiscardHandler)}}, nil)
}

func TestConfigurationSurvivesPacking(t *testing.T) {
	c := newTestCatalog()
	full := contract.DefaultQueueConfig()
	full.Shards, full.Paused, full.MaxJobs, full.MaxLeased = 4, true, 1000, 8
	full.Rate = duly.Rate{PerSecond: 0.5, Burst: 5}
	full.Defaults.Tries = 9

	for name, want := range map[string]duly.QueueConfig{"the default": contract.DefaultQueueConfig(), "all set": full} {
		version := c.NextVersion("")
		q, err := c.ReadQueue(duly.Q("q").Normal(), PackConfig(version, want, false))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if q.Config != want || q.Version != version || q.Tomb || len(q.Shards) != want.Shards {
			t.Errorf("%s: read %+v, tomb %t, %d shards", name, q.Config, q.Tomb, len(q.Shards))
		}
		if q.PlainDefaults != (name == "the default") {
			t.Errorf("%s: plain defaults are %t", name, q.PlainDefaults)
		}
	}
}

func TestDamagedConfigurationIsCorrupt(t *testing.T) {
	c := newTestCatalog()
	value := PackConfig(c.NextVersion(""), contract.DefaultQueueConfig(), false)
	for name, damaged := range map[string]string{
		"nothing": "", "cut": value[:len(value)-5], "without a version": value[VersionSize:],
		"a field is missing": strings.Replace(value, `"tries"`, `"other"`, 1),
		"out of bounds":      strings.Replace(value, `"shards":1`, `"shards":3`, 1),
	} {
		if _, err := c.ReadQueue(duly.Q("q").Normal(), damaged); duly.CodeOf(err) != duly.CodeCorrupt {
			t.Errorf("%s: %v, want corrupt", name, err)
		}
	}
}

func TestVersionsRise(t *testing.T) {
	c := newTestCatalog()
	first := c.NextVersion("")
	// The second version is created in the same microsecond as the first.
	second := c.NextVersion(first)
	if numberOf(second) <= numberOf(first) || second[8:] != first[8:] {
		t.Error("a change does not raise the number, or changes the mark of the queue")
	}

	again := c.NextVersion("", second)
	if numberOf(again) <= numberOf(second) || again[8:] == first[8:] {
		t.Error("a queue that is created again has an older number, or the same mark")
	}
}

func TestCacheKeepsOneQueuePerConfiguration(t *testing.T) {
	c := newTestCatalog()
	value := PackConfig(c.NextVersion(""), contract.DefaultQueueConfig(), false)
	read := func() *Queue {
		q, err := c.ReadQueue(duly.Q("q").Normal(), value)
		if err != nil {
			t.Fatal(err)
		}
		return q
	}

	q := c.Cache.put(read())
	if c.Cache.put(read()) != q || c.Cache.Get(q.Ref) != q {
		t.Error("the same configuration is cached twice")
	}
	c.Cache.Forget(nil)
	c.Cache.Forget(read())
	if c.Cache.Get(q.Ref) != q {
		t.Error("a queue that was cached meanwhile is forgotten")
	}
	c.Cache.Forget(q)
	if c.Cache.Get(q.Ref) != nil {
		t.Error("the queue is still cached")
	}
}

// TestWalkContinuesWhereItStopped checks that a call interrupted by a stale shard continues at
// that shard. For a queue that was destroyed and created again it starts over.
func TestWalkContinuesWhereItStopped(t *testing.T) {
	c := newTestCatalog()
	cfg := contract.DefaultQueueConfig()
	cfg.Shards = 4
	read := func(version string) *Queue {
		q, err := c.ReadQueue(duly.Q("q").Normal(), PackConfig(version, cfg, false))
		if err != nil {
			t.Fatal(err)
		}
		return q
	}
	version := c.NextVersion("")
	stale := errors.New("stale")

	var w Walk
	var seen []int
	visit := func(q *Queue, fail int) error {
		return w.Each(q, 1, func(s *Shard) error {
			if s.Index == fail {
				return stale
			}
			seen = append(seen, s.Index)
			return nil
		})
	}
	if err := visit(read(version), 3); err != stale {
		t.Fatal(err)
	}
	if err := visit(read(c.NextVersion(version)), -1); err != nil || len(seen) != 4 || seen[2] != 3 || seen[3] != 0 {
		t.Errorf("visited %v, %v; want 1 2 3 0", seen, err)
	}
	if err := visit(read(c.NextVersion("")), -1); err != nil || len(seen) != 8 {
		t.Errorf("the walk of a new queue with this name starts at %v, %v", seen[4:], err)
	}
}
