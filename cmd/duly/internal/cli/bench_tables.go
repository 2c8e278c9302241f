package cli

import (
	"fmt"
	"strings"

	"github.com/dulymq/duly/internal/bench"
)

// basisTexts describe the costs in the table of lives.
var basisTexts = map[bench.Basis]string{
	bench.ServerCPU:  "CPU of the server's main thread per job",
	bench.ProcessCPU: "CPU of this process per job, with the engine in it",
	bench.Elapsed:    "time per job, because the server's CPU is not known",
}

// benchLife prints the cost of jobs of each kind from push to ack.
func (p *printer) benchLife(l *bench.LifeTable) {
	// Bare commands are measured by the CPU of the server only, so other bases have no such column.
	hasBare := l.Basis == bench.ServerCPU
	titles := []string{"LIFE", ">PER CALL", ">JOBS", ">PUSH", ">RESERVE", ">ACK", ">SUM", ">× PLAIN"}
	if hasBare {
		titles = append(titles, ">× BARE")
	}
	t := p.newTable(titles...)
	for _, c := range l.Costs {
		row := []cell{
			{string(c.Kind), bold}, txt(countText(int64(c.Batch))), txt(countText(int64(c.Jobs))),
			txt(micros(c.Push)), txt(micros(c.Reserve)), txt(micros(c.Ack)), {micros(c.Sum), green},
			txt(ratioText(c.ToPlain)),
		}
		if hasBare {
			row = append(row, txt(ratioText(c.ToBare)))
		}
		t.add(row...)
	}
	t.flush()

	text := fmt.Sprintf("%s: medians of %s over all kinds, %s.", basisTexts[l.Basis],
		plural(int64(l.Rounds), "round"), plural(int64(l.Callers), "caller"))
	p.printf("%s\n", p.paint(dim, text))

	// A measurement with fewer jobs is noisier. The reader should know.
	if l.Cut > 0 {
		p.printf("%s\n", p.paint(dim, fmt.Sprintf(
			"life: %s stopped at the time limit, with fewer jobs.", plural(int64(l.Cut), "measurement"))))
	}
	p.printf("\n")
}

// benchMemory prints the memory of a waiting job of each kind.
func (p *printer) benchMemory(m *bench.MemoryView) {
	if len(m.Kinds) == 0 {
		return
	}
	t := p.newTable("A WAITING JOB", ">BYTES", ">× PLAIN")
	for _, k := range m.Kinds {
		t.add(cell{string(k.Kind), bold}, cell{fmt.Sprintf("%.0f", k.Bytes), green}, txt(ratioText(k.ToPlain)))
	}
	t.flush()
	p.printf("\n")
}

// ratioText returns a ratio as text, or "" if it is unknown.
func ratioText(ratio float64) string {
	if ratio == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f", ratio)
}

// benchSpread prints the cost of a queue with several shards for the nodes of a cluster,
// and for one server.
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
			txt(micros(c.All)), txt(ratioText(c.ToServer)),
		)
	}
	t.flush()

	nodes := make([]string, len(s.Nodes))
	for i, n := range s.Nodes {
		nodes[i] = fmt.Sprintf("%d on %s", n.Shards, n.Node)
	}
	p.printf("%s\n", p.paint(dim, fmt.Sprintf("CPU of a node's main thread per job of all nodes: medians of %s of %s.",
		plural(int64(s.Rounds), "round"), plural(int64(s.Jobs), "job"))))
	p.printf("%s\n", p.paint(dim, "The cluster's shards: "+strings.Join(nodes, ", ")+"."))
	if s.Against != "" {
		p.printf("%s\n", p.paint(dim, "The one server is "+oneLine(s.Against)+"."))
	}
	p.printf("\n")
}

// benchServer prints the cost of the phases for the server behind the engine.
func (p *printer) benchServer(r *bench.Report) {
	if r.Server == nil {
		return
	}
	t := p.newTable("ON THE SERVER", ">CPU/JOB", ">SCRIPTS", ">MEAN", ">P50", ">P99", ">P99.99")
	for i := range r.Phases {
		of := &r.Phases[i]
		if of.Server != nil {
			t.add(serverRow(string(of.Phase), of.Server)...)
		}
		for k := range of.Parts {
			t.add(serverRow("calls, "+of.Parts[k].Name, of.Parts[k].Server)...)
		}
	}

	// The sums combine several phases and may exist without any row in the table.
	sums := benchSums(r)
	if len(t.rows) == 0 && len(sums) == 0 {
		return
	}
	if len(t.rows) > 0 {
		t.flush()
		p.printf("\n")
	}
	if len(sums) > 0 {
		p.pairs(sums...)
		p.printf("\n")
	}
	p.printf("%s\n", p.paint(dim,
		"The server's CPU is that of its main thread. Percentiles of scripts are "+r.Server.Resolution+"."))
}

