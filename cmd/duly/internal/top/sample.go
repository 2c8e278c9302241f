package top

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
)

// Sampler reads the stats of a namespace's queues from an engine.
type Sampler struct {
	Engine    contract.Inspector
	Namespace string
	Clock     clock.Clock
	// Filter, if set, selects queues, which are read one by one. If it is nil, all queues
	// are read together.
	Filter func(queue string) bool
	// Groups are read in addition to the queues of Filter, because the list of queues does
	// not contain groups. Groups that do not exist are left out.
	Groups []string
	// Hosts, if set, returns the hosts to which a server sends the jobs of push queues.
	Hosts func(ctx context.Context) ([]contract.PushHost, error)
}

// Sample holds the stats of queues at one time.
type Sample struct {
	At     time.Duration // on the monotonic clock
	Wall   time.Time     // the same time on the wall clock
	Queues []Queue       // sorted by name
	Hosts  []contract.PushHost
	// Failed has the errors of queues that could not be read. Missing is their number.
	Failed  error
	Missing int
}

// Queue is one queue of a sample.
type Queue struct {
	Name     string
	Stats    duly.Stats
	Throttle contract.Throttle
}

// concurrency is the number of queues that are read concurrently.
const concurrency = 8

// Take takes a sample. It leaves out queues that fail. It returns an error if all fail.
func (s *Sampler) Take(ctx context.Context) (*Sample, error) {
	read := s.readAll
	if s.Filter != nil {
		read = s.readEach
	}
	sample := &Sample{}
	if err := read(ctx, sample); err != nil {
		return nil, err
	}

	// A sample without any queue would look like an empty namespace.
	if len(sample.Queues) == 0 && sample.Failed != nil {
		return nil, sample.Failed
	}

	if err := s.readHosts(ctx, sample); err != nil {
		return nil, err
	}
	slices.SortFunc(sample.Queues, func(a, b Queue) int { return strings.Compare(a.Name, b.Name) })
	sample.At, sample.Wall = s.Clock.Mono(), s.Clock.Now()
	return sample, nil
}

// readHosts adds the hosts of HTTP push. A server may have none, or the token may not have
// the right to list them.
func (s *Sampler) readHosts(ctx context.Context, into *Sample) error {
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

// add adds a queue, or its error.
func (s *Sample) add(q *contract.QueueStats) {
	if q.Err != nil {
		s.Missing++
		s.Failed = errors.Join(s.Failed, q.Err)
		return
	}
	s.Queues = append(s.Queues, Queue{q.Name, q.Stats, q.Throttle})
}

// readAll reads all queues.
func (s *Sampler) readAll(ctx context.Context, into *Sample) error {
	surveyor := contract.SurveyorOf(s.Engine)
	for p := (duly.PageParams{Limit: duly.MaxBatch}); ; {
		page, err := surveyor.Survey(ctx, s.Namespace, p)
		// An interrupted survey may return errors of single queues, which would look like faults.
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

// selected returns the names of the queues that the filter selects, and of the groups.
func (s *Sampler) selected(ctx context.Context) (selected []string, err error) {
	for p := (duly.PageParams{Limit: duly.MaxBatch}); ; {
		names, err := s.Engine.Queues(ctx, s.Namespace, p)
		if err != nil {
			return nil, err
		}
		for _, name := range names.Names {
			if s.Filter(name) {
				selected = append(selected, name)
			}
		}
		if p.Cursor = names.Next; p.Cursor == "" {
			return append(selected, s.Groups...), nil
		}
	}
}

// readEach reads the selected queues, a few concurrently.
func (s *Sampler) readEach(ctx context.Context, into *Sample) error {
	names, err := s.selected(ctx)
	if err != nil {
		return err
	}

	queues := make([]contract.QueueStats, len(names))

	// The slots bound the calls in flight, because the filter may select many queues.
	slots := make(chan struct{}, concurrency)
	var wg sync.WaitGroup
	for i, name := range names {
		slots <- struct{}{}
		wg.Go(func() {
			queues[i] = contract.ReadQueueStats(ctx, s.Engine, duly.QueueRef{Namespace: s.Namespace, Name: name})
			<-slots
		})
	}
	wg.Wait()

	for i := range queues {
		// A queue or a group that was destroyed after the list was read is not a failure.
		if !errors.Is(queues[i].Err, duly.ErrNotFound) {
			into.add(&queues[i])
		}
	}
	return ctx.Err()
}
