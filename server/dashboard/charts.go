package dashboard

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/server/dashboard/history"
	"github.com/dulymq/duly/server/dashboard/view"
	"github.com/dulymq/duly/server/route"
)

// lines are the lines of a chart.
type lines struct {
	names  []string
	values func(p *history.Point) []float64
}

var (
	flow = lines{[]string{"pushed", "acked", "failed", "stalled"}, func(p *history.Point) []float64 {
		return []float64{p.Pushed, p.Acked, p.Failed, p.Stalled}
	}}
	// Only a namespace has percentiles. They are of the deliveries through this server.
	lateness = lines{[]string{"oldest ready job", "deliveries p50", "deliveries p99"}, func(p *history.Point) []float64 {
		return []float64{p.Oldest, p.P50, p.P99}
	}}
)

// charts returns the charts of a namespace, or of one of its queues.
func (d *Dashboard) charts(c *route.Call, queue string) (v view.Charts) {
	namespace, chosen := contract.NamespaceOr(c.Namespace), cmp.Or(c.Query("range"), "1h")
	here, ranges := path("n", namespace), history.Ranges
	late := lateness
	if queue != "" {
		here, ranges, late.names = queuePath(namespace, queue), ranges[:len(ranges)-1], late.names[:1]
	} else if d.cfg.History.Lateness == nil {
		late.names = late.names[:1]
	}

	at := ranges[1]
	if i := slices.IndexFunc(ranges, func(r history.Range) bool { return r.Name == chosen }); i >= 0 {
		at = ranges[i]
	}
	for _, r := range ranges {
		to := withQuery(here, "range", r.Name)
		v.Ranges = append(v.Ranges, view.Order{Text: r.Name, To: to, Current: r.Name == at.Name})
	}

	found := d.history.Chart(namespace, queue, at)
	v.List = []view.Chart{
		chart("lateness", "Lateness in seconds", late, found.Points, at), chart("flow", "Jobs per second", flow, found.Points, at),
	}
	v.List[0].Log = true
	v.Notes = notes(&found, len(v.List[0].Rows))
	return v
}

// notes say what a reader of the charts must know.
func notes(c *history.Chart, points int) (list []string) {
	if points == 0 {
		list = append(list, "The history has begun with this page. The first point appears in some seconds.")
	}
	for _, m := range c.Marks {
		by := duration(max(m.By, -m.By))
		list = append(list, fmt.Sprintf("At %s the clock of the server moved by %s.", moment(m.At), by))
	}
	if c.Dropped > 0 {
		list = append(list, fmt.Sprintf("%d queues have no history, because ui.history bounds it.", c.Dropped))
	}
	return list
}

// chart returns one chart of points.
func chart(id, title string, l lines, points []history.Point, r history.Range) view.Chart {
	v := view.Chart{ID: id, Title: title, Label: title, Columns: l.names, Step: int64(r.Step() / time.Second)}
	if len(points) > 0 {
		v.From, v.To = points[0].At.Unix(), points[len(points)-1].At.Unix()
	}
	format := "15:04:05"
	if r.Span > 24*time.Hour {
		format = "2006-01-02 15:04"
	}
	for i := range points {
		p := &points[i]
		if !p.Seen {
			continue
		}
		row := view.ChartRow{At: p.At.Unix(), Time: p.At.Format(format)}
		for _, value := range l.values(p)[:len(l.names)] {
			row.Values = append(row.Values, figure(value))
		}
		v.Rows = append(v.Rows, row)
	}
	for i := range l.names {
		v.Label += l.describe(i, points)
	}
	return v
}

// describe returns the smallest, the largest and the last number of a line.
func (l *lines) describe(i int, points []history.Point) string {
	low, high, last := math.Inf(1), math.Inf(-1), math.NaN()
	for p := range points {
		if v := l.values(&points[p])[i]; points[p].Seen && !math.IsNaN(v) {
			low, high, last = min(low, v), max(high, v), v
		}
	}
	if math.IsNaN(last) {
		return fmt.Sprintf("; %s: nothing", l.names[i])
	}
	return fmt.Sprintf("; %s: from %s to %s, last %s", l.names[i], figure(low), figure(high), figure(last))
}

// figure returns a number with at least three digits, "" for none.
func figure(v float64) string {
	if math.IsNaN(v) {
		return ""
	}
	if v >= 100 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// spread returns the histogram of how late this process delivered a queue's jobs, nil without a delivery.
func (d *Dashboard) spread(q duly.QueueRef) (list []view.Bar) {
	if d.cfg.History.Lateness == nil {
		return nil
	}
	counts := d.cfg.History.Lateness(contract.NamespaceOr(q.Namespace), q.Name)
	if len(counts) == 0 || slices.Max(counts) == 0 {
		return nil
	}
	most, bounds := slices.Max(counts), d.cfg.History.Bounds
	for i, n := range counts {
		name := "longer"
		if i < len(bounds) {
			name = "up to " + duly.FormatDuration(bounds[i])
		}
		list = append(list, view.Bar{Name: name, Count: n, Most: most})
	}
	return list
}
