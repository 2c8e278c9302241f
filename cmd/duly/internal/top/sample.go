package top

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/wire"
)

// Sampler asks an engine for the stats of a namespace's queues.
type Sampler struct {
	Engine    duly.Inspector
	Namespace string
	Clock     clock.Clock
	// Filter, if set, chooses the queues that are asked about, one by one. Nil:
	// the engine is asked about all of them together.
	Filter func(queue string) bool
	// Groups are asked about beside the queues that Filter chooses: the list of queues
	// lacks them. One that does not exist is left out.
	Groups []string
	// Hosts, if set, returns the hosts that a server sends the jobs of push queues to.
	Hosts func(ctx context.Context) ([]wire.PushHost, error)
}

// Sample is what the queues were at one moment.
type Sample struct {
	At     time.Duration // monotonic
	Queues []Queue       // by name
	Hosts  []wire.PushHost
	// Untold is why some queues are lacking, and Lacking how many; nil and 0
	// where none is.
	Untold  error
	Lacking int
}

// Queue is one queue of a sample.
type Queue struct {
	Name     string
	Stats    duly.Stats
	Throttle duly.Throttle
}

// atOnce is how many queues are asked about at a time.
const atOnce = 8

// Take asks about the queues. One that can't be told of takes no other with it;
// where none can be told of, that is the error.
func (s *Sampler) Take(ctx context.Context) (*Sample, error) {
	take := s.survey
	if s.Filter != nil {
		take = s.ask
	}
	sample := &Sample{}
	if err := take(ctx, sample); err != nil {
		return nil, err
	}
	if len(sample.Queues) == 0 && sample.Untold != nil {
		return nil, sample.Untold
	}
	if err := s.hosts(ctx, sample); err != nil {
		return nil, err
	}
	slices.SortFunc(sample.Queues, func(a, b Queue) int { return strings.Compare(a.Name, b.Name) })
	sample.At = s.Clock.Mono()
	return sample, nil
}

// hosts adds the hosts of HTTP push. A server may have none, or may not show them to
// this caller.
func (s *Sampler) hosts(ctx context.Context, into *Sample) error {
	if s.Hosts == nil {
		return nil
	}
	hosts, err := s.Hosts(ctx)
	switch duly.CodeOf(err) {
	case duly.CodeNotFound, duly.CodeUnsupported, duly.CodeForbidden:
		return nil
	}
	into.Hosts = hosts
	return err
}

// Has reports whether a queue is in the sample.
func (s *Sample) Has(name string) bool {
	return slices.ContainsFunc(s.Queues, func(q Queue) bool { return q.Name == name })
}

// add takes a queue, or why it can't be told of.
func (s *Sample) add(q *duly.QueueStats) {
	if q.Err != nil {
		s.Lacking++
		s.Untold = errors.Join(s.Untold, q.Err)
		return
	}
	s.Queues = append(s.Queues, Queue{q.Name, q.Stats, q.Throttle})
}

// survey is all queues with their stats.
func (s *Sampler) survey(ctx context.Context, into *Sample) error {
	all := duly.SurveyorOf(s.Engine)
	for p := (duly.PageParams{Limit: duly.MaxBatch}); ; {
		page, err := all.Survey(ctx, s.Namespace, p)
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		for i := range page.Queues {
			into.add(&page.Queues[i])
		}
		if p.Cursor = page.Next; p.Cursor == "" {
			return nil
		}
	}
}

// chosen names the queues that the filter chooses, and the groups.
func (s *Sampler) chosen(ctx context.Context) (chosen []string, err error) {
	for p := (duly.PageParams{Limit: duly.MaxBatch}); ; {
		names, err := s.Engine.Queues(ctx, s.Namespace, p)
		if err != nil {
			return nil, err
		}
		for _, name := range names.Names {
			if s.Filter(name) {
				chosen = append(chosen, name)
			}
		}
		if p.Cursor = names.Next; p.Cursor == "" {
			return append(chosen, s.Groups...), nil
		}
	}
}

// ask is the chosen queues with their stats, a few asked about at once.
func (s *Sampler) ask(ctx context.Context, into *Sample) error {
	names, err := s.chosen(ctx)
	if err != nil {
		return err
	}
	queues := make([]duly.QueueStats, len(names))
	slots := make(chan struct{}, atOnce)
	var asking sync.WaitGroup
	for i, name := range names {
		slots <- struct{}{}
		asking.Go(func() {
			queues[i] = duly.ReadQueueStats(ctx, s.Engine, duly.QueueRef{Namespace: s.Namespace, Name: name})
			<-slots
		})
	}
	asking.Wait()
	for i := range queues {
		if !errors.Is(queues[i].Err, duly.ErrNotFound) {
			into.add(&queues[i])
		}
	}
	return ctx.Err()
}
