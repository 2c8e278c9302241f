package dashboard

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/server/dashboard/feed"
	"github.com/dulymq/duly/server/dashboard/view"
	"github.com/dulymq/duly/server/route"
)

const (
	// maxFindings bounds the list of what needs attention.
	maxFindings = 50
	// topQueues is the length of a list of queues.
	topQueues = 10
)

// overview serves the first page of a namespace, from one look and the history.
func (d *Dashboard) overview(c *route.Call) error {
	namespace := contract.NamespaceOr(c.Namespace)
	look := d.feed.Look(c.Context(), namespace)
	if look.Err != nil {
		return look.Err
	}

	v := view.Overview{Tops: d.tops(namespace, look), Charts: d.charts(c, "")}
	found := d.attention.List(namespace)
	v.More = max(0, len(found)-maxFindings)
	v.Findings = found[:len(found)-v.More]
	names := []string{"delayed", "ready", "blocked", "leased", "dead", "done", "in per second", "out per second",
		"failed per second"}
	for i, text := range d.totals(namespace, look) {
		v.Tiles = append(v.Tiles, view.Number{Name: names[i], Text: text, At: i})
	}
	v.Frame = also(d.frame(c, "Overview"), "top", fmt.Sprintf("/v1/%s/queues?stats=true", namespace))
	v.Frame = d.stream(v.Frame, "")
	v.Frame.Plot, v.Frame.Stream = true, withQuery(v.Frame.Stream, "view", "overview")
	return d.reply(c, http.StatusOK, "overview.html", v)
}

// totals returns the sums of all queues: the sizes of [duly.States], then the rates.
func (d *Dashboard) totals(namespace string, look *feed.Look) (list []string) {
	var sum duly.Sizes
	for i := range look.Queues {
		for _, state := range duly.States {
			*sum.Of(state) += *look.Queues[i].Stats.Sizes.Of(state)
		}
	}
	for _, state := range duly.States {
		list = append(list, strconv.FormatInt(*sum.Of(state), 10))
	}
	return append(list, rateTexts(d.history.Rates(namespace), 0)[:3]...)
}

// tops returns the first queues by lateness, backlog, dead jobs and failures.
func (d *Dashboard) tops(namespace string, look *feed.Look) (list []view.Table) {
	count := func(v float64) string { return strconv.FormatFloat(v, 'f', 0, 64) }
	age := func(v float64) string { return view.Duration(time.Duration(v * float64(time.Second))) }
	for _, by := range []struct {
		title string
		value func(q *contract.QueueStats) float64
		text  func(v float64) string
	}{
		{"Oldest ready job", func(q *contract.QueueStats) float64 { return q.Stats.OldestReady.Seconds() }, age},
		{"Ready and blocked jobs", func(q *contract.QueueStats) float64 {
			return float64(q.Stats.Sizes.Ready + q.Stats.Sizes.Blocked)
		}, count},
		{"Dead jobs", func(q *contract.QueueStats) float64 { return float64(q.Stats.Sizes.Dead) }, count},
		{"Failures per second", func(q *contract.QueueStats) float64 {
			return d.ratesOf(namespace, q.Name).Failed
		}, rate},
	} {
		top := view.Table{Title: by.title}
		for _, q := range first(look.Queues, by.value) {
			top.Rows = append(top.Rows, []view.Link{{Text: q.Name, To: queuePath(namespace, q.Name)}, {Text: by.text(by.value(q))}})
		}
		list = append(list, top)
	}
	return list
}

// first returns the queues with the largest positive values, the largest first.
func first(queues []contract.QueueStats, value func(*contract.QueueStats) float64) (list []*contract.QueueStats) {
	for i := range queues {
		if queues[i].Err == nil && value(&queues[i]) > 0 {
			list = append(list, &queues[i])
		}
	}
	slices.SortStableFunc(list, func(a, b *contract.QueueStats) int { return cmp.Compare(value(b), value(a)) })
	return list[:min(len(list), topQueues)]
}
