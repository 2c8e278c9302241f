package redisgauge

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/dulymq/duly/internal/bench"
)

// Gauge reads the servers of one URL of the Redis engine. It implements bench.Gauge.
type Gauge struct {
	place   place
	client  rueidis.Client
	servers []server // the primaries
	about   bench.About
}

var (
	_ bench.Gauge   = (*Gauge)(nil)
	_ bench.Cluster = (*Gauge)(nil)
)

// server is one primary.
type server struct {
	addr   string
	client rueidis.Client
	info   map[string]string // the answer to INFO when the gauge was opened
}

// These bound the native work per job on an idle core, with batches of 50 and bodies of 100
// bytes, with a large margin.
const (
	nativePush = 2500 * time.Nanosecond
	nativeTake = 3200 * time.Nanosecond
)

// Open connects to the servers of a URL that the engine has accepted.
func Open(ctx context.Context, url string) (*Gauge, error) {
	p, err := parse(url)
	if err != nil {
		return nil, err
	}
	g := &Gauge{place: p}
	if g.client, err = p.connect(true); err == nil {
		err = g.find(ctx)
	}
	if err != nil {
		g.Close()
		return nil, fmt.Errorf("redisgauge: %w", err)
	}
	return g, nil
}

// Close implements bench.Gauge.
func (g *Gauge) Close() {
	if g.client != nil {
		g.client.Close()
	}
}

// find asks every node whether it is a primary.
func (g *Gauge) find(ctx context.Context) error {
	for addr, client := range g.client.Nodes() {
		info, err := infoOf(ctx, client, "everything")
		if err != nil {
			return err
		}
		if info["role"] == "master" {
			g.servers = append(g.servers, server{addr, client, info})
		}
	}
	if len(g.servers) == 0 {
		return fmt.Errorf("none of the servers of the URL is a primary")
	}
	slices.SortFunc(g.servers, func(a, b server) int { return strings.Compare(a.addr, b.addr) })
	g.about = bench.About{
		Server: g.describe(), Resolution: "bounds that double: up to half of it less is possible",
		NativePush: nativePush, NativeTake: nativeTake,
	}
	return nil
}

// About implements bench.Gauge.
func (g *Gauge) About() bench.About { return g.about }

// describe returns the server's name, version and persistence.
func (g *Gauge) describe() string {
	info := g.servers[0].info
	name, version := "redis", info["redis_version"]
	if v := info["valkey_version"]; v != "" {
		name, version = "valkey", v
	}
	text := name + " " + version
	if n := len(g.servers); n > 1 {
		text = fmt.Sprintf("%d × %s", n, text)
	}
	if info["aof_enabled"] == "1" {
		return text + ", append-only file on"
	}
	return text + ", append-only file off"
}

// Read implements bench.Gauge.
func (g *Gauge) Read(ctx context.Context) (sum bench.Reading, err error) {
	for _, s := range g.servers {
		r, err := s.read(ctx)
		if err != nil {
			return bench.Reading{}, fmt.Errorf("redisgauge: %w", err)
		}
		sum = sum.Plus(r)
	}
	return sum, nil
}

// connect creates a client with one connection per node. The client sends nothing by itself,
// because its requests must not be counted. The histogram needs RESP2: in RESP3 it is a map with
// numeric keys, which the client library can't read.
func (p place) connect(resp2 bool) (rueidis.Client, error) {
	o := rueidis.ClientOption{
		InitAddress: p.addrs, Username: p.user, Password: p.password, SelectDB: p.db, ClientName: "duly-bench",
		TLSConfig: p.tls, DialCtxFn: p.dial, ForceSingleClient: p.mode == single, DisableCache: true, DisableRetry: true,
		AlwaysRESP2:      resp2,
		AlwaysPipelining: true, PipelineMultiplex: -1, ConnWriteTimeout: time.Minute,
	}
	o.Dialer.KeepAlive = time.Hour
	if p.mode == sentinels {
		o.Sentinel = rueidis.SentinelOption{
			MasterSet: p.master, Username: p.sentinelUser, Password: p.sentinelPassword, TLSConfig: p.tls,
			Dialer: o.Dialer,
		}
	}
	return rueidis.NewClient(o)
}
