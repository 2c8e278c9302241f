package history

import (
	"cmp"
	"context"
	"log/slog"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/server/dashboard/feed"
)

const (
	// Unused is how long a namespace is looked at after the last page of a session.
	Unused = 30 * 24 * time.Hour
	// every is the time between two looks.
	every = 10 * time.Second
	// maxPause is the longest time between two looks that is not a gap.
	maxPause = time.Minute
	// minClockStep is how far the wall clock must jump to be marked.
	minClockStep = 5 * time.Second
	// maxNamespaces and maxMarks bound what the history keeps. It drops the oldest ones.
	maxNamespaces, maxMarks = 100, 20
)

// Config configures a History. Look and Clock must be set.
type Config struct {
	// Look samples a namespace. [History.Observe] receives the samples as well.
	Look  func(ctx context.Context, namespace string) *feed.Look
	Clock duly.Clock
	Log   *slog.Logger
	// Path is the file of the history, "" for none.
	Path string
	// Memory bounds the series, in bytes. Default 64 MiB. Log is slog's default unless set.
	Memory int64
	// Lateness returns how late this process delivered the jobs of a namespace, or of one of its queues: counts by the
	// buckets of Bounds, and one for longer times. Nil: the charts have no percentiles.
	Lateness func(namespace, queue string) []uint64
	Bounds   []time.Duration
}

// History keeps the series. It is safe for concurrent use.
type History struct {
	cfg Config
	// visited receives when there is a first namespace.
	visited chan struct{}

	mu         sync.Mutex
	namespaces map[string]*namespace
	// dropped is the number of queues that the last check of the memory left without a series.
	dropped int
}

// namespace is one that people look at. The file has its exported fields.
type namespace struct {
	// Visit is the time of the last page.
	Visit time.Time
	Total *series
	Marks []Mark
	// queues has the queues of the last look. known is set when a look has noted their counters.
	queues map[string]*queue
	known  bool
	// begin is the time since which there is no gap, at and mono are the times of the last look.
	begin, at time.Time
	mono      time.Duration
	// lastName is the name of the last queue of the last look, "" if it had all queues.
	lastName string
	late     []uint64
}

// queue is what the history knows of a queue. The file has its exported fields.
type queue struct {
	counters duly.Counters
	// looked is the monotonic time of the last look with this queue.
	looked time.Duration
	Series *series // nil while there was nothing to record
	Recent Recent
}

// Mark is a step of the wall clock.
type Mark struct {
	At time.Time
	By time.Duration
}

// New returns a history with the content of its file.
func New(c Config) *History {
	c.Log, c.Memory = cmp.Or(c.Log, slog.Default()), cmp.Or(c.Memory, 64<<20)
	h := &History{cfg: c, visited: make(chan struct{}, 1), namespaces: map[string]*namespace{}}
	h.load()
	return h
}

func (h *History) width() int {
	if h.cfg.Lateness == nil {
		return int(columns)
	}
	return int(columns) + len(h.cfg.Bounds) + 1
}

func (h *History) newNamespace() *namespace {
	return &namespace{Total: newSeries(namespaceKeep, h.width()), queues: map[string]*queue{}}
}

// Visit begins the history of a namespace, or prolongs it. A session has opened one of its pages.
func (h *History) Visit(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := h.namespaces[name]
	if n == nil {
		if len(h.namespaces) >= maxNamespaces {
			delete(h.namespaces, h.leastVisited())
		}
		n = h.newNamespace()
		h.namespaces[name] = n
	}
	n.Visit = h.cfg.Clock.Now()
	select {
	case h.visited <- struct{}{}:
	default:
	}
}

// find returns a namespace and the series of one of its queues. Both may be nil. The caller holds the lock.
func (h *History) find(name, queue string) (n *namespace, s *series) {
	if n = h.namespaces[name]; n != nil && n.queues[queue] != nil {
		s = n.queues[queue].Series
	}
	return n, s
}

func (h *History) leastVisited() (least string) {
	for name, n := range h.namespaces {
		if least == "" || n.Visit.Before(h.namespaces[least].Visit) {
			least = name
		}
	}
	return least
}

// Observe records a look at a namespace.
func (h *History) Observe(name string, look *feed.Look) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := h.namespaces[name]
	if n == nil || look.Err != nil {
		return
	}
	elapsed := look.Mono - n.mono
	if n.known && elapsed < time.Millisecond {
		return // a look that was recorded already, or an older one
	}
	if n.known {
		n.checkClock(look.At, elapsed)
	}
	between := span{look.At.Add(-elapsed), look.At}
	gap := !n.known || elapsed > maxPause
	if gap {
		n.begin = look.At
	}

	sum := n.observeQueues(look, between, gap)
	late := h.lateness(name, n)
	if !gap {
		n.Total.add(between, append(sum[:], late...))
	}
	n.known, n.at, n.mono = true, look.At, look.Mono
	for _, q := range n.queues {
		q.Recent.Rates = n.rates(q.Series)
	}
}

// checkClock marks a step of the wall clock since the last look.
func (n *namespace) checkClock(now time.Time, elapsed time.Duration) {
	step := now.Sub(n.at) - elapsed
	if max(step, -step) < minClockStep {
		return
	}
	n.mark(Mark{At: now, By: step.Round(time.Second)})
	n.begin = n.begin.Add(step)
	if step > 0 {
		return
	}
	// This time will happen again.
	n.cut(now.Add(-elapsed))
}

