package redisgauge

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/bench"
	"github.com/dulymq/duly/internal/hashslot"
)

// Nodes implements bench.Cluster.
func (g *Gauge) Nodes() (nodes []bench.Node) {
	for _, s := range g.servers {
		nodes = append(nodes, bench.Node{Name: s.addr, Read: func(ctx context.Context) (bench.Reading, error) {
			r, err := s.read(ctx)
			if err != nil {
				return bench.Reading{}, fmt.Errorf("redisgauge: %s: %w", s.addr, err)
			}
			return r, nil
		}})
	}
	return nodes
}

// Shards implements bench.Cluster. A shard is where the slot of its keys is.
func (g *Gauge) Shards(ctx context.Context, q duly.QueueRef, shards int) ([]int, error) {
	held := make([]int, len(g.servers))
	if g.place.mode != cluster {
		held[0] = shards
		return held, nil
	}

	owners := make([]slotSet, len(g.servers))
	for i, s := range g.servers {
		text, err := s.client.Do(ctx, s.client.B().ClusterNodes().Build()).ToString()
		if err != nil {
			return nil, fmt.Errorf("redisgauge: CLUSTER NODES: %w", err)
		}
		owners[i] = slotsOfNode(text)
	}

	for i := range shards {
		slot := int64(hashslot.Of(hashslot.ShardTag(q, i)))
		for k := range owners {
			if owners[k].has(slot) {
				held[k]++
			}
		}
	}
	return held, nil
}

// slotSet are ranges of slots, first and last.
type slotSet [][2]int64

func (s slotSet) has(slot int64) bool {
	for _, r := range s {
		if r[0] <= slot && slot <= r[1] {
			return true
		}
	}
	return false
}

// slotsOfNode reads the slots of the node that has written the text of CLUSTER
// NODES: the fields behind the eighth of the line that says "myself". A slot that
// is being moved is in brackets there, and in a range too.
func slotsOfNode(text string) (all slotSet) {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 9 || !strings.Contains(fields[2], "myself") {
			continue
		}
		for _, field := range fields[8:] {
			from, to, isRange := strings.Cut(field, "-")
			if !isRange {
				to = from
			}
			first, err1 := strconv.ParseInt(from, 10, 64)
			last, err2 := strconv.ParseInt(to, 10, 64)
			if err1 == nil && err2 == nil {
				all = append(all, [2]int64{first, last})
			}
		}
	}
	return all
}
