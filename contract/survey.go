package contract

import (
	"context"

	"github.com/dulymq/duly"
)

// Surveyor is implemented by engines that read many queues with few requests. [SurveyorOf] returns
// a Surveyor for every engine.
type Surveyor interface {
	// Survey lists the queues of a namespace by name, each with its Stats. A queue whose Stats
	// failed has an error, which does not affect the others. Survey waits for a shorter time than
	// Stats: if the store does not answer soon, the error is [duly.ErrUnavailable].
	Survey(ctx context.Context, namespace string, p duly.PageParams) (SurveyPage, error)
}

// SurveyPage is a page of queues. The list ends only when Next is empty. A page without queues may
// have a Next.
type SurveyPage struct {
	Queues []QueueStats
	Next   string
}

// QueueStats is one queue of a survey.
type QueueStats struct {
	Name  string
	Stats duly.Stats
	// Throttle is set if Err is nil.
	Throttle Throttle
	// Err is the error of reading the Stats.
	Err error
}

// Throttle is the part of a queue's configuration that delays ready jobs. [duly.None] means no limit.
type Throttle struct {
	Paused    bool
	MaxLeased int
	Rate      duly.Rate
}

// ThrottleOf returns the part of c that delays ready jobs.
func ThrottleOf(c duly.QueueConfig) Throttle {
	return Throttle{Paused: c.Paused, MaxLeased: c.MaxLeased, Rate: c.Rate}
}

// SurveyorOf returns the engine itself if it is a Surveyor. Otherwise it returns a Surveyor that
// reads one queue after the other.
func SurveyorOf(e Inspector) Surveyor {
	if s, ok := e.(Surveyor); ok {
		return s
	}
	return oneByOne{e}
}

// oneByOne is a Surveyor for an engine that has no Survey.
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

// ReadQueueStats reads one queue by a call to Stats and one to Config.
func ReadQueueStats(ctx context.Context, e Inspector, ref duly.QueueRef) QueueStats {
	q := QueueStats{Name: ref.Name}
	var cfg duly.QueueConfig

	if q.Stats, q.Err = e.Stats(ctx, ref); q.Err == nil {
		cfg, q.Err = e.Config(ctx, ref)
	}
	if q.Err != nil {
		// An entry with an error must not look like a queue that was read.
		q.Stats = duly.Stats{}
		return q
	}
	q.Throttle = ThrottleOf(cfg)
	return q
}
