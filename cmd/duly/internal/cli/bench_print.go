package cli

import (
	"fmt"
	"slices"
	"time"

	"github.com/dulymq/duly/internal/bench"
)

// benchReport prints a report.
func (p *printer) benchReport(r *bench.Report) error {
	if p.json {
		return p.value(r)
	}
	p.benchHead(r)
	if len(r.Without) > 0 {
		p.printf("%s\n", p.paint(bold, "without the backlog"))
		p.benchPhases(r, r.Without)
		p.printf("%s\n", p.paint(bold, "with it"))
	}
	p.benchPhases(r, r.Phases)
	p.benchCompare(r)
	p.benchServer(r)
	p.benchNotes(r)
	return nil
}

// benchPhases prints the results of phases.
func (p *printer) benchPhases(r *bench.Report, phases []bench.Result) {
	p.benchRates(r, phases)
	for i := range phases {
		switch of := &phases[i]; {
		case of.Life != nil:
			p.benchLife(of.Life)
		case of.Spread != nil:
			p.benchSpread(of.Spread)
		case of.Memory != nil:
			p.benchMemory(of.Memory)
		}
	}
}

// benchRates prints the rates and latencies of phases.
func (p *printer) benchRates(r *bench.Report, phases []bench.Result) {
	t := p.newTable("PHASE", "LOAD", ">JOBS", ">PER SECOND", ">SLOWEST", ">FASTEST", ">CPU/JOB",
		">MIN", ">P50", ">P99", ">MAX", "OF")
	for i := range phases {
		// Phases with a table of their own have no rate, so a row here would be empty.
		if of := &phases[i]; of.Memory == nil && of.Idle == nil && of.Life == nil && of.Spread == nil {
			t.add(benchRow(r, of)...)
		}
		for k := range phases[i].Parts {
			part := &phases[i].Parts[k]
			perSecond := float64(part.Jobs) / part.Seconds
			row := []cell{txt("  " + part.Name), txt(""), txt(countText(part.Jobs)), txt(rate(perSecond)), {}, {}, {}}
			t.add(append(row, latencyCells(part.Latency)...)...)
		}
	}

	// A run with only life or memory leaves this table empty. Its titles are then noise.
	if len(t.rows) > 0 {
		t.flush()
		p.printf("\n")
	}
}

// benchHead prints the environment of the measurement.
func (p *printer) benchHead(r *bench.Report) {
	m := r.Machine
	pairs := []cell{
		txt("engine"), txt(r.URL),
		txt("machine"), txt(fmt.Sprintf("%s/%s, %s, %s", m.OS, m.Arch, plural(int64(m.CPUs), "CPU"), m.Go)),
	}

	if d := r.Disk; d != nil {
		text := fmt.Sprintf("sync p50 %s, p99 %s, max %s: %s sequential commits/s",
			micros(d.P50), micros(d.P99), micros(d.Max), rate(d.Rate))
		if r.SyncDelay > 0 {
			text += fmt.Sprintf(" (%s added to each sync)", micros(r.SyncDelay))
		}
		pairs = append(pairs, txt("disk"), txt(text))
	}
	if r.Server != nil {
		pairs = append(pairs, txt("server"), txt(r.Server.Server), txt("against"), txt(r.Against))
	}

	runs := fmt.Sprintf("%d of each phase, up to %s jobs or %s",
		r.Repeat, countText(int64(r.Load.Jobs)), shortDuration(seconds(r.Load.Seconds)))
	pairs = append(pairs, txt("bodies"), txt(bytesText(int64(r.Load.Body))), txt("runs"), txt(runs))
	if r.Load.BacklogReady > 0 || r.Load.BacklogDelayed > 0 {
		text := countText(int64(r.Load.BacklogReady)) + " ready, " + countText(int64(r.Load.BacklogDelayed)) + " delayed"
		if r.Load.Reopened {
			text += ", file reopened"
		}
		pairs = append(pairs, txt("backlog"), txt(text))
	}
	p.pairs(pairs...)
	p.printf("\n")
}

func benchRow(r *bench.Report, of *bench.Result) []cell {
	row := []cell{
		{string(of.Phase), bold}, txt(benchLoad(r, of.Phase)), txt(countText(of.Jobs)),
		{rate(of.PerSecond), green}, txt(rate(of.Slowest)), txt(rate(of.Fastest)), txt(""),
	}
	if of.Parts != nil { // the rows of the parts have the figures
		return row[:2]
	}
	if of.CPU > 0 {
		row[len(row)-1] = txt(micros(of.CPU))
	}
	if of.Latency != nil {
		row = append(row, latencyCells(of.Latency)...)
	}
	return row
}

func latencyCells(l *bench.Latency) []cell {
	return []cell{txt(micros(l.Min)), txt(micros(l.P50)), txt(micros(l.P99)), txt(micros(l.Max)), txt(l.Of)}
}

