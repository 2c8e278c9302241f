package redistest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/dulymq/duly/internal/redistest/resp"
)

func TestSharedClusterServesEverySlot(t *testing.T) {
	t.Parallel()
	c, prefix := SharedCluster(t)
	if other, next := SharedCluster(t); prefix == next || other.URL() != c.URL() {
		t.Errorf("prefixes %s and %s, at %s and %s", prefix, next, c.URL(), other.URL())
	}

	used := map[string]bool{}
	for i := range 20 {
		key := fmt.Sprint(prefix, i)
		s := c.For(key)
		used[s.Addr()] = true
		s.Must("SET", key, i)
		other := c.Nodes()[(slices.Index(addresses(c.Nodes()), s.Addr())+1)%Shards]
		_, err := other.Do(t.Context(), "GET", key)
		if want := fmt.Sprintf("MOVED %d %s", c.Slot(key), s.Addr()); string(refusal(t, err)) != want {
			t.Errorf("%s answers %v, want %s", other.Addr(), err, want)
		}
	}

	if len(used) != Shards {
		t.Errorf("20 keys are on %d nodes", len(used))
	}
	for i := range Shards {
		if c.Shard(i).Addr() != c.Nodes()[i].Addr() {
			t.Errorf("shard %d is at %s", i, c.Shard(i).Addr())
		}
	}

	if c.Slot("{a}b") != c.Slot("a") {
		t.Error("the hash tag was ignored")
	}
	for what, do := range map[string]func(*Cluster){
		"KillPrimary": func(c *Cluster) { c.KillPrimary(0) },
		"MoveSlot":    func(c *Cluster) { c.MoveSlot(0, c.Shard(0), c.Shard(1), nil) },
		"Join":        func(c *Cluster) { c.Join() },
	} {
		if f := failing(t, func(tb testing.TB) {
			do(&Cluster{t: tb, nodes: servers(tb, processes(c.Nodes()), true),
				shared: true})
		}); !f.failed {
			t.Errorf("%s of the shared cluster was allowed", what)
		}
	}
}

func TestANewNodeTakesASlot(t *testing.T) {
	t.Parallel()
	c := NewCluster(t, 0, Password("geheim"))
	joined := c.Join()
	if !slices.Contains(c.Addrs(), joined.Addr()) || len(c.Addrs()) != Shards+1 {
		t.Errorf("the nodes are %v", c.Addrs())
	}
	c.For("k").Must("SET", "k", "v")
	c.MoveSlot(c.Slot("k"), c.For("k"), joined, nil)
	if c.For("k") != joined || joined.Must("GET", "k") != "v" {
		t.Errorf("%s serves the slot", c.For("k").Addr())
	}
}

func TestAReplicaReplacesAKilledPrimary(t *testing.T) {
	t.Parallel()
	c := NewCluster(t, 1, Password("geheim"), Config("cluster-node-timeout 1000"))
	if got, want := c.URL(), "redis+cluster://:geheim@"+c.Addrs()[0]+"?addr="; !strings.HasPrefix(got, want) ||
		len(c.Addrs()) != 2*Shards {
		t.Errorf("URL %s, want %s…", got, want)
	}
	key := "k"
	for i := 0; c.For(key) != c.Nodes()[1]; i++ {
		key = fmt.Sprint("k", i)
	}
	c.For(key).Must("SET", key, "v")
	if got := c.For(key).Must("WAIT", 1, patience.Milliseconds()); got != int64(1) {
		t.Fatalf("%v replicas have it", got)
	}
	old := c.KillPrimary(1)
	c.AwaitHealthy()
	if c.Shard(1) == old || c.For(key).Must("GET", key) != "v" {
		t.Errorf("%s serves after %s", c.Shard(1).Addr(), old.Addr())
	}
	old.Restart()
	c.AwaitHealthy()
	if role := old.Must("ROLE").([]any)[0]; role != "slave" {
		t.Errorf("the killed primary comes back as %v", role)
	}

	// A paused node is replaced as well, and finds out when it continues.
	frozen := c.Shard(0)
	frozen.Pause()
	c.AwaitHealthy()
	if c.Shard(0) == frozen {
		t.Error("a paused primary answered")
	}
	frozen.Continue()
	c.AwaitHealthy()
}

func TestMoveSlotCallsBackAtEachStage(t *testing.T) {
	t.Parallel()
	c := NewCluster(t, 0, Password("geheim"))
	keys := []any{"{a}1", "{a}2", "{a}3"}
	slot, from := c.Slot("{a}"), c.For("{a}")
	to := c.Nodes()[(slices.Index(c.Nodes(), from)+1)%Shards]
	for _, k := range keys {
		from.Must("SET", k, "v")
	}

	answers := func(s *Server, code string, args ...any) {
		t.Helper()
		_, err := s.Do(t.Context(), args...)
		if e, ok := err.(resp.Error); !ok && code != "" || !strings.HasPrefix(string(e), code) {
			t.Errorf("%v answers %v, want %s", args, err, code)
		}
	}

	all := append([]any{"MGET"}, keys...)
	var stages []MoveStage
	c.MoveSlot(slot, from, to, func(stage MoveStage) {
		stages = append(stages, stage)
		switch stage {
		case MoveImporting:
			answers(from, "", "GET", "{a}none")
			answers(to, "MOVED", "GET", "{a}1")
		case MoveMigrating:
			answers(from, "ASK", "GET", "{a}none")
			answers(from, "", all...)
		case MoveKey:
			if len(stages) == 3 {
				answers(from, "TRYAGAIN", all...)
			}
		case MoveEmptied:
			answers(from, "ASK", all...)
			answers(to, "MOVED", all...)
		case MoveClaimed: // the source may know the new owner already
			answers(to, "", all...)
		}
	})

	answers(from, "MOVED", all...)
	if c.For("{a}") != to {
		t.Errorf("the slot is at %s", c.For("{a}").Addr())
	}
	if got := to.Must(all...); fmt.Sprint(got) != "[v v v]" {
		t.Errorf("moved: %v", got)
	}
	if got := fmt.Sprint(stages); got != "[importing migrating key key key emptied claimed]" {
		t.Errorf("stages %s", got)
	}
	c.MoveSlot(slot, to, from, nil) // moves the slot back
	answers(from, "", all...)
}
