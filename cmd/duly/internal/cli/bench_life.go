package cli

import (
	"fmt"

	"github.com/dulymq/duly/internal/bench"
)

// basisTexts say what the costs in the table of lives are.
var basisTexts = map[bench.Basis]string{
	bench.ServerCPU:  "CPU of the server's main thread per job",
	bench.ProcessCPU: "CPU of this process per job, with the engine in it",
	bench.Elapsed:    "time per job, because the server's CPU is not known",
}

// benchLife prints what jobs of each kind cost from push to ack.
func (p *printer) benchLife(l *bench.LifeTable) {
	bare := l.Basis == bench.ServerCPU
	titles := []string{"LIFE", ">PER CALL", ">JOBS", ">PUSH", ">RESERVE", ">ACK", ">SUM", ">× PLAIN"}
	if bare {
		titles = append(titles, ">× BARE")
	}
	t := p.newTable(titles...)
	for _, c := range l.Costs {
		row := []cell{
			{string(c.Kind), bold}, txt(countText(int64(c.Batch))), txt(countText(int64(c.Jobs))),
			txt(micros(c.Push)), txt(micros(c.Reserve)), txt(micros(c.Ack)), {micros(c.Sum), green}, txt(times(c.ToPlain)),
		}
		if bare {
			row = append(row, txt(times(c.ToBare)))
		}
		t.add(row...)
	}
	t.flush()

	text := fmt.Sprintf("%s: medians of %s over all kinds, %s.", basisTexts[l.Basis],
		plural(int64(l.Rounds), "round"), plural(int64(l.Callers), "caller"))
	p.printf("%s\n", p.paint(dim, text))
	if l.Cut > 0 {
		p.printf("%s\n", p.paint(dim, fmt.Sprintf(
			"life: %s ended at the time of a run, with fewer jobs.", plural(int64(l.Cut), "measurement"))))
	}
	p.printf("\n")
}

// benchMemory prints what memory a waiting job of each kind takes.
func (p *printer) benchMemory(m *bench.MemoryView) {
	if len(m.Kinds) == 0 {
		return
	}
	t := p.newTable("A WAITING JOB", ">BYTES", ">× PLAIN")
	for _, k := range m.Kinds {
		t.add(cell{string(k.Kind), bold}, cell{fmt.Sprintf("%.0f", k.Bytes), green}, txt(times(k.ToPlain)))
	}
	t.flush()
	p.printf("\n")
}

// times is a ratio.
func times(ratio float64) string {
	if ratio == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f", ratio)
}
