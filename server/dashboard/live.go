package dashboard

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/server/dashboard/feed"
	"github.com/dulymq/duly/server/dashboard/view"
	"github.com/dulymq/duly/server/route"
)

const (
	// maxStreams and maxStreamsEach bound the streams of the server and of a session.
	maxStreams, maxStreamsEach = 200, 20
	// streamRetry is when a page without a stream asks again.
	streamRetry = 5 * time.Second
	// beat is the time between two signs of life of a stream.
	beat = 15 * time.Second
)

// numbers returns the texts of a queue that change while a page shows them. A page and its stream have them in one
// order: the sizes of [duly.States], then these.
func (d *Dashboard) numbers(q duly.QueueRef, s *duly.Stats, t contract.Throttle) (list []string) {
	for _, state := range duly.States {
		size := strconv.FormatInt(*s.Sizes.Of(state), 10)
		if state == duly.StateLeased && t.MaxLeased > 0 {
			size += " / " + strconv.Itoa(t.MaxLeased)
		}
		list = append(list, size)
	}
	late := ""
	if s.OldestReady > 0 {
		late = view.Duration(s.OldestReady)
	}
	list = append(list, strings.Join(flags(s, t), ", "), late)
	list = append(list, rateTexts(d.ratesOf(q.Namespace, q.Name), s.Sizes.Ready)...)
	for _, c := range contract.CountersOf(&s.Counters) {
		list = append(list, strconv.FormatInt(c.Value, 10))
	}
	return append(list, sum(s))
}

// atCounters is the place of the counters. Before them are the sizes, the flags, the lateness, and the rates.
const atCounters = 12

// event is what a stream sends after a look. Queues has only those that have changed, and null for one that is gone.
type event struct {
	At     string              `json:"at"`
	Queues map[string][]string `json:"queues"`
	// Problem is the code of the error of the look.
	Problem string `json:"problem,omitempty"`
}

// stream is one page that shows live numbers.
type stream struct {
	*Dashboard
	out       *route.Stream
	namespace string
	// only is the queue of the page, "" for all. overview is set for the page with the sums of all queues.
	only     string
	overview bool
	sent     map[string][]string
	// found are the findings that the page shows.
	found string
}

// live streams the numbers of a namespace's queues until the page goes, the session ends or the server stops.
func (d *Dashboard) live(c *route.Call) error {
	s, err := d.session(c)
	if err != nil {
		return err
	}
	ctx, release, err := c.LongContext(c.Draining())
	if err != nil {
		return err
	}
	defer release()
	if !d.streams.enter(s.ID) {
		return &duly.Error{Code: duly.CodeUnavailable, RetryAfter: streamRetry, Message: "there are too many live pages"}
	}
	defer d.streams.leave(s.ID)

	c.W.Header().Set("Cache-Control", "no-store, no-transform")
	c.W.Header().Set("X-Accel-Buffering", "no")
	out, err := c.Stream("text/event-stream")
	if err != nil {
		return err
	}
	to := &stream{
		Dashboard: d, out: out, namespace: contract.NamespaceOr(c.Namespace), only: c.Query("queue"),
		overview: c.Query("view") == "overview", sent: map[string][]string{},
	}
	viewer := d.feed.Watch(c.Namespace)
	defer viewer.Close()
	over := d.cfg.Clock.NewTimer(s.Left(d.cfg.Clock.Now()))
	defer over.Stop()
	pulse := d.cfg.Clock.NewTimer(beat)
	defer pulse.Stop()
	for err == nil {
		select {
		case look := <-viewer.Looks():
			err = to.look(look)
		case <-pulse.C:
			pulse.Reset(beat)
			err = to.send("hb", event{At: moment(d.cfg.Clock.Now())})
		case <-over.C:
			return to.send("bye", "session")
		case <-ctx.Done():
			if !c.Gone() {
				return to.send("bye", "stream")
			}
			return nil
		}
	}
	return nil // the page is gone
}

// look sends what a look has changed. A page fetches its list of findings itself.
func (s *stream) look(look *feed.Look) error {
	if err := s.send("n", s.changes(look)); err != nil || !s.overview {
		return err
	}
	found := ""
	for _, f := range s.attention.List(s.namespace) {
		found += f.Code + " " + f.Queue + "\n"
	}
	if s.found == found {
		return nil
	}
	s.found = found
	return s.send("a", strings.Count(found, "\n"))
}

func (s *stream) send(name string, data any) error {
	text, err := json.Marshal(data)
	if err != nil {
		return err
	}
	_, err = s.out.Write(slices.Concat([]byte("event: "+name+"\ndata: "), text, []byte("\n\n")))
	return err
}

// changes returns what differs from what the page has.
func (s *stream) changes(look *feed.Look) event {
	e := event{At: moment(look.At), Queues: map[string][]string{}}
	if look.Err != nil {
		e.Problem = string(duly.CodeOf(look.Err))
		return e
	}
	now := s.texts(look)
	for name, texts := range now {
		if !slices.Equal(texts, s.sent[name]) {
			e.Queues[name] = texts
		}
	}
	for name := range s.sent {
		if now[name] == nil {
			e.Queues[name] = nil
		}
	}
	s.sent = now
	return e
}

// texts returns the texts of the page by queue.
func (s *stream) texts(look *feed.Look) map[string][]string {
	if s.overview {
		return map[string][]string{"": s.totals(s.namespace, look)}
	}
	list := map[string][]string{}
	for i := range look.Queues {
		q := &look.Queues[i]
		if q.Err != nil || s.only != "" && q.Name != s.only {
			continue
		}
		list[q.Name] = s.numbers(duly.QueueRef{Namespace: s.namespace, Name: q.Name}, &q.Stats, q.Throttle)
		if s.only == "" {
			list[q.Name] = list[q.Name][:atCounters] // the list shows no counters
		}
	}
	return list
}

// streams counts the open streams.
type streams struct {
	mu   sync.Mutex
	all  int
	each map[string]int // by session
}

// enter reports whether a session may have one more stream.
func (s *streams) enter(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all >= maxStreams || s.each[id] >= maxStreamsEach {
		return false
	}
	s.all++
	s.each[id]++
	return true
}

func (s *streams) leave(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all--
	if s.each[id]--; s.each[id] == 0 {
		delete(s.each, id)
	}
}
