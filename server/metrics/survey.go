package metrics

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
)

const (
	// lookTime bounds one look: who asks has less patience than 10 s.
	lookTime = 5 * time.Second
	// lookAtOnce is how many namespaces are looked at at a time.
	lookAtOnce = 8
	// leastAge is for how long a look is used again at least.
	leastAge = time.Second
	// lookShare is the part of the time that looking may take: one of so many.
	lookShare = 10
)

// SurveyConfig says what to look at. Engine, Registry and Clock must be set.
type SurveyConfig struct {
	Engine   duly.Inspector
	Registry duly.Registry
	Clock    clock.Clock
	// Namespaces, if set, are lists instead of the registry's: one that fails
	// takes its own namespaces with it and no others, and a namespace whose
	// queues can't be listed takes no other.
	Namespaces []func(context.Context, duly.PageParams) (duly.NamePage, error)
	// Queues is how many queues have series of their own. Default
	// DefaultQueues. As many topics have some.
	Queues int
	// Topics, if set, are looked at too.
	Topics duly.Topics
}

// Survey looks at all queues of an engine when somebody asks.
type Survey struct {
	cfg      SurveyConfig
	surveyor duly.Surveyor

	mu   sync.Mutex // held while somebody looks
	last *Sight
	next time.Duration // when there may be another look, monotonic
	at   time.Duration // when the last one has ended
}

// NewSurvey returns a Survey that has not looked yet.
func NewSurvey(cfg SurveyConfig) *Survey {
	if cfg.Queues <= 0 {
		cfg.Queues = DefaultQueues
	}
	if cfg.Namespaces == nil {
		cfg.Namespaces = []func(context.Context, duly.PageParams) (duly.NamePage, error){cfg.Registry.Namespaces}
	}
	return &Survey{cfg: cfg, surveyor: duly.SurveyorOf(cfg.Engine)}
}

// Sight is what one look has seen.
type Sight struct {
	// Queues are the first ones of each namespace, by name. The namespaces share
	// the series fairly.
	Queues []QueueStats
	// Other is the sum of those beyond, and OtherQueues their number.
	Other       duly.Stats
	OtherQueues int
	// Topics are the first ones of each namespace, by name.
	Topics []TopicStats
	// Complete tells that nothing is missing. What is missing is in no sum.
	Complete bool
	// Took is how long it took.
	Took time.Duration
}

// QueueStats is one queue as it was seen.
type QueueStats struct {
	Queue  duly.QueueRef
	Stats  duly.Stats
	Paused bool
}

// Look tells what there is, from a moment ago where somebody has just looked.
func (s *Survey) Look(ctx context.Context) *Sight {
	sight, _ := s.look(ctx)
	return sight
}

func (s *Survey) look(ctx context.Context) (sight *Sight, age time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	begin := s.cfg.Clock.Mono()
	if s.last != nil && begin < s.next {
		return s.last, begin - s.at
	}
	bounded, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	sight = s.walk(bounded)
	end := s.cfg.Clock.Mono()
	if sight.Took = end - begin; ctx.Err() == nil { // else who has left cut it short, for himself alone
		s.last, s.at, s.next = sight, end, end+max(leastAge, lookShare*sight.Took)
	}
	return sight, 0
}