func serverRow(name string, c *bench.ServerCost) []cell {
	row := []cell{{name, bold}, {micros(c.CPU), green}}
	if s := c.Scripts; s != nil {
		row = append(row, txt(countText(s.Calls)), txt(micros(s.Mean)), txt(micros(s.P50)), txt(micros(s.P99)),
			txt(micros(s.P9999)))
	}
	return row
}

// benchSums returns results that combine phases.
func benchSums(r *bench.Report) (pairs []cell) {
	if l := r.Server.Life; l != nil {
		pairs = append(pairs, txt("a job's life"), txt(micros(l.CPU)+" of the server's CPU, push to ack"))
		if l.Native > 0 {
			pairs = append(pairs, txt("native limit"), nativeText(r.Server))
		}
	}

	for i := range r.Phases {
		phase := &r.Phases[i]
		if m := phase.Memory; m != nil {
			text := fmt.Sprintf("%.0f bytes ready, %.0f bytes delayed, with the body", m.Ready, m.Delayed)
			pairs = append(pairs, txt("a waiting job"), txt(text))
		}
		if idle := phase.Idle; idle != nil {
			text := fmt.Sprintf("%.2f requests/s with %s (%s in %s)", idle.PerSecond,
				plural(int64(idle.Queues), "queue"), countText(idle.Requests), shortDuration(seconds(phase.Seconds)))
			pairs = append(pairs, txt("idle"), txt(text))
		}
	}
	return pairs
}

// nativeText compares the cost of a job with that of bare commands.
func nativeText(s *bench.ServerView) cell {
	l := s.Life

	// Other load makes bare commands look too expensive, so the ratio would be meaningless.
	if !l.Counts {
		text := fmt.Sprintf("%s: not valid, because the machine was busy (the maximum is %s + %s)",
			micros(l.Native), micros(s.NativePush), micros(s.NativeTake))
		return cell{text, yellow}
	}
	return cell{fmt.Sprintf("%s: a job costs %.2f times the minimum", micros(l.Native), l.Ratio), green}
}

// benchCompare prints the differences that a backlog makes.
func (p *printer) benchCompare(r *bench.Report) {
	without := map[string]measuredPart{}
	for _, of := range partsOf(r.Without) {
		without[of.name] = of
	}

	t := p.newTable("BACKLOG", ">PER SECOND", ">WITHOUT", ">RATIO", ">SERVER CPU/JOB", ">WITHOUT", ">RATIO",
		">SCRIPT", ">WITHOUT", ">RATIO")
	for _, of := range partsOf(r.Phases) {
		// A phase that was not measured without the backlog has no ratio.
		before, ok := without[of.name]
		if !ok {
			continue
		}
		row := []cell{{of.name, bold}, txt(rate(of.rate)), txt(rate(before.rate)), {percent(of.rate, before.rate), green}}
		for _, pair := range [][2]float64{{of.cpu, before.cpu}, {of.script, before.script}} {
			// Both figures must be known, because a ratio to zero means nothing.
			if pair[0] > 0 && pair[1] > 0 {
				row = append(row, txt(micros(pair[0])), txt(micros(pair[1])), cell{percent(pair[0], pair[1]), green})
			}
		}
		t.add(row...)
	}
	t.flush()
	if len(without) > 0 {
		p.printf("\n")
	}
}

// measuredPart has the figures of a phase, or of a part of it, that a backlog may change.
type measuredPart struct {
	name   string
	rate   float64
	cpu    float64 // CPU time of the server per job in µs, or 0 if it is unknown
	script float64 // mean duration of a script call in µs, or 0 if it is unknown
}

func partsOf(phases []bench.Result) (all []measuredPart) {
	part := func(name string, rate float64, c *bench.ServerCost) {
		m := measuredPart{name: name, rate: rate}
		if c != nil && c.Scripts != nil {
			m.cpu, m.script = c.CPU, c.Scripts.Mean
		}
		all = append(all, m)
	}
	for i := range phases {
		of := &phases[i]

		// The parts are shown instead of their phase. Otherwise the phase's jobs would be in the
		// table twice.
		if of.PerSecond > 0 && of.Parts == nil {
			part(string(of.Phase), of.PerSecond, of.Server)
		}
		for _, p := range of.Parts {
			part("calls, "+p.Name, float64(p.Jobs)/p.Seconds, p.Server)
		}
	}
	return all
}

func percent(a, b float64) string {
	if b == 0 {
		return ""
	}
	return fmt.Sprintf("%.0f %%", a/b*100)
}
