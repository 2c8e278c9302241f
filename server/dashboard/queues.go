package dashboard

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/wire"
	"github.com/dulymq/duly/server/auth"
	"github.com/dulymq/duly/server/dashboard/view"
	"github.com/dulymq/duly/server/route"
)

// queuesPerPage is the number of queues of a list.
const queuesPerPage = 1000

// queues serves the list of a namespace's queues, from one survey. A filter and an order apply to the page of the list.
func (d *Dashboard) queues(c *route.Call) error {
	cursor, filter, order := c.Query("cursor"), c.Query("filter"), c.Query("sort")
	page, err := d.survey(c, cursor)
	if err != nil {
		return err
	}

	here := path("n", c.Namespace, "queues")
	found := slices.DeleteFunc(page.Queues, func(q contract.QueueStats) bool { return !strings.Contains(q.Name, filter) })
	d.sortQueues(c.Namespace, found, order)
	v := view.Queues{
		Rows: make([]view.QueueRow, len(found)), Here: here, Filter: filter, Sort: order,
		Part: (cursor != "" || page.Next != "") && (filter != "" || order != ""), Whole: cursor == "" && filter == "",
	}
	v.Frame = d.stream(also(d.frame(c, "Queues"), "queues", fmt.Sprintf("/v1/%s/queues?stats=true", c.Namespace)), "")
	for i := range found {
		v.Rows[i] = d.queueRow(c.Namespace, &found[i])
	}
	for _, name := range queueOrders {
		v.Orders = append(v.Orders, view.Order{
			Text: strings.ToUpper(name[:1]) + name[1:], Current: name == cmp.Or(order, queueOrders[0]),
			To: withQuery(here, "cursor", cursor, "filter", filter, "sort", name),
		})
	}
	if cursor != "" {
		v.First = withQuery(here, "filter", filter, "sort", order)
	}
	if page.Next != "" {
		v.Next = withQuery(here, "cursor", page.Next, "filter", filter, "sort", order)
	}
	return d.reply(c, http.StatusOK, "queues.html", v)
}

// survey reads a page of queues. All viewers of the first page share its survey, so a caller must not change it.
func (d *Dashboard) survey(c *route.Call, cursor string) (contract.SurveyPage, error) {
	if cursor == "" {
		look := d.feed.Look(c.Context(), contract.NamespaceOr(c.Namespace))
		return contract.SurveyPage{Queues: slices.Clone(look.Queues), Next: look.Next}, look.Err
	}
	return d.cfg.Surveyor.Survey(c.Context(), c.Namespace, duly.PageParams{Cursor: cursor, Limit: queuesPerPage})
}

// queueOrders are the columns by which the list of queues can be sorted.
var queueOrders = []string{
	"name", "ready", "delayed", "blocked", "leased", "dead", "oldest ready", "in", "out", "failed",
}

// sortQueues sorts queues by a column, the largest first. The survey has sorted them by name.
func (d *Dashboard) sortQueues(namespace string, list []contract.QueueStats, order string) {
	value := map[string]func(*contract.QueueStats) float64{
		"oldest ready": func(q *contract.QueueStats) float64 { return q.Stats.OldestReady.Seconds() },
		"in":           func(q *contract.QueueStats) float64 { return d.ratesOf(namespace, q.Name).In },
		"out":          func(q *contract.QueueStats) float64 { return d.ratesOf(namespace, q.Name).Out },
		"failed":       func(q *contract.QueueStats) float64 { return d.ratesOf(namespace, q.Name).Failed },
	}[order]
	var state duly.State
	if value == nil {
		if state.UnmarshalText([]byte(order)) != nil {
			return
		}
		value = func(q *contract.QueueStats) float64 { return float64(*q.Stats.Sizes.Of(state)) }
	}
	slices.SortStableFunc(list, func(a, b contract.QueueStats) int { return cmp.Compare(value(&b), value(&a)) })
}

func (d *Dashboard) queueRow(namespace string, q *contract.QueueStats) view.QueueRow {
	if q.Err != nil {
		return view.QueueRow{Name: q.Name, Problem: string(duly.CodeOf(q.Err))}
	}
	return view.QueueRow{
		Name: q.Name, Spark: spark(d.history.Spark(contract.NamespaceOr(namespace), q.Name)),
		Texts: d.numbers(duly.QueueRef{Namespace: namespace, Name: q.Name}, &q.Stats, q.Throttle),
	}
}

