package cli

import (
	"fmt"
	"strings"

	"github.com/dulymq/duly/internal/bench"
)

// benchSpread prints what a queue with several shards costs the nodes of a
// cluster, beside one server.
func (p *printer) benchSpread(s *bench.SpreadTable) {
	t := p.newTable("SPREAD", "ON", ">SHARDS", ">PUSH", ">TAKE", ">SUM", ">ALL NODES", ">× SERVER")
	for _, c := range s.Costs {
		on := "one server"
		if c.Cluster {
			on = "busiest node of " + countText(int64(len(s.Nodes)))
		}
		load := fmt.Sprintf("%s per call, %s", countText(int64(c.Batch)), plural(int64(c.Callers), "caller"))
		t.add(
			cell{load, bold}, txt(on),
			txt(countText(int64(c.Shards))), txt(micros(c.Push)), txt(micros(c.Take)), cell{micros(c.Sum), green},
			txt(micros(c.All)), txt(times(c.ToServer)),
		)
	}
	t.flush()

	held := make([]string, len(s.Nodes))
	for i, n := range s.Nodes {
		held[i] = fmt.Sprintf("%d on %s", n.Shards, n.Node)
	}
	p.printf("%s\n", p.paint(dim, fmt.Sprintf("CPU of a node's main thread per job of all nodes: medians of %s of %s.",
		plural(int64(s.Rounds), "round"), plural(int64(s.Jobs), "job"))))
	p.printf("%s\n", p.paint(dim, "The cluster's shards: "+strings.Join(held, ", ")+"."))
	if s.Against != "" {
		p.printf("%s\n", p.paint(dim, "The one server is "+oneLine(s.Against)+"."))
	}
	p.printf("\n")
}
