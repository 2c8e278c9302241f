package contract

import (
	"context"

	"github.com/dulymq/duly"
)

// Surveyor is implemented by engines that tell of many queues with few requests.
// [SurveyorOf] makes one of every engine.
type Surveyor interface {
	// Survey lists a namespace's queues by name, each with what Stats tells of
	// it. A queue of which that can't be told has an error, and takes no other
	// with it. It waits less patiently than Stats: what does not answer at once
	// is [duly.ErrUnavailable].
	Survey(ctx context.Context, namespace string, p duly.PageParams) (SurveyPage, error)
}

// SurveyPage is a page of queues. Only an empty Next is the end: a page may be
// empty and still have one.
type SurveyPage struct {
	Queues []QueueStats
	Next   string
}

// QueueStats is one queue of a survey.
type QueueStats struct {
	Name  string
	Stats duly.Stats
	// Throttle is set whenever Err is nil.
	Throttle Throttle
	// Err is why there are no Stats.
	Err error
}

// Throttle is the part of a queue's configuration that holds ready jobs back.
// None is a bound that is not set.
type Throttle struct {
	Paused    bool
	MaxLeased int
	Rate      duly.Rate
}

// ThrottleOf returns the part of c that holds ready jobs back.
func ThrottleOf(c duly.QueueConfig) Throttle {
	return Throttle{Paused: c.Paused, MaxLeased: c.MaxLeased, Rate: c.Rate}
}

// SurveyorOf is the engine itself where it is a Surveyor, else one that asks it
// for one queue after the other.
func SurveyorOf(e Inspector) Surveyor {
	if s, ok := e.(Surveyor); ok {
		return s
	}
	return oneByOne{e}
}

type oneByOne struct{ engine Inspector }

// Survey implements Surveyor.
func (o oneByOne) Survey(ctx context.Context, namespace string, p duly.PageParams) (page SurveyPage, err error) {
	names, err := o.engine.Queues(ctx, namespace, p)
	if err != nil {
		return page, err
	}
	page = SurveyPage{Queues: make([]QueueStats, len(names.Names)), Next: names.Next}
	for i, name := range names.Names {
		page.Queues[i] = ReadQueueStats(ctx, o.engine, duly.QueueRef{Namespace: namespace, Name: name})
	}
	return page, nil
}

// ReadQueueStats reads one queue by a call of Stats and one of Config.
func ReadQueueStats(ctx context.Context, e Inspector, ref duly.QueueRef) QueueStats {
	q := QueueStats{Name: ref.Name}
	var cfg duly.QueueConfig

	if q.Stats, q.Err = e.Stats(ctx, ref); q.Err == nil {
		cfg, q.Err = e.Config(ctx, ref)
	}
	if q.Err != nil {
		q.Stats = duly.Stats{}
		return q
	}
	q.Throttle = ThrottleOf(cfg)
	return q
}