// benchLoad describes the load of a phase.
func benchLoad(r *bench.Report, phase bench.Phase) string {
	l := r.Load
	callers := func(perCall, n int) string {
		return fmt.Sprintf("%s per call, %s", countText(int64(perCall)), plural(int64(n), "caller"))
	}
	inFlight := countText(int64(l.Concurrency)) + " in flight"

	switch phase {
	case bench.Push, bench.Take:
		return callers(l.Batch, l.Callers)
	case bench.Burst:
		return callers(l.Batch, l.Callers) + ", due at once"
	case bench.Calls:
		return callers(l.Batch, 1)
	case bench.NativePush, bench.NativeTake:
		return countText(int64(l.Batch)) + " per command, bare"
	case bench.Single:
		return callers(1, l.Goroutines)
	case bench.Both:
		return callers(1, l.Goroutines) + ", " + inFlight
	case bench.Lateness, bench.GroupLateness, bench.TickLateness:
		return countText(int64(l.Rate)) + " due/s, " + inFlight
	}
	return inFlight
}

// memorySync is a duration of a sync, in µs, that no disk reaches.
const memorySync = 5.0

// benchNotes prints notes about the results.
func (p *printer) benchNotes(r *bench.Report) {
	// A sync this fast never reaches a disk, so the figures are not those of a real disk.
	if r.Disk != nil && r.Disk.P50 < memorySync {
		p.benchNote(yellow, "A sync takes %s, so %s is probably in memory. The figures are not those of a disk.",
			micros(r.Disk.P50), oneLine(r.Disk.Dir))
	}
	for _, phases := range [][]bench.Result{r.Without, r.Phases} {
		for i := range phases {
			p.benchPhaseNotes(r, &phases[i])
		}
	}
}

func (p *printer) benchNote(s style, format string, args ...any) {
	p.printf("%s\n", p.paint(s, fmt.Sprintf(format, args...)))
}

// benchPhaseNotes prints notes about one phase.
func (p *printer) benchPhaseNotes(r *bench.Report, of *bench.Result) {
	if of.Cut > 0 {
		p.benchNote(dim, "%s: %d of %s stopped at the time limit of %s, before all jobs were done.",
			of.Phase, of.Cut, plural(int64(of.Runs), "run"), shortDuration(seconds(r.Load.Seconds)))
	}
	if of.Either > 0 {
		p.benchNote(dim, "%s: the engine has another clock; a latency may be wrong by %s.", of.Phase, micros(of.Either))
	}

	// Only the lateness phases always print the count. In other phases zero early jobs is no result.
	lateness := []bench.Phase{bench.Lateness, bench.GroupLateness, bench.TickLateness}
	if !slices.Contains(lateness, of.Phase) {
		if of.Early > 0 {
			p.benchNote(red, "%s: %s came early.", of.Phase, plural(of.Early, "job"))
		}
		return
	}

	if of.Behind > 0 {
		p.benchNote(yellow, "%s: %s were stored after they were due, because the rate is too high.",
			of.Phase, plural(of.Behind, "job"))
	}
	style := green
	if of.Early > 0 {
		style = red
	}
	p.benchNote(style, "%s: %s of %s came early.", of.Phase, countText(of.Early), plural(of.Latency.Count, "job"))
}

// rate returns a number per second.
func rate(perSecond float64) string {
	if perSecond < 10 {
		return fmt.Sprintf("%.1f", perSecond)
	}
	return countText(int64(perSecond + 0.5))
}

// micros returns a duration in microseconds with three digits.
func micros(us float64) string {
	d := time.Duration(us * float64(time.Microsecond))
	unit := time.Nanosecond

	// The unit grows with the duration, so that both 1.23 µs and 1.23 s keep three digits.
	for abs := d.Abs(); abs/unit >= 1000; unit *= 10 {
	}
	return d.Round(unit).String()
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// benchBar shows a progress bar for each run.
type benchBar struct {
	app      *app
	progress bench.Progress // of the current bar
	name     string
	bar      *progress
}

// show shows the progress of a run.
func (b *benchBar) show(at bench.Progress) {
	// A new run gets a new bar, because a bar computes its rate from its own start.
	if name := benchStep(at); name != b.name || at.Total != b.progress.Total {
		b.bar.end()
		b.name, b.progress, b.bar = name, at, b.app.newProgress(name, at.Total)
	}
	b.bar.set(at.Done, at.Total, 0)
}

func (b *benchBar) end() { b.bar.end() }

// benchStep returns the name of a step.
func benchStep(at bench.Progress) string {
	switch {
	case at.Phase == "":
		return "load backlog"
	case at.Loading:
		return fmt.Sprintf("%s %d/%d, loading", at.Phase, at.Run, at.Runs)
	}
	return fmt.Sprintf("%s %d/%d", at.Phase, at.Run, at.Runs)
}