// flags returns the reasons why ready jobs may have to wait.
func flags(s *duly.Stats, t contract.Throttle) (list []string) {
	if !s.Closing.Until.IsZero() {
		list = append(list, "closed until "+moment(s.Closing.Until))
	}
	if t.Paused {
		list = append(list, "paused")
	}
	if !s.NextToken.IsZero() && s.Sizes.Ready > 0 {
		return append(list, "rate used up")
	}
	if t.MaxLeased > 0 || t.Rate.Limited() {
		list = append(list, "limited")
	}
	return list
}

// queue serves the page of one queue: its sizes, counters and settings.
func (d *Dashboard) queue(c *route.Call) error {
	q := queueOf(c)
	config, err := d.cfg.Engine.Config(c.Context(), q)
	if err != nil {
		return err
	}
	stats, err := d.cfg.Engine.Stats(c.Context(), q)
	if err != nil {
		return err
	}
	// To the engine an unknown queue is an empty one. A person has mistyped its name.
	if stats.Delivery == "" && stats.Group == nil {
		return contract.Errorf(duly.CodeNotFound,
			"there is no queue %q in the namespace %q; a push creates it: duly push %[1]s", q.Name, q.Normal().Namespace)
	}

	texts := d.numbers(q, &stats, contract.ThrottleOf(config))
	v := view.Queue{
		Name: q.Name, Texts: texts, States: states(q, texts, duly.StateNone), Stats: &stats, Charts: d.charts(c, q.Name),
		Why: d.whyQueue(c, q, &config, &stats), Spread: d.spread(q), Sum: view.Number{At: len(texts) - 1, Text: texts[len(texts)-1]},
	}
	v.Now = d.cfg.Clock.Now()
	v.Links = append(d.formLink(c, &pushForm, "Push a job"), d.formLink(c, &settingsForm, "Change the settings")...)
	if c.Require(auth.Consume) == nil {
		v.Links = append(v.Links, view.Link{Text: "Order keys", To: queuePath(q.Namespace, q.Name, "keys")})
	}
	v.Fields = below("config.", wire.QueueForm.Append(nil, wire.Queue{Config: config}))
	for i, n := range contract.CountersOf(&stats.Counters) {
		v.Counters = append(v.Counters, view.Number{Name: n.Name, Text: texts[atCounters+i], At: atCounters + i})
	}
	name, text := "pause", "Pause"
	if config.Paused {
		name, text = "resume", "Resume"
	}
	v.Buttons = append(d.button(c, ofQueue, name, text, ""), d.button(c, ofQueue, "destroy", "Destroy …", "queues")...)
	v.Frame = also(d.frame(c, q.Name), "stats "+q.Name, fmt.Sprintf("/v1/%s/queues/%s", c.Namespace, q.Name))
	v.Frame = d.stream(v.Frame, q.Name)
	v.Frame.Plot = true
	return d.reply(c, http.StatusOK, "queue.html", v)
}

// openJob sends a caller to a job of the queue by its ID.
func (d *Dashboard) openJob(c *route.Call) error {
	q, id := queueOf(c), c.Query("id")
	if id == "" {
		return seeOther(c, queuePath(q.Namespace, q.Name))
	}
	return seeOther(c, queuePath(q.Namespace, q.Name, "j", id))
}

// queueOf returns the queue of the path. The engine validates its name.
func queueOf(c *route.Call) duly.QueueRef {
	return duly.QueueRef{Namespace: c.Namespace, Name: c.PathValue("queue")}
}

// states returns the links to the jobs of each state. texts are the numbers of the queue.
func states(q duly.QueueRef, texts []string, current duly.State) (list []view.State) {
	for i, s := range duly.States {
		list = append(list, view.State{
			Jobs: view.Link{Text: s.String(), To: queuePath(q.Namespace, q.Name, s.String())},
			Size: view.Number{At: i, Text: texts[i]}, Current: s == current,
		})
	}
	return list
}

// sum compares the counters with the sizes. A done job counts as acked, so it is not part of the sum.
func sum(s *duly.Stats) string {
	n, z := &s.Counters, &s.Sizes
	stored := z.Delayed + z.Ready + z.Blocked + z.Leased + z.Dead
	ended := n.Acked + n.Merged + n.Expired + n.Deleted + n.Dropped
	if n.Pushed == ended+stored {
		return fmt.Sprintf("Every job is accounted for: %d pushed = %d ended + %d stored.", n.Pushed, ended, stored)
	}
	return fmt.Sprintf("%d pushed, %d ended, %d stored: jobs move while the page reads.", n.Pushed, ended, stored)
}

func duration(d time.Duration) string {
	if d <= 0 {
		return "none"
	}
	return duly.FormatDuration(d)
}