// walk looks at every queue: at several namespaces at a time, so that one that
// does not answer keeps no other back.
func (s *Survey) walk(ctx context.Context) *Sight {
	found := make(chan *region)
	var regions []*region
	var looking sync.WaitGroup
	for range lookAtOnce {
		looking.Go(func() {
			for r := range found {
				r.look(ctx, s.surveyor, s.cfg.Queues)
				r.lookAtTopics(ctx, s.cfg.Topics, s.cfg.Queues)
			}
		})
	}
	whole := s.each(ctx, func(namespace string) error {
		r := &region{namespace: namespace}
		select {
		case found <- r:
			regions = append(regions, r)
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	close(found)
	looking.Wait()
	sight := &Sight{Complete: whole}
	wanted := make([]int, len(regions))
	for i, r := range regions {
		wanted[i] = len(r.first)
	}
	for i, own := range share(s.cfg.Queues, wanted) {
		sight.add(regions[i], own)
	}
	for i, r := range regions {
		wanted[i] = len(r.topics)
	}
	for i, own := range share(s.cfg.Queues, wanted) {
		sight.Topics = append(sight.Topics, regions[i].topics[:min(own, len(regions[i].topics))]...)
	}
	return sight
}

// each finds all namespaces, each once; whole tells that it could.
func (s *Survey) each(ctx context.Context, f func(namespace string) error) (whole bool) {
	seen, whole := map[string]bool{}, true
	for _, list := range s.cfg.Namespaces {
		err := protect(func() error {
			for p := (duly.PageParams{Limit: duly.MaxBatch}); ; {
				names, err := list(ctx, p)
				if err != nil {
					return err
				}
				for _, namespace := range names.Names {
					if seen[namespace] { // it moves, and is in two lists
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
		whole = whole && err == nil
	}
	return whole
}

// region is what one namespace has: its first queues, and the sum of those
// beyond.
type region struct {
	namespace string
	first     []duly.QueueStats
	sum       duly.Stats
	summed    int
	topics    []TopicStats
	cut       bool // something is missing
}

// lookAtTopics looks at the namespace's first topics.
func (r *region) lookAtTopics(ctx context.Context, topics duly.Topics, most int) {
	if topics == nil {
		return
	}
	var whole bool
	r.topics, whole = topicsOf(ctx, topics, r.namespace, most)
	r.cut = r.cut || !whole
}

// look looks at the namespace's queues page by page.
func (r *region) look(ctx context.Context, from duly.Surveyor, most int) {
	for p := (duly.PageParams{Limit: duly.MaxBatch}); ; {
		var page duly.SurveyPage
		err := protect(func() (err error) {
			page, err = from.Survey(ctx, r.namespace, p)
			return err
		})
		if err != nil {
			r.cut = true
			return
		}
		for i := range page.Queues {
			q := &page.Queues[i]
			r.cut = r.cut || q.Err != nil
			switch {
			case len(r.first) < most:
				r.first = append(r.first, *q)
			case q.Err == nil:
				r.summed++
				sumQueue(&r.sum, q)
			}
		}
		if p.Cursor = page.Next; p.Cursor == "" {
			return
		}
	}
}

// add adds a namespace with that many queues that have series of their own. A
// queue that could not be looked at keeps its place, so that no other has its
// series for a while.
func (s *Sight) add(r *region, own int) {
	for i := range r.first {
		q := &r.first[i]
		switch {
		case q.Err != nil:
		case i < own:
			s.Queues = append(s.Queues, QueueStats{duly.QueueRef{Namespace: r.namespace, Name: q.Name}, q.Stats, q.Throttle.Paused})
		default:
			s.OtherQueues++
			sumQueue(&s.Other, q)
		}
	}
	s.OtherQueues += r.summed
	sum(&s.Other, &r.sum)
	s.Complete = s.Complete && !r.cut
}

// protect makes an error of a panic: these calls have goroutines of their own.
func protect(f func() error) (err error) {
	defer func() {
		if recover() != nil {
			err = duly.ErrInternal
		}
	}()
	return f()
}

// sumQueue adds a queue. The ready jobs of a paused one are not late.
func sumQueue(to *duly.Stats, q *duly.QueueStats) {
	s := q.Stats
	if q.Throttle.Paused {
		s.OldestReady = 0
	}
	sum(to, &s)
}

// sum adds what can be added, and keeps the oldest of the ready jobs.
func sum(to, s *duly.Stats) {
	for _, state := range duly.States {
		*to.Sizes.Of(state) += *s.Sizes.Of(state)
	}
	for _, c := range queueCounters {
		*c.of(&to.Counters) += *c.of(&s.Counters)
	}
	to.OldestReady = max(to.OldestReady, s.OldestReady)
}

// Describe implements prometheus.Collector.
func (s *Survey) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*defined{queueJobs, queueOldest, queuePaused, queues, scrapeComplete, scrapeDuration, scrapeAge} {
		ch <- d.desc
	}
	for _, d := range []*defined{groupLag, groupOldest, groupAtBound, topicMessages, topicBytes, topicDelayed} {
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
	sight, age := s.look(context.Background())
	for i := range sight.Queues {
		q := &sight.Queues[i]
		tellQueue(ch, q.Queue, &q.Stats)
		measure(ch, queuePaused, number(q.Paused), q.Queue.Namespace, q.Queue.Name)
		if q.Stats.Group != nil {
			tellGroup(ch, q.Queue, q.Stats.Group)
		}
	}
	for i := range sight.Topics {
		tellTopic(ch, &sight.Topics[i])
	}
	if sight.Complete && sight.OtherQueues > 0 { // else it would be a part of the sum
		tellQueue(ch, duly.QueueRef{Namespace: otherName, Name: otherName}, &sight.Other)
	}
	measure(ch, queues, float64(len(sight.Queues)+sight.OtherQueues))
	measure(ch, scrapeComplete, number(sight.Complete))
	measure(ch, scrapeDuration, sight.Took.Seconds())
	measure(ch, scrapeAge, age.Seconds())
}

// number returns 1 for true and 0 for false.
func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func tellQueue(ch chan<- prometheus.Metric, q duly.QueueRef, s *duly.Stats) {
	for _, state := range duly.States {
		measure(ch, queueJobs, float64(*s.Sizes.Of(state)), q.Namespace, q.Name, state.String())
	}
	measure(ch, queueOldest, s.OldestReady.Seconds(), q.Namespace, q.Name)
	for _, c := range queueCounters {
		count(ch, c.defined, *c.of(&s.Counters), q.Namespace, q.Name)
	}
}
