package redisgauge

import (
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/bench"
	"github.com/dulymq/duly/internal/hashslot"
	"github.com/dulymq/duly/internal/redistest"
)

// The client library's goroutine sleeps for some seconds after each look at a cluster's nodes.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient)._refresh.func2"))
}

// open opens a gauge and closes it at the end of the test.
func open(t *testing.T, url string) *Gauge {
	t.Helper()
	g, err := Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	return g
}

func read(t *testing.T, g *Gauge) bench.Reading {
	t.Helper()
	r, err := g.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// most returns the count of calls below the largest limit.
func most(of bench.Timings) (n int64) {
	for _, count := range of.Within {
		n = max(n, count)
	}
	return n
}

func TestAReadingHasTheServersCounters(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t)
	g := open(t, s.URL())
	before := read(t, g)
	const calls = 20
	for range calls {
		s.Must("EVAL", "local n = 0; for i = 1, 100000 do n = n + i end; redis.call('PING')", 0)
	}

	s.Must("SET", "large", strings.Repeat("x", 1<<20))
	after := read(t, g)
	if n := after.Scripts.Count - before.Scripts.Count; n != calls {
		t.Errorf("%d scripts, want %d", n, calls)
	}
	if n := most(after.Scripts) - most(before.Scripts); n != calls {
		t.Errorf("%d scripts in the histogram, want %d", n, calls)
	}

	// A loop of two million rounds takes some milliseconds on any machine. This time counts as the
	// server's time and as the scripts' time.
	if cpu := after.CPU - before.CPU; cpu < time.Millisecond {
		t.Errorf("the server took %s for %d scripts", cpu, calls)
	}
	if spent := after.Scripts.Time - before.Scripts.Time; spent < time.Millisecond {
		t.Errorf("%d scripts took %s", calls, spent)
	}
	if grown := after.Memory - before.Memory; grown < 1<<20 {
		t.Errorf("a value of a megabyte took %d bytes", grown)
	}
}

func TestFunctionsAreCountedAsScripts(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t)
	s.Must("FUNCTION", "LOAD", `#!lua name=bench
redis.register_function('store', function(keys) return redis.call('SET', keys[1], 1) end)
redis.register_function{function_name='fetch', callback=function(keys) return redis.call('GET', keys[1]) end,
	flags={'no-writes'}}`)
	g := open(t, s.URL())
	before := read(t, g)

	const calls = 3
	for range calls {
		s.Must("FCALL", "store", 1, "key")
		s.Must("FCALL_RO", "fetch", 1, "key")
		s.Must("EVAL", "return 1", 0)
		s.Must("EVAL_RO", "return 1", 0)
	}

	after := read(t, g)
	if n := after.Scripts.Count - before.Scripts.Count; n != 4*calls {
		t.Errorf("counted %d scripts, want %d", n, 4*calls)
	}
	if n := most(after.Scripts) - most(before.Scripts); n != 4*calls {
		t.Errorf("%d scripts in the histogram, want %d", n, 4*calls)
	}
	if after.Scripts.Time <= before.Scripts.Time {
		t.Errorf("the functions took no time: %+v", after.Scripts)
	}
}

func TestRequestsFromInsideFunctionsAreNotCounted(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t)
	s.Must("FUNCTION", "LOAD", "#!lua name=bench\n"+
		"redis.register_function('store', function(keys) return redis.call('SET', keys[1], 1) end)")
	g := open(t, s.URL())
	stop, err := g.Watch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.Must("FCALL", "store", 1, "key")
	if got, err := stop(t.Context()); err != nil || got != 1 {
		t.Errorf("counted %d requests, want 1; %v", got, err)
	}
}

func TestCommandsCalledByScriptsAreNotCounted(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t)
	g := open(t, s.URL())
	for _, n := range []int64{0, 3} {
		stop, err := g.Watch(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for range n {
			s.Must("EVAL", "for i = 1, 10 do redis.call('SET', 'a] b', '[0 lua]') end", 0)
		}
		if got, err := stop(t.Context()); err != nil || got != n {
			t.Errorf("counted %d requests, want %d; %v", got, n, err)
		}
	}
}

