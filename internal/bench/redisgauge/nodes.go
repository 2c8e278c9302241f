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

// Shards implements bench.Cluster. A shard is on the node that owns the slot of its keys.
func (g *Gauge) Shards(ctx context.Context, q duly.QueueRef, shards int) ([]int, error) {
	held := make([]int, len(g.servers))
	if g.place.mode != cluster {
		held[0] = shards
		return held, nil
	}

	// Each node reports only its own slots, so an outdated view of another node does not matter.
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

// slotSet is a list of slot ranges, each with its first and last slot.
type slotSet [][2]int64

func (s slotSet) has(slot int64) bool {
	for _, r := range s {
		if r[0] <= slot && slot <= r[1] {
			return true
		}
	}
	return false
}

// slotsOfNode parses a node's answer to CLUSTER NODES and returns that node's slots: the fields
// from the ninth on, in the line with the flag "myself". A slot that is being moved is listed in
// brackets, in addition to the range that contains it.
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
			// A slot in brackets isn't a number and is skipped.
			first, err1 := strconv.ParseInt(from, 10, 64)
			last, err2 := strconv.ParseInt(to, 10, 64)
			if err1 == nil && err2 == nil {
				all = append(all, [2]int64{first, last})
			}
		}
	}
	return all
}