func (n *namespace) mark(m Mark) {
	n.Marks = append(n.Marks, m)
	n.Marks = n.Marks[max(0, len(n.Marks)-maxMarks):]
}

func (n *namespace) cut(from time.Time) {
	n.Total.cut(from)
	for _, q := range n.queues {
		if q.Series != nil {
			q.Series.cut(from)
		}
	}
}

// observeQueues records every queue of a look. It returns the sum of them.
func (n *namespace) observeQueues(look *feed.Look, between span, gap bool) (sum [columns]float32) {
	for i := range look.Queues {
		q := &look.Queues[i]
		known := n.queues[q.Name]
		if q.Err != nil {
			if known != nil {
				known.looked = look.Mono // a fault of one look; the queue is still there
			}
			continue
		}

		fresh := known == nil
		if fresh {
			known = &queue{}
			n.queues[q.Name] = known
		}
		// After a gap, and for a queue that the last look did not reach, the counters rose at an unknown time.
		if gap || fresh && n.lastName != "" && q.Name > n.lastName {
			known.counters = q.Stats.Counters
		}
		sample := known.sample(&q.Stats)
		known.note(q, look.At)
		known.counters, known.looked = q.Stats.Counters, look.Mono
		if gap {
			continue
		}
		known.record(between, sample)
		for c := range Oldest {
			sum[c] += sample[c]
		}
		sum[Oldest] = max(sum[Oldest], sample[Oldest])
	}
	n.forget(look)
	return sum
}

// forget removes the queues that a look has not found.
func (n *namespace) forget(look *feed.Look) {
	last := ""
	if look.Next != "" && len(look.Queues) > 0 {
		last = look.Queues[len(look.Queues)-1].Name
	}
	for name, q := range n.queues {
		if q.looked != look.Mono && (last == "" || name <= last) {
			delete(n.queues, name)
		}
	}
	n.lastName = last
}

// sample returns what happened since the last look.
func (q *queue) sample(s *duly.Stats) (v [columns]float32) {
	was, now := q.counters, &s.Counters
	// The counters of a queue that was destroyed and created again begin at zero.
	if now.Pushed < was.Pushed || now.Acked < was.Acked || now.Failed < was.Failed || now.Stalled < was.Stalled ||
		now.Dead < was.Dead {
		was = duly.Counters{}
	}
	v[Pushed], v[Acked] = float32(now.Pushed-was.Pushed), float32(now.Acked-was.Acked)
	v[Failed], v[Stalled] = float32(now.Failed-was.Failed), float32(now.Stalled-was.Stalled)
	v[Dead], v[Ready] = float32(now.Dead-was.Dead), float32(s.Sizes.Ready)
	v[Oldest] = float32(max(0, s.OldestReady.Seconds()))
	return v
}

func (q *queue) record(between span, sample [columns]float32) {
	idle := sample == [columns]float32{}
	if q.Series == nil && idle {
		return
	}
	if q.Series == nil {
		q.Series = newSeries(queueKeep, int(columns))
	}
	if !idle {
		q.Series.add(between, sample[:])
		return
	}
	// The end of a backlog must not look like its last number.
	for i := range q.Series.Rings {
		r := &q.Series.Rings[i]
		if values := r.get(r.number(between.to)); values != nil {
			values[Ready] = 0
		}
	}
}

// lateness returns the deliveries since the last look by their lateness.
func (h *History) lateness(name string, n *namespace) (list []float32) {
	if h.cfg.Lateness == nil {
		return nil
	}
	now := h.cfg.Lateness(name, "")
	list = make([]float32, len(h.cfg.Bounds)+1)
	for i := range list {
		// A count falls when a queue loses its histogram.
		if i < len(now) && i < len(n.late) && now[i] > n.late[i] {
			list[i] = float32(now[i] - n.late[i])
		}
	}
	n.late = now
	return list
}

// upkeep removes what is too old, and what is beyond the bound of the memory.
func (h *History) upkeep() {
	h.mu.Lock()
	defer h.mu.Unlock()
	type named struct {
		queue *queue
		bytes int64
	}
	now, used, list := h.cfg.Clock.Now(), int64(0), []named(nil)
	for name, n := range h.namespaces {
		if now.Sub(n.Visit) >= Unused {
			delete(h.namespaces, name)
			continue
		}
		n.Total.age(now)
		used += n.Total.bytes()
		for _, q := range n.queues {
			if q.Series == nil {
				continue
			}
			if q.Series.age(now) {
				q.Series = nil
				continue
			}
			list = append(list, named{q, q.Series.bytes()})
			used += q.Series.bytes()
		}
	}

	h.dropped = 0
	slices.SortFunc(list, func(a, b named) int { return cmp.Compare(a.queue.Series.active, b.queue.Series.active) })
	for _, l := range list {
		if used <= h.cfg.Memory {
			break
		}
		used -= l.bytes
		l.queue.Series = nil
		h.dropped++
	}
}

// Quantile returns a percentile of a histogram, NaN without a count. Inside a bucket it takes even distances.
func Quantile(q float64, counts []float32, bounds []time.Duration) float64 {
	total := 0.0
	for _, n := range counts {
		total += float64(n)
	}
	if total <= 0 {
		return math.NaN()
	}
	rank, low := q*total, 0.0
	for i, n := range counts[:len(bounds)] {
		high := bounds[i].Seconds()
		if rank <= float64(n) {
			return low + (high-low)*rank/float64(n)
		}
		rank -= float64(n)
		low = high
	}
	return low
}