func TestMonitorLinesOfScriptsAreRecognized(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]bool{
		`+1700000000.123456 [0 lua] "zcard" "k"`:                    true,
		`+1700000000.123456 [15 lua] "zcard" "k"`:                   true,
		`+1700000000.123456 [0 127.0.0.1:4000] "set" "[0 lua]" "v"`: false,
		`+1700000000.123456 [0 unix:/tmp/a lua] "ping"`:             true, // no real socket has this name
		`+1700000000.123456 [0 [::1]:4000] "ping"`:                  false,
	} {
		if got := inside(line); got != want {
			t.Errorf("%s: inside a script: %v", line, got)
		}
	}
}

func TestAStoppedServerIsAnError(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t)
	g := open(t, s.URL())
	stop, err := g.Watch(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	s.Kill()
	if _, err := g.Read(t.Context()); err == nil {
		t.Error("a dead server was read")
	}
	if _, err := stop(t.Context()); err == nil {
		t.Error("a dead server's requests were counted")
	}
	if _, err := g.Watch(t.Context()); err == nil {
		t.Error("a dead server is watched")
	}
	if _, err := Open(t.Context(), s.URL()); err == nil {
		t.Error("a dead server was opened")
	}
}

func TestEveryURLFormReachesTheServer(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t, redistest.Password("s3cret/:@"), redistest.User("bench", "p?", "allcommands", "allkeys"))
	secure := redistest.Single(t, redistest.TLS(), redistest.Password("s3cret"))
	for name, at := range map[string]string{
		"redis":      s.URL(),
		"user":       s.UserURL("bench"),
		"database":   s.URL() + "/5?prefix=other",
		"redis+unix": "redis+unix://:" + url.QueryEscape("s3cret/:@") + "@" + s.Socket() + "?db=5",
		"rediss":     secure.URL() + "?tls_ca=" + secure.CAFile(),
		"unverified": secure.URL() + "?tls_skip_verify=true",
	} {
		t.Run(name, func(t *testing.T) {
			g := open(t, at)
			if r := read(t, g); r.Memory <= 0 || r.CPU <= 0 {
				t.Errorf("read %+v", r)
			}
			stop, err := g.Watch(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := stop(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestSentinelsLeadToThePrimary(t *testing.T) {
	t.Parallel()
	s := redistest.NewSentinel(t)
	g := open(t, s.URL())
	if len(g.servers) != 1 || g.servers[0].addr != s.Primary().Addr() {
		t.Errorf("reads %v, want %s alone", g.servers, s.Primary().Addr())
	}
	if r := read(t, g); r.Memory <= 0 {
		t.Errorf("read %+v", r)
	}
}

func TestAClusterIsTheSumOfItsPrimaries(t *testing.T) {
	t.Parallel()
	c, _ := redistest.SharedCluster(t)
	g := open(t, c.URL())
	if len(g.servers) < 3 || !strings.Contains(g.About().Server, "3 × ") {
		t.Fatalf("%d servers: %q", len(g.servers), g.About().Server)
	}

	before := read(t, g)
	for i := range 3 {
		c.Shard(i).Must("EVAL", "return 1", 0)
	}

	// Other tests use the cluster as well.
	if n := read(t, g).Scripts.Count - before.Scripts.Count; n < 3 {
		t.Errorf("%d scripts on three servers, want 3", n)
	}
	work := g.Native(10, 100)
	if err := work.Push(t.Context(), 0, 25); err != nil {
		t.Fatal(err)
	}

	numbers, err := work.Reserve(t.Context(), 1, 40)
	if len(numbers) != 25 || err != nil {
		t.Errorf("reserved %d, %v", len(numbers), err)
	}
	if err := work.Ack(t.Context(), 0, numbers); err != nil {
		t.Error(err)
	}
	if err := work.Remove(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestEachNodeHasItsOwnReading(t *testing.T) {
	t.Parallel()
	c, _ := redistest.SharedCluster(t)
	g := open(t, c.URL())
	counts := func() (all []int64) {
		for _, n := range g.Nodes() {
			r, err := n.Read(t.Context())
			if err != nil || n.Name == "" || r.CPU <= 0 {
				t.Fatalf("%s: %+v, %v", n.Name, r, err)
			}
			all = append(all, r.Scripts.Count)
		}
		return all
	}

	before := counts()
	busy := slices.IndexFunc(g.Nodes(), func(n bench.Node) bool { return n.Name == c.Shard(0).Addr() })
	for range 50 {
		c.Shard(0).Must("EVAL", "return 1", 0)
	}
	// Other tests use the cluster as well, with one or two scripts each.
	for i, n := range counts() {
		if ran := n - before[i]; (ran >= 50) != (i == busy) {
			t.Errorf("node %d ran %d scripts; node %d ran 50", i, ran, busy)
		}
	}
}

func TestShardsAreOnTheNodesOfTheirSlots(t *testing.T) {
	t.Parallel()
	c, _ := redistest.SharedCluster(t)
	g := open(t, c.URL())
	q := duly.QueueRef{Namespace: "shop", Name: "orders"}
	want := map[string]int{}
	for i := range 16 {
		want[c.For("{"+hashslot.ShardTag(q, i)+"}").Addr()]++
	}
	held, err := g.Shards(t.Context(), q, 16)
	if err != nil {
		t.Fatal(err)
	}
	for i, n := range g.Nodes() {
		if held[i] != want[n.Name] {
			t.Errorf("%s holds %d shards, want %d", n.Name, held[i], want[n.Name])
		}
	}

	single := open(t, redistest.Single(t).URL())
	if held, err := single.Shards(t.Context(), q, 16); err != nil || !slices.Equal(held, []int{16}) {
		t.Errorf("one server holds %v, %v", held, err)
	}
}

func TestSlotsOfNodeReturnsOnlyItsOwnSlots(t *testing.T) {
	t.Parallel()
	got := slotsOfNode("a1 127.0.0.1:7000@17000 master - 0 0 1 connected 0-10\n" +
		"b2 127.0.0.1:7001@17001,host myself,master - 0 0 2 connected 11-20 30 [12->-a1] 40-41\n" +
		"c3 127.0.0.1:7002@17002 slave a1 0 0 1 connected\n")
	if want := (slotSet{{11, 20}, {30, 30}, {40, 41}}); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for slot, want := range map[int64]bool{10: false, 11: true, 20: true, 21: false, 30: true, 41: true, 42: false} {
		if got.has(slot) != want {
			t.Errorf("slot %d: %v", slot, !want)
		}
	}
	if got := slotsOfNode("a1 127.0.0.1:7000@17000 myself,slave - 0 0 1 connected\n"); got != nil {
		t.Errorf("a replica has %v", got)
	}
}

func TestNativeWorkTakesAllStoredJobs(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t)
	g := open(t, s.URL())
	n := g.Native(50, 100).(*native)
	if n.Most() != 200 || n.Lanes() != 2 {
		t.Errorf("%d jobs a call on %d lanes", n.Most(), n.Lanes())
	}
	if err := n.Push(t.Context(), 0, 120); err != nil {
		t.Fatal(err)
	}
	if err := n.Push(t.Context(), 1, 80); err != nil {
		t.Fatal(err)
	}
	if got := s.Must("HLEN", n.records); got != int64(200) {
		t.Errorf("%v records", got)
	}

	fields, _ := s.Must("ZRANGE", n.ready, 0, 0).([]any)
	if len(fields) != 1 || s.Must("HSTRLEN", n.records, fields[0]) != int64(114) {
		t.Errorf("the first record is %v bytes", s.Must("HSTRLEN", n.records, fields[0]))
	}
	for _, want := range []int{120, 80, 0} {
		got, err := n.Reserve(t.Context(), 0, 120)
		if len(got) != want || err != nil {
			t.Errorf("reserved %d, want %d; %v", len(got), want, err)
		}
		if leased := s.Must("ZCARD", n.leased); leased != int64(want) {
			t.Errorf("%v are leased, want %d", leased, want)
		}
		if err := n.Ack(t.Context(), 0, got); err != nil {
			t.Error(err)
		}
	}

	if got := s.Must("DBSIZE"); got != int64(0) {
		t.Errorf("%v keys are left", got)
	}
	if err := n.Push(t.Context(), 0, 10); err != nil {
		t.Fatal(err)
	}

	for range 2 {
		if err := n.Remove(t.Context()); err != nil {
			t.Error(err)
		}
	}

	if got := s.Must("DBSIZE"); got != int64(0) {
		t.Errorf("%v keys are left after removing them", got)
	}
}

func TestAboutNamesTheServersProgramAndVersion(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t, redistest.AOF("everysec"))
	if about := open(t, s.URL()).About(); !strings.HasSuffix(about.Server, ", append-only file on") ||
		about.NativePush <= 0 || about.Resolution == "" {
		t.Errorf("%+v", about)
	}
	g := &Gauge{servers: []server{{info: map[string]string{"redis_version": "7.2.4", "valkey_version": "8.1.0",
		"aof_enabled": "0"}}}}
	if got := g.describe(); got != "valkey 8.1.0, append-only file off" {
		t.Error(got)
	}
}

func TestParseReadsEveryPartOfAURL(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]place{
		"redis://h": {addrs: []string{"h:6379"}},
		"redis://u:p%40@[::1]:7/3?retry=1s": {addrs: []string{"[::1]:7"}, user: "u",
			password: "p@", db: 3},
		"redis+unix:///a/b%3Fc?db=2": {unix: true, addrs: []string{"/a/b?c"}, db: 2},
		"redis+cluster://a:1,b?addr=c:3&addr=d": {mode: cluster,
			addrs: []string{"a:1", "b:6379", "c:3", "d:6379"}},
		"redis+sentinel://a,b:1/m%2F/4": {mode: sentinels,
			addrs: []string{"a:26379", "b:1"}, master: "m/", db: 4},
		"redis+sentinel://a?master=m&sentinel_user=u&sentinel_password=p": {mode: sentinels, addrs: []string{"a:26379"},
			master: "m", sentinelUser: "u", sentinelPassword: "p"},
	} {
		got, err := parse(raw)
		if err != nil || !slices.Equal(got.addrs, want.addrs) || got.mode != want.mode || got.unix != want.unix ||
			got.user != want.user || got.password != want.password ||
			got.db != want.db || got.master != want.master || got.sentinelUser != want.sentinelUser ||
			got.sentinelPassword != want.sentinelPassword || got.tls != nil {
			t.Errorf("%s: got %+v, %v", raw, got, err)
		}
	}

	for _, raw := range []string{"redis://s%zz@h", "redis://h/x", "redis://h?%zz", "rediss://h?tls_ca=/nowhere",
		"redis+sentinel://h/%zz", "redis+unix:///%zz"} {
		if _, err := parse(raw); err == nil || strings.Contains(err.Error(), "zz") {
			t.Errorf("%s: %v", raw, err)
		}
	}
}

func TestNativeMessagesAreReadAndAcked(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t)
	n := open(t, s.URL()).Streams(50, 100).(*streams)
	for lane, messages := range []int{120, 80} {
		if err := n.Push(t.Context(), lane, messages); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.Must("XLEN", n.records); got != int64(200) {
		t.Errorf("the stream has %v messages, want 200", got)
	}
	for _, want := range []int{120, 80, 0} {
		got, err := n.Reserve(t.Context(), 0, 120)
		if len(got) != want || err != nil {
			t.Errorf("read %d, want %d; %v", len(got), want, err)
		}
		if err := n.Ack(t.Context(), 0, got); err != nil {
			t.Error(err)
		}
		if pending := s.Must("XPENDING", n.records, streamGroup).([]any)[0]; pending != int64(0) {
			t.Errorf("%v messages are pending, want none", pending)
		}
	}
	if err := n.Remove(t.Context()); err != nil || s.Must("DBSIZE") != int64(0) {
		t.Errorf("%v keys are left, %v", s.Must("DBSIZE"), err)
	}
}
