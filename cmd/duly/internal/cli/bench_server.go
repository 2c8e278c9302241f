package cli

import (
	"fmt"

	"github.com/dulymq/duly/internal/bench"
)

// benchServer prints what the phases cost the server behind the engine.
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
		row = append(row, txt(countText(s.Calls)), txt(micros(s.Mean)), txt(micros(s.P50)), txt(micros(s.P99)), txt(micros(s.P9999)))
	}
	return row
}

// benchSums is what the phases say together.
func benchSums(r *bench.Report) (pairs []cell) {
	if l := r.Server.Life; l != nil {
		pairs = append(pairs, txt("a job's life"), txt(micros(l.CPU)+" of the server's CPU, push to ack"))
		if l.Native > 0 {
			pairs = append(pairs, txt("native limit"), nativeText(r.Server))
		}
	}
	for i := range r.Phases {
		switch of := &r.Phases[i]; {
		case of.Memory != nil:
			pairs = append(pairs, txt("a waiting job"), txt(fmt.Sprintf("%.0f bytes ready, %.0f bytes delayed, body included", of.Memory.Ready, of.Memory.Delayed)))
		case of.Idle != nil:
			pairs = append(pairs, txt("idle"), txt(fmt.Sprintf("%.2f requests/s with %s watched (%s in %s)",
				of.Idle.PerSecond, plural(int64(of.Idle.Queues), "queue"), countText(of.Idle.Requests), roughly(seconds(of.Seconds)))))
		}
	}
	return pairs
}

// nativeText compares with the native work.
func nativeText(s *bench.ServerView) cell {
	l := s.Life
	if !l.Counts {
		return cell{fmt.Sprintf("%s: does not count: the machine was busy (it takes %s + %s at most)", micros(l.Native), micros(s.NativePush), micros(s.NativeTake)), yellow}
	}
	return cell{fmt.Sprintf("%s: a job costs %.2f times what is necessary", micros(l.Native), l.Ratio), green}
}

// benchCompare prints what a backlog has changed.
func (p *printer) benchCompare(r *bench.Report) {
	without := map[string]measuredPart{}
	for _, of := range partsOf(r.Without) {
		without[of.name] = of
	}
	t := p.newTable("BACKLOG", ">PER SECOND", ">WITHOUT", ">RATIO", ">SERVER CPU/JOB", ">WITHOUT", ">RATIO", ">SCRIPT", ">WITHOUT", ">RATIO")
	for _, of := range partsOf(r.Phases) {
		before, ok := without[of.name]
		if !ok {
			continue
		}
		row := []cell{{of.name, bold}, txt(rate(of.rate)), txt(rate(before.rate)), {percent(of.rate, before.rate), green}}
		for _, pair := range [][2]float64{{of.cpu, before.cpu}, {of.script, before.script}} {
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

// measuredPart is what a backlog may change.
type measuredPart struct {
	name   string
	rate   float64
	cpu    float64 // µs of the server's per job, 0 for none
	script float64 // µs per call, 0 for none
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
