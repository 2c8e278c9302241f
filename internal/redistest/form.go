package redistest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// formations is the maximum number of clusters to start.
const formations = 4

// launchCluster starts the nodes and forms a cluster of them: three primaries, then replicas of
// the first, the second and the third, repeatedly. On a busy machine, nodes that suspect each other
// during the handshakes sometimes never list a replica. launchCluster then removes the cluster and
// starts another.
func launchCluster(replicas int, s settings) ([]*process, error) {
	s.cluster = true

	// The line comes first, so that a line of the options can override it.
	s.lines = append([]string{"cluster-node-timeout 2000"}, s.lines...)
	for try := 1; ; try++ {
		nodes, err := launchAll(Shards*(1+replicas), s)
		if err != nil {
			return nil, errors.Join(err, removeNodes(nodes))
		}

		ctx, cancel := context.WithTimeout(context.Background(), patience/formations)
		err = form(ctx, nodes)
		cancel()
		if err == nil {
			return nodes, nil
		}
		err = errors.Join(err, clusterViews(nodes), removeNodes(nodes))
		if try == formations {
			return nil, err
		}
	}
}

// removeNodes removes the nodes of a cluster that did not form.
func removeNodes(nodes []*process) (err error) {
	for _, p := range nodes {
		err = errors.Join(err, p.remove())
	}
	return err
}

// clusterViews returns an error with what each node knows of the others.
func clusterViews(nodes []*process) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var b strings.Builder
	for _, p := range nodes {
		known, err := p.do(ctx, "CLUSTER", "NODES")
		fmt.Fprintf(&b, "\n%s knows: %v %v\nThe end of its log:\n%s", p.address(), known, err, p.tail())
	}
	return errors.New(b.String())
}

// launchAll starts n servers concurrently. If there is an error, it also returns the servers that
// did start.
func launchAll(n int, s settings) ([]*process, error) {
	nodes, errs := make([]*process, n), make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		// Each node gets a copy of the settings, because their clocks differ.
		s := s
		s.ahead *= time.Duration(i + 1)
		wg.Go(func() { nodes[i], errs[i] = launch(s) })
	}
	wg.Wait()
	return slices.DeleteFunc(nodes, func(p *process) bool { return p == nil }), errors.Join(errs...)
}

// form makes a cluster of unconnected nodes. It introduces every node to every other, which is
// faster than gossip.
func form(ctx context.Context, nodes []*process) error {
	ids := make([]string, len(nodes))
	for i, p := range nodes {
		id, err := p.do(ctx, "CLUSTER", "MYID")
		if err != nil {
			return err
		}
		ids[i] = id.(string)
		// Different epochs let the nodes agree without resolving conflicts.
		if _, err := p.do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1); err != nil {
			return err
		}
		if i < Shards {
			if _, err := p.do(ctx, "CLUSTER", "ADDSLOTSRANGE", i*slots/Shards, (i+1)*slots/Shards-1); err != nil {
				return err
			}
		}
	}

	if err := introduce(ctx, nodes); err != nil {
		return err
	}
	for i, p := range nodes[Shards:] {
		// The node knows its primary as soon as their handshake is done.
		err := untilMet(ctx, nodes, func() error {
			_, err := p.do(ctx, "CLUSTER", "REPLICATE", ids[i%Shards])
			return err
		})
		if err != nil {
			return err
		}
	}

	return untilMet(ctx, nodes, func() error { return healthy(ctx, nodes) })
}

// introduce introduces every node to every other. To meet a known node changes nothing.
func introduce(ctx context.Context, nodes []*process) error {
	for _, p := range nodes {
		for _, other := range nodes {
			if _, err := p.do(ctx, "CLUSTER", "MEET", "127.0.0.1", other.port, other.bus); err != nil {
				return err
			}
		}
	}
	return nil
}

// handshakes is the time for the handshakes of the nodes before CLUSTER MEET is repeated.
const handshakes = 10 * time.Second

// untilMet is like until, but repeats CLUSTER MEET every few seconds. A node gives up a handshake
// that exceeds its timeout, which happens on a busy machine.
func untilMet(ctx context.Context, nodes []*process, f func() error) error {
	for {
		round, cancel := context.WithTimeout(ctx, handshakes)
		err := until(round, f)
		cancel()
		if err == nil || ctx.Err() != nil {
			return err
		}
		if err := introduce(ctx, nodes); err != nil {
			return err
		}
	}
}
