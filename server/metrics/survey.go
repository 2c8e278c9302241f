package metrics

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

const (
	// surveyTimeout is the longest duration of one survey. Prometheus gives up a scrape after 10 s.
	surveyTimeout = 5 * time.Second
	// maxConcurrent bounds the namespaces that a survey reads at the same time.
	maxConcurrent = 8
	// minAge is the minimum time for which a snapshot is reused.
	minAge = time.Second
	// ageFactor is how many times its own duration a snapshot is reused.
	ageFactor = 10
)

// SurveyConfig configures a Survey. Engine, Registry and Clock must be set.
type SurveyConfig struct {
	Engine   contract.Inspector
	Registry contract.Registry
	Clock    duly.Clock
	// Namespaces, if set, replace the list of the registry. An error of one list does
	// not affect the others, and an error in a namespace does not affect the other
	// namespaces of its list.
	Namespaces []func(context.Context, duly.PageParams) (duly.NamePage, error)
	// Queues is the number of queues, and the number of topics, that have separate series. Default
	// DefaultQueues.
	Queues int
	// Topics, if set, are read too.
	Topics contract.Topics
}

// Survey reads the statistics of all queues of an engine on demand.
type Survey struct {
	cfg      SurveyConfig
	surveyor contract.Surveyor

	mu     sync.Mutex // held while the queues are read
	last   *Snapshot
	readAt time.Duration // monotonic time at which last was complete
	next   time.Duration // monotonic time from which the queues may be read again
}

// NewSurvey returns a Survey that has not read anything yet.
func NewSurvey(cfg SurveyConfig) *Survey {
	if cfg.Queues <= 0 {
		cfg.Queues = DefaultQueues
	}
	if cfg.Namespaces == nil {
		cfg.Namespaces = []func(context.Context, duly.PageParams) (duly.NamePage, error){cfg.Registry.Namespaces}
	}
	return &Survey{cfg: cfg, surveyor: contract.SurveyorOf(cfg.Engine)}
}

// Snapshot is the result of one survey.
type Snapshot struct {
	// Queues are the first queues of each namespace, by name. The namespaces share the
	// series fairly.
	Queues []QueueStats
	// Other is the sum of all queues without separate series, and OtherQueues their number.
	Other       duly.Stats
	OtherQueues int
	// Topics are the first topics of each namespace, by name.
	Topics []TopicStats
	// Complete reports whether every queue was read. Other does not contain queues that were not
	// read.
	Complete bool
	// Took is the duration of the survey.
	Took time.Duration
}

// QueueStats has the statistics of one queue.
type QueueStats struct {
	Queue  duly.QueueRef
	Stats  duly.Stats
	Paused bool
	Rated  bool // whether the queue has a rate
}

// Snapshot reads all queues, or returns the last snapshot if it is recent.
func (s *Survey) Snapshot(ctx context.Context) *Snapshot {
	snapshot, _ := s.snapshot(ctx)
	return snapshot
}

func (s *Survey) snapshot(ctx context.Context) (snapshot *Snapshot, age time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	begin := s.cfg.Clock.Mono()
	// Several scrapers and the dashboard share one survey.
	if s.last != nil && begin < s.next {
		return s.last, begin - s.readAt
	}

	// A snapshot in part is better than a scrape without an answer.
	bounded, cancel := context.WithTimeout(ctx, surveyTimeout)
	defer cancel()
	snapshot = s.read(bounded)
	end := s.cfg.Clock.Mono()
	snapshot.Took = end - begin

	// A caller that left has interrupted the survey. Other callers must not get its result.
	if ctx.Err() == nil {
		s.last, s.readAt, s.next = snapshot, end, end+max(minAge, ageFactor*snapshot.Took)
	}
	return snapshot, 0
}

