package redistest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Shards is the number of primaries in a cluster.
const Shards = 3

// slots is the number of slots in a cluster.
const slots = 16384

// Cluster is a Redis cluster: three primaries with a third of the slots each, and their replicas.
// A node that does not receive messages from another for two seconds considers it failed
// (cluster-node-timeout), unless Config sets another time.
type Cluster struct {
	t      testing.TB
	nodes  []*Server // the first three are the primaries at the start
	shared bool
}

// NewCluster starts a cluster for this test only, with this number of replicas per primary. Zero
// is fast, and enough for redirects and for moving slots. The call takes a little over two
// seconds, which each node waits before it serves.
func NewCluster(t testing.TB, replicas int, opts ...Option) *Cluster {
	t.Helper()
	Need(t)
	s := newSettings(opts)
	if s.tls {
		t.Fatal("redistest: TLS is for single servers")
	}
	nodes, err := launchCluster(replicas, s)
	if err != nil {
		t.Fatal(err)
	}
	removeAll(t, nodes)
	return &Cluster{t: t, nodes: servers(t, nodes, false)}
}

var sharedCluster = sync.OnceValues(func() ([]*process, error) {
	// No test kills its nodes, so a silent node only means a busy machine.
	return launchCluster(0, newSettings([]Option{Config("cluster-node-timeout 15000")}))
})

// SharedCluster returns the cluster that all tests of this process share, without replicas, and a
// prefix for this call's keys as Shared returns it. A test may neither kill the cluster's nodes nor
// move its slots.
func SharedCluster(t testing.TB) (c *Cluster, prefix string) {
	t.Helper()
	Need(t)
	nodes, err := sharedCluster()
	if err != nil {
		t.Fatal(err)
	}
	return &Cluster{t: t, nodes: servers(t, nodes, true), shared: true}, newPrefix()
}

// Nodes returns all servers of the cluster, starting with the first primaries.
func (c *Cluster) Nodes() []*Server { return slices.Clone(c.nodes) }

// Addrs returns the addresses of the nodes, as host:port.
func (c *Cluster) Addrs() []string { return addresses(c.nodes) }

// URL returns redis+cluster://HOST:PORT?addr=HOST:PORT&addr=…, with the password if there is one.
func (c *Cluster) URL() string {
	return many("redis+cluster", c.Addrs(), "", c.nodes[0].p.settings.password)
}

// Slot returns the slot of a key.
func (c *Cluster) Slot(key string) int {
	c.t.Helper()
	return int(c.running()[0].Must("CLUSTER", "KEYSLOT", key).(int64))
}

// Primary returns the node that owns a slot, as the first running node sees it.
func (c *Cluster) Primary(slot int) *Server {
	c.t.Helper()
	for _, r := range c.ranges(c.running()[0]) {
		if r.from <= slot && slot <= r.to {
			return at(c.t, c.nodes, r.nodes[0])
		}
	}
	c.t.Fatalf("no node owns slot %d", slot)
	return nil
}

// Shard returns the node that now owns the slots that primary i, 0…2, began with.
func (c *Cluster) Shard(i int) *Server {
	c.t.Helper()
	return c.Primary(i * slots / Shards)
}

// For returns the node that owns the slot of a key.
func (c *Cluster) For(key string) *Server {
	c.t.Helper()
	return c.Primary(c.Slot(key))
}

// KillPrimary kills the primary of shard i as kill -9 does, and returns it.
// AwaitHealthy waits for the replica that takes over.
func (c *Cluster) KillPrimary(i int) *Server {
	c.t.Helper()
	s := c.Shard(i)
	s.Kill()
	return s
}

// Join starts one more node and introduces it to the others. The node has no slots until MoveSlot
// gives it one. AwaitHealthy waits until it has one.
func (c *Cluster) Join() *Server {
	c.t.Helper()
	if c.shared {
		c.t.Fatal("a shared cluster belongs to all tests: use NewCluster to add a node")
	}
	p, err := launch(c.nodes[0].p.settings)
	if err != nil {
		c.t.Fatal(err)
	}
	removeAll(c.t, []*process{p})

	joined := &Server{t: c.t, p: p}
	// Two nodes with the same epoch would have to resolve the conflict first.
	joined.Must("CLUSTER", "SET-CONFIG-EPOCH", len(c.nodes)+1)
	for _, node := range c.running() {
		node.Must("CLUSTER", "MEET", "127.0.0.1", p.port, p.bus)
		// Both sides meet, so the result doesn't depend on which is faster.
		joined.Must("CLUSTER", "MEET", "127.0.0.1", node.p.port, node.p.bus)
	}
	c.nodes = append(c.nodes, joined)
	await(c.t, "the new node knows the cluster", func(ctx context.Context) error {
		return acquainted(ctx,
			processes(c.running()))
	})
	return joined
}

