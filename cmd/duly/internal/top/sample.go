package top

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
)

// Sampler asks an engine for the stats of a namespace's queues.
type Sampler struct {
	Engine    duly.Inspector
	Namespace string
	Clock     clock.Clock
	// Filter, if set, chooses the queues that are asked about, one by one. Nil:
	// the engine is asked about all of them together.
	Filter func(queue string) bool
}

// Sample is what the queues were at one moment.
type Sample struct {
	At     time.Duration // monotonic
	Queues []Queue       // by name
}

// Queue is one queue of a sample.
type Queue struct {
	Name  string
	Stats duly.Stats
}

// atOnce is how many queues are asked about at a time.
const atOnce = 8

// Take asks about the queues. The first error ends it.
func (s *Sampler) Take(ctx context.Context) (sample *Sample, err error) {
	sample = &Sample{}
	if s.Filter == nil {
		sample.Queues, err = s.survey(ctx)
	} else if sample.Queues, err = s.chosen(ctx); err == nil {
		err = s.ask(ctx, sample.Queues)
	}
	if err != nil {
		return nil, err
	}
	slices.SortFunc(sample.Queues, func(a, b Queue) int { return strings.Compare(a.Name, b.Name) })
	sample.At = s.Clock.Mono()
	return sample, nil
}

// survey is all queues with their stats.
func (s *Sampler) survey(ctx context.Context) (queues []Queue, err error) {
	all := duly.SurveyorOf(s.Engine)
	for p := (duly.PageParams{Limit: duly.MaxBatch}); ; {
		page, err := all.Survey(ctx, s.Namespace, p)
		if err != nil {
			return nil, err
		}
		for i := range page.Queues {
			q := &page.Queues[i]
			if q.Err != nil {
				return nil, q.Err
			}
			queues = append(queues, Queue{q.Name, q.Stats})
		}
		if p.Cursor = page.Next; p.Cursor == "" {
			return queues, nil
		}
	}
}

// chosen is the queues that the filter chooses, still without stats.
func (s *Sampler) chosen(ctx context.Context) (queues []Queue, err error) {
	for p := (duly.PageParams{Limit: duly.MaxBatch}); ; {
		names, err := s.Engine.Queues(ctx, s.Namespace, p)
		if err != nil {
			return nil, err
		}
		for _, name := range names.Names {
			if s.Filter(name) {
				queues = append(queues, Queue{Name: name})
			}
		}
		if p.Cursor = names.Next; p.Cursor == "" {
			return queues, nil
		}
	}
}

// ask fills in the stats; the first error ends it.
func (s *Sampler) ask(ctx context.Context, queues []Queue) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	slots := make(chan struct{}, atOnce)
	var asking sync.WaitGroup
	for i := range queues {
		slots <- struct{}{}
		asking.Go(func() {
			defer func() { <-slots }()
			if ctx.Err() != nil {
				return
			}
			q := &queues[i]
			var err error
			if q.Stats, err = s.Engine.Stats(ctx, duly.QueueRef{Namespace: s.Namespace, Name: q.Name}); err != nil {
				cancel(err)
			}
		})
	}
	asking.Wait()
	return context.Cause(ctx)
}
