package contract

import (
	"context"
	"errors"

	"github.com/dulymq/duly"
)

// MaxFound is the maximum number of jobs that a Find returns.
const MaxFound = 100

// Finder is implemented by engines that look for a job in many queues with few requests.
// [FinderOf] returns a Finder for every engine.
type Finder interface {
	// Find returns the jobs with an ID in all queues of a namespace, each as Get returns it. It does
	// not search the groups of topics. It returns [duly.ErrNotFound] if no queue has the job.
	Find(ctx context.Context, namespace, id string) (Found, error)
}

// Found is the result of a Find.
type Found struct {
	// Jobs are sorted by the names of their queues. There are at most [MaxFound]. Their bodies and
	// results have at most [duly.MaxBatchBytes], unless there is only one job.
	Jobs []duly.JobInfo
	// More reports whether further queues have a job with the ID.
	More bool
}

// Add adds a job and reports whether it fits. If the job does not fit, Add sets More.
func (f *Found) Add(j duly.JobInfo) bool {
	f.More = !f.fits(len(j.Body) + len(j.Result))
	if !f.More {
		f.Jobs = append(f.Jobs, j)
	}
	return !f.More
}

func (f *Found) fits(bytes int) bool {
	var room JobRoom
	for i := range f.Jobs {
		room.Take(len(f.Jobs[i].Body) + len(f.Jobs[i].Result))
	}
	return len(f.Jobs) < MaxFound && room.Take(bytes)
}

// OrNotFound returns the result of a Find. The error is [duly.ErrNotFound] if there are no jobs.
func (f *Found) OrNotFound(namespace, id string) (Found, error) {
	if len(f.Jobs) == 0 {
		return Found{}, NowhereFound(namespace, id)
	}
	return *f, nil
}

// ValidateFind returns [duly.ErrInvalid] with every bad parameter.
func ValidateFind(namespace, id string) error {
	var f BadFields
	f.Take(ValidateNamespace(namespace))
	f.Take(ValidateID(id))
	return f.Err()
}

// NowhereFound returns a [duly.ErrNotFound] for a job that no queue of a namespace has.
func NowhereFound(namespace, id string) *duly.Error {
	return Errorf(
		duly.CodeNotFound, "no job %s in the queues of namespace %s", quoted(id, duly.MaxID),
		withoutSecret(NamespaceOr(namespace)),
	)
}

// FinderOf returns the engine itself if it is a Finder. Otherwise it returns a Finder that asks one
// queue after the other.
func FinderOf(e Inspector) Finder {
	if f, ok := e.(Finder); ok {
		return f
	}
	return queueByQueue{e}
}

// queueByQueue is a Finder for an engine that has no Find.
type queueByQueue struct{ engine Inspector }

// Find implements Finder.
func (o queueByQueue) Find(ctx context.Context, namespace, id string) (found Found, err error) {
	if err := ValidateFind(namespace, id); err != nil {
		return found, err
	}

	for p := (duly.PageParams{Limit: duly.MaxBatch}); ; {
		page, err := o.engine.Queues(ctx, namespace, p)
		if err != nil {
			return Found{}, err
		}

		for _, name := range page.Names {
			j, err := o.engine.Get(ctx, duly.QueueRef{Namespace: namespace, Name: name}, id)
			switch {
			case errors.Is(err, duly.ErrNotFound):
			case err != nil:
				return Found{}, err
			case !found.Add(j):
				return found, nil
			}
		}

		if p.Cursor = page.Next; p.Cursor == "" {
			return found.OrNotFound(namespace, id)
		}
	}
}