// AwaitHealthy waits until running nodes serve every slot, every running node takes part, all
// agree on the owners, and the replicas follow.
func (c *Cluster) AwaitHealthy() {
	c.t.Helper()
	await(c.t, "the nodes of the cluster agree, and serve every slot", func(ctx context.Context) error {
		return healthy(ctx, processes(c.running()))
	})
}

func (c *Cluster) running() []*Server {
	c.t.Helper()
	list := running(c.nodes)
	if len(list) == 0 {
		c.t.Fatal("no node of the cluster runs")
	}
	return list
}

func (c *Cluster) ranges(s *Server) []slotRange {
	c.t.Helper()
	list, err := slotRanges(c.t.Context(), s.p)
	if err != nil {
		c.t.Fatal(err)
	}
	return list
}

// slotRange is a range of slots, with the addresses of the primary and its replicas.
type slotRange struct {
	from, to int
	nodes    []string
}

// slotRanges returns the cluster as one node sees it, in the order of the slots.
func slotRanges(ctx context.Context, p *process) ([]slotRange, error) {
	reply, err := p.do(ctx, "CLUSTER", "SLOTS")
	if err != nil {
		return nil, err
	}
	var list []slotRange
	for _, entry := range reply.([]any) {
		fields := entry.([]any)
		r := slotRange{from: int(fields[0].(int64)), to: int(fields[1].(int64))}
		for _, node := range fields[2:] {
			n := node.([]any)
			r.nodes = append(r.nodes, fmt.Sprintf("%v:%v", n[0], n[1]))
		}
		// Replicas come in no order.
		slices.Sort(r.nodes[1:])
		list = append(list, r)
	}
	slices.SortFunc(list, func(a, b slotRange) int { return cmp.Compare(a.from, b.from) })
	return list, nil
}

// healthy returns an error unless exactly these nodes serve the cluster, all of them agree, and
// each replica can take over.
func healthy(ctx context.Context, nodes []*process) error {
	var running []string
	for _, p := range nodes {
		running = append(running, p.address())
	}
	slices.Sort(running)

	var agreed string
	for i, p := range nodes {
		info, err := p.do(ctx, "CLUSTER", "INFO")
		if err != nil {
			return err
		}
		for _, want := range []string{"cluster_state:ok", fmt.Sprintf("cluster_slots_ok:%d", slots)} {
			if !strings.Contains(info.(string), want+"\r\n") {
				return fmt.Errorf("%s does not report %s", p.address(), want)
			}
		}
		view, err := slotRanges(ctx, p)
		if err != nil {
			return err
		}
		// All nodes must have the same view as the first one.
		if i == 0 {
			agreed = fmt.Sprint(view)
		}
		if fmt.Sprint(view) != agreed {
			return fmt.Errorf("%s sees %v, but %s sees %s", p.address(), view, nodes[0].address(), agreed)
		}
		if in := serving(view); !slices.Equal(in, running) {
			return fmt.Errorf("%s sees %v serving, but %v run", p.address(), in, running)
		}
		for _, r := range view {
			// Each primary is asked about its own replicas.
			if r.nodes[0] != p.address() {
				continue
			}
			if err := acknowledging(ctx, p, r.nodes[1:]); err != nil {
				return err
			}
		}
	}

	return nil
}

// acquainted returns an error if a node does not know all other nodes, or does not see every slot
// served.
func acquainted(ctx context.Context, nodes []*process) error {
	for _, p := range nodes {
		info, err := p.do(ctx, "CLUSTER", "INFO")
		if err != nil {
			return err
		}
		for _, want := range []string{"cluster_state:ok", fmt.Sprintf("cluster_slots_ok:%d", slots),
			fmt.Sprintf("cluster_known_nodes:%d", len(nodes))} {
			if !strings.Contains(info.(string), want+"\r\n") {
				return fmt.Errorf("%s does not report %s", p.address(), want)
			}
		}
		list, err := p.do(ctx, "CLUSTER", "NODES")
		if err != nil {
			return err
		}
		// A node in a handshake can't take a slot yet.
		if strings.Contains(list.(string), "handshake") {
			return fmt.Errorf("%s has an unfinished handshake", p.address())
		}
	}

	return nil
}

// serving returns the addresses in a view.
func serving(view []slotRange) []string {
	var list []string
	for _, r := range view {
		list = append(list, r.nodes...)
	}
	slices.Sort(list)
	return slices.Compact(list)
}