// read reads every queue. It reads several namespaces at the same time, so a namespace
// that does not respond does not delay the others.
func (s *Survey) read(ctx context.Context) *Snapshot {
	found := make(chan *namespaceStats)
	var reading sync.WaitGroup
	for range maxConcurrent {
		reading.Go(func() {
			for n := range found {
				n.readQueues(ctx, s.surveyor, s.cfg.Queues)
				n.readTopics(ctx, s.cfg.Topics, s.cfg.Queues)
			}
		})
	}

	var all []*namespaceStats
	complete := s.eachNamespace(ctx, func(namespace string) error {
		n := &namespaceStats{namespace: namespace}
		select {
		case found <- n:
			all = append(all, n)
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	close(found)
	reading.Wait()
	return s.combine(all, complete)
}

// combine returns the snapshot of all namespaces, which share the series.
func (s *Survey) combine(all []*namespaceStats, complete bool) *Snapshot {
	snapshot := &Snapshot{Complete: complete}
	wanted := make([]int, len(all))
	for i, n := range all {
		wanted[i] = len(n.first)
	}
	// A namespace with many queues must not take the series of other namespaces.
	for i, own := range divide(s.cfg.Queues, wanted) {
		snapshot.add(all[i], own)
	}

	for i, n := range all {
		wanted[i] = len(n.topics)
	}
	for i, own := range divide(s.cfg.Queues, wanted) {
		snapshot.Topics = append(snapshot.Topics, all[i].topics[:own]...)
	}
	return snapshot
}

// eachNamespace calls f once for each namespace. It reports whether it found all.
func (s *Survey) eachNamespace(ctx context.Context, f func(namespace string) error) (complete bool) {
	seen, complete := map[string]bool{}, true
	for _, list := range s.cfg.Namespaces {
		err := protect(func() error {
			for p := (duly.PageParams{Limit: duly.MaxBatch}); ; {
				names, err := list(ctx, p)
				if err != nil {
					return err
				}
				for _, namespace := range names.Names {
					// A namespace that moves is in the lists of two pools.
					if seen[namespace] {
						continue
					}
					seen[namespace] = true
					if err := f(namespace); err != nil {
						return err
					}
				}

				if p.Cursor = names.Next; p.Cursor == "" {
					return nil
				}
				if err := ctx.Err(); err != nil {
					return err
				}
			}
		})
		complete = complete && err == nil
	}
	return complete
}

// namespaceStats has the statistics of one namespace: those of its first queues, and the sum of the
// remaining ones.
type namespaceStats struct {
	namespace  string
	first      []contract.QueueStats
	sum        duly.Stats
	others     int
	topics     []TopicStats
	incomplete bool
}

// readTopics reads the first topics of the namespace.
func (n *namespaceStats) readTopics(ctx context.Context, topics contract.Topics, maximum int) {
	if topics == nil {
		return
	}
	var complete bool
	n.topics, complete = readTopics(ctx, topics, n.namespace, maximum)
	n.incomplete = n.incomplete || !complete
}

// readQueues reads the queues of the namespace page by page.
func (n *namespaceStats) readQueues(ctx context.Context, from contract.Surveyor, maximum int) {
	// A queue whose statistics can't be read still counts as one of the first; see add.
	for p := (duly.PageParams{Limit: duly.MaxBatch}); ; {
		var page contract.SurveyPage
		err := protect(func() (err error) {
			page, err = from.Survey(ctx, n.namespace, p)
			return err
		})
		if err != nil {
			n.incomplete = true
			return
		}

		for i := range page.Queues {
			q := &page.Queues[i]
			n.incomplete = n.incomplete || q.Err != nil
			switch {
			case len(n.first) < maximum:
				n.first = append(n.first, *q)
			case q.Err == nil:
				n.others++
				sumQueue(&n.sum, q)
			}
		}
		if p.Cursor = page.Next; p.Cursor == "" {
			return
		}
	}
}

// add adds a namespace. Its first `own` queues have separate series. A queue that could not be read
// keeps its series, so that no other queue gets it for a short time.
func (s *Snapshot) add(n *namespaceStats, own int) {
	for i := range n.first {
		q := &n.first[i]
		switch {
		case q.Err != nil:
		case i < own:
			ref := duly.QueueRef{Namespace: n.namespace, Name: q.Name}
			s.Queues = append(s.Queues, QueueStats{ref, q.Stats, q.Throttle.Paused, q.Throttle.Rate.Limited()})
		default:
			s.OtherQueues++
			sumQueue(&s.Other, q)
		}
	}

	s.OtherQueues += n.others
	sum(&s.Other, &n.sum)
	s.Complete = s.Complete && !n.incomplete
}

// protect turns a panic into an error. A survey runs in goroutines of its own.
func protect(f func() error) (err error) {
	defer func() {
		if recover() != nil {
			err = duly.ErrInternal
		}
	}()
	return f()
}

// sumQueue adds the statistics of a queue. The ready jobs of a paused queue are not
// late.
func sumQueue(to *duly.Stats, q *contract.QueueStats) {
	s := q.Stats
	if q.Throttle.Paused {
		s.OldestReady = 0
	}
	sum(to, &s)
}

// sum adds sizes and counters. It keeps the age of the oldest ready job, the earliest tick, the latest
// closing and the lowest factor.
func sum(to, s *duly.Stats) {
	for _, state := range duly.States {
		*to.Sizes.Of(state) += *s.Sizes.Of(state)
	}
	for _, c := range queueCounters {
		*c.of(&to.Counters) += *c.of(&s.Counters)
	}
	to.OldestReady = max(to.OldestReady, s.OldestReady)

	to.Schedules += s.Schedules
	if to.NextTick.IsZero() || !s.NextTick.IsZero() && s.NextTick.Before(to.NextTick) {
		to.NextTick = s.NextTick
	}

	to.Closing = contract.LaterClosing(to.Closing, s.Closing)
	if s.Factor != 0 && (to.Factor == 0 || s.Factor < to.Factor) {
		to.Factor = s.Factor
	}
	to.Probing += s.Probing
}

// Describe implements prometheus.Collector.
func (s *Survey) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*definition{
		queueJobs, queueOldest, queuePaused, queueSchedules, queueOverdue, queueClosed, queueFactor, queueProbing,
		queueTokens, queues, scrapeComplete, scrapeDuration, scrapeAge,
		groupLag, groupOldest, groupAtBound, topicMessages, topicBytes, topicDelayed,
	} {
		ch <- d.desc
	}

	for _, c := range queueCounters {
		ch <- c.desc
	}
	for _, c := range groupCounters {
		ch <- c.desc
	}
	for _, c := range topicCounters {
		ch <- c.desc
	}
}

// Collect implements prometheus.Collector.
func (s *Survey) Collect(ch chan<- prometheus.Metric) {
	snapshot, age := s.snapshot(context.Background())
	for i := range snapshot.Queues {
		q := &snapshot.Queues[i]
		s.collectQueue(ch, q.Queue, &q.Stats)
		gaugeValue(ch, queuePaused, boolValue(q.Paused), q.Queue.Namespace, q.Queue.Name)
		if q.Rated && q.Stats.Tokens != duly.None { // the rate may be newer than the stats
			gaugeValue(ch, queueTokens, float64(q.Stats.Tokens), q.Queue.Namespace, q.Queue.Name)
		}
		if q.Stats.Group != nil {
			collectGroup(ch, q.Queue, q.Stats.Group)
		}
	}
	for i := range snapshot.Topics {
		collectTopic(ch, &snapshot.Topics[i])
	}

	// If the snapshot is incomplete, the sum would be too small.
	if snapshot.Complete && snapshot.OtherQueues > 0 {
		s.collectQueue(ch, duly.QueueRef{Namespace: otherName, Name: otherName}, &snapshot.Other)
	}
	gaugeValue(ch, queues, float64(len(snapshot.Queues)+snapshot.OtherQueues))
	gaugeValue(ch, scrapeComplete, boolValue(snapshot.Complete))
	gaugeValue(ch, scrapeDuration, snapshot.Took.Seconds())
	gaugeValue(ch, scrapeAge, age.Seconds())
}

// boolValue returns 1 for true and 0 for false.
func boolValue(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func (s *Survey) collectQueue(ch chan<- prometheus.Metric, q duly.QueueRef, stats *duly.Stats) {
	for _, state := range duly.States {
		gaugeValue(ch, queueJobs, float64(*stats.Sizes.Of(state)), q.Namespace, q.Name, state.String())
	}
	gaugeValue(ch, queueOldest, stats.OldestReady.Seconds(), q.Namespace, q.Name)
	for _, c := range queueCounters {
		counterValue(ch, c.definition, *c.of(&stats.Counters), q.Namespace, q.Name)
	}

	s.collectLimits(ch, q, stats)

	// Most queues have no schedules, and their series would be only zeros.
	if stats.Schedules == 0 {
		return
	}
	gaugeValue(ch, queueSchedules, float64(stats.Schedules), q.Namespace, q.Name)
	overdue := time.Duration(0)
	if !stats.NextTick.IsZero() {
		overdue = max(0, s.cfg.Clock.Now().Sub(stats.NextTick))
	}
	gaugeValue(ch, queueOverdue, overdue.Seconds(), q.Namespace, q.Name)
}

// collectLimits collects the state of a queue that closes or adapts its limits. Most queues do neither.
func (s *Survey) collectLimits(ch chan<- prometheus.Metric, q duly.QueueRef, stats *duly.Stats) {
	if closed := stats.Closing.Until.Sub(s.cfg.Clock.Now()); closed > 0 || stats.Counters.Slowed > 0 || stats.Factor > 0 {
		gaugeValue(ch, queueClosed, max(0, closed).Seconds(), q.Namespace, q.Name)
	}
	if stats.Factor > 0 {
		gaugeValue(ch, queueFactor, stats.Factor, q.Namespace, q.Name)
		gaugeValue(ch, queueProbing, float64(stats.Probing), q.Namespace, q.Name)
	}
}
