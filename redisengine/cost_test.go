package redisengine

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/redistest"
)

// gauge is an engine on a private server, and counts the server's commands.
type gauge struct {
	*testing.T
	server *redistest.Server
	e      *Engine
}

func newGauge(t *testing.T) *gauge {
	server := redistest.Single(t)
	return &gauge{t, server, openOn(t, server.URL(), nil)}
}

// calls counts the commands that f makes the server run, including those in scripts.
func (g *gauge) calls(f func()) map[string]int {
	g.Helper()
	g.server.Must("CONFIG", "RESETSTAT")
	f()
	counts := map[string]int{}
	for line := range strings.Lines(fmt.Sprint(g.server.Must("INFO", "commandstats"))) {
		name, rest, ok := strings.Cut(strings.TrimSpace(line), ":calls=")
		if n, err := strconv.Atoi(rest[:max(0, strings.IndexByte(rest, ','))]); ok && err == nil {
			counts[strings.ToUpper(strings.TrimPrefix(name, "cmdstat_"))] = n
		}
	}
	delete(counts, "CONFIG|RESETSTAT")
	// SPUBLISH does not delay a call, and many calls share one.
	delete(counts, "SPUBLISH")
	return counts
}

func (g *gauge) push(n int, delay time.Duration) {
	g.Helper()
	g.pushAll(n, duly.Job{Queue: "q", Delay: delay})
}

func (g *gauge) pushAll(n int, job duly.Job) {
	g.Helper()
	jobs := slices.Repeat([]duly.Job{job}, n)
	// The jobs go to random shards.
	for i := range jobs {
		jobs[i].ID, jobs[i].Made = duly.NewNumber().String(), true
	}
	if _, err := g.e.Push(g.Context(), jobs); err != nil {
		g.Fatal(err)
	}
}

func (g *gauge) reserve(n int) (ds []duly.Delivery) {
	g.Helper()
	ds, err := g.e.Reserve(g.Context(), duly.ReserveParams{Queues: []string{"q"}, Max: n})
	if err != nil || len(ds) != n {
		g.Fatal(len(ds), err)
	}
	return ds
}

func (g *gauge) ack(ds []duly.Delivery) {
	g.Helper()
	outcomes := make([]duly.SettleRequest, len(ds))
	for i, d := range ds {
		outcomes[i] = duly.SettleRequest{Receipt: d.Receipt, As: duly.Ack}
	}
	if _, err := g.e.Settle(g.Context(), "", outcomes); err != nil {
		g.Fatal(err)
	}
}

func (g *gauge) delete(id string) {
	g.Helper()
	if err := g.e.Delete(g.Context(), duly.Q("q"), id); err != nil {
		g.Fatal(err)
	}
}

// TestCommonPathCostsTheDocumentedCommands checks that the common path's commands don't grow with
// the batch, and match docs/redis-layout.md (C11.16). So no call pays for a feature that it does
// not use.
func TestCommonPathCostsTheDocumentedCommands(t *testing.T) {
	t.Parallel()
	g := newGauge(t)
	page := layoutPage(t)
	// The first pushes create the queue and read its configuration.
	for range 2 {
		g.push(3, 0)
		g.push(1, time.Hour)
		g.ack(g.reserve(1))
	}
	for _, n := range []int{2, 100} {
		var ds []duly.Delivery
		for what, f := range map[string]func(){
			"push of ready jobs":   func() { g.push(n, 0) },
			"push of delayed jobs": func() { g.push(n, time.Hour) },
		} {
			g.compare(page, what, g.calls(f), 1)
		}
		g.compare(page, "reserve", g.calls(func() { ds = g.reserve(n) }), 1)
		g.compare(page, "ack", g.calls(func() { g.ack(ds) }), 1)
	}
	g.push(2, 0)
	for _, d := range g.reserve(2) {
		g.compare(page, "delete of leased jobs", g.calls(func() { g.delete(d.ID) }), 1)
	}
	own := duly.Job{Queue: "q", Tries: 1, MaxStalls: duly.None, TTL: time.Hour}
	// The shard stores the policy.
	g.pushAll(1, own)
	for _, n := range []int{2, 100} {
		g.compare(page, "push of ready jobs with other tries and a TTL", g.calls(func() { g.pushAll(n, own) }), 1)
	}
}

// TestEachShardCostsTheDocumentedCommands checks that each shard of a sharded queue costs as many
// commands as a queue of one shard. Limits that are divided between shards cost nothing if they are
// not set.
func TestEachShardCostsTheDocumentedCommands(t *testing.T) {
	t.Parallel()
	g := newGauge(t)
	if err := g.e.Configure(t.Context(), duly.Q("q"), duly.QueueConfig{Shards: 2}); err != nil {
		t.Fatal(err)
	}
	// The probability that all jobs are in one shard is 2⁻⁹⁹.
	const n = 100
	page := layoutPage(t)
	// The first calls create the queue and set the next due times.
	for range 2 {
		g.push(n, time.Hour)
		g.push(n, 0)
		g.ack(g.reserve(n))
	}
	g.compare(page, "push of delayed jobs", g.calls(func() { g.push(n, time.Hour) }), 2)
	g.compare(page, "push of ready jobs", g.calls(func() { g.push(n, 0) }), 2)
	var ds []duly.Delivery
	counts := g.calls(func() { ds = g.reserve(n) })
	// No job is left, so the script removes a marker where the documented call sets one.
	counts["ZADD"] += counts["ZREM"]
	delete(counts, "ZREM")
	g.compare(page, "reserve", counts, 2)
	g.compare(page, "ack", g.calls(func() { g.ack(ds) }), 2)
}

// compare reads the row of the page. In a row, ×2 follows a command that is called twice. The row
// applies to each of the given number of shards.
func (g *gauge) compare(page, what string, got map[string]int, shards int) {
	g.Helper()
	_, rest, found := strings.Cut(page, "| "+what+" | `")
	row, _, _ := strings.Cut(rest, "`")
	want := map[string]int{"FCALL": shards}
	for word := range strings.FieldsSeq(row) {
		name, times, several := strings.Cut(word, "×")
		want[name] = shards
		if n, err := strconv.Atoi(times); several && err == nil {
			want[name] = n * shards
		}
	}
	if !found || !maps.Equal(got, want) {
		g.Errorf("%s costs %v, want %v", what, got, want)
	}
}
