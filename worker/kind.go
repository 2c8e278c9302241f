package worker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// HandleKind adds the handler of one kind of jobs in a queue or a group. [duly.PushKind] pushes
// such jobs: the kind is that of T, and the body is a T as JSON. A body that is not the JSON of T
// buries the job, as with [JSON].
//
// All kinds of a queue share one place in the order of queues and one [Weight]. The options Weight
// and [From] belong to the queue, so only one of the calls may have them. [Timeout] and [With]
// belong to the kind. [Worker.Handle] on the same queue handles the jobs without a kind and of
// unknown kinds. Without Handle, such a job is a failed try and not a dead job, because a newer
// worker may know its kind.
//
// Run returns an error if a kind is bad, if its method Kind panics on the zero value, or if two
// handlers of a queue have the same kind.
func HandleKind[T duly.Kinder](
	w *Worker, queue string, h func(ctx context.Context, job *Job[T]) error, opts ...HandlerOption,
) {
	r := &registration{queue: queue, body: reflect.TypeFor[T]()}
	if h != nil {
		r.handler = JSON(h)
	}
	r.kind, r.kindErr = kindOf[T]()
	w.add("HandleKind", r, opts)
}

// kindOf returns the kind of a type. The method is the user's code, and a panic in it must
// not keep Run from reporting every fault.
func kindOf[T duly.Kinder]() (kind string, err error) {
	defer func() {
		if value := recover(); value != nil {
			err = contract.Invalid("kind",
				"is unknown, its method panics on the zero value: %v; return a constant", value)
		}
	}()
	var zero T
	kind = zero.Kind()
	return kind, duly.ValidateKind(kind)
}

// validateKinds adds the faults of the kinds of one queue.
func validateKinds(f *contract.BadFields, registrations []*registration) {
	byKind := map[string]*registration{}
	for _, r := range registrations {
		if r.body == nil {
			continue
		}
		var e *duly.Error
		if errors.As(r.kindErr, &e) {
			f.Add("kind", "of %s in queue %s %s", r.body, r.queue, e.Fields[0].Problem)
			continue
		}
		if first := byKind[r.kind]; first != nil {
			f.Add("kind",
				"%s has two handlers in queue %s, of %s and %s; remove one, or give the types different kinds",
				r.kind, r.queue, first.body, r.body)
		}
		byKind[r.kind] = r
	}
}

// unknownKind returns the handler of jobs without a kind or of unknown kinds, for a queue that has
// only handlers of kinds.
func unknownKind(kinds map[string]*jobHandler) HandlerFunc {
	known := strings.Join(slices.Sorted(maps.Keys(kinds)), ", ")
	return func(_ context.Context, d *Delivery) error {
		kind := d.Kind()
		switch {
		case kind == "":
			return fmt.Errorf("no kind; this worker handles %s", known)
		case duly.ValidateKind(kind) != nil || strings.Contains(kind, contract.TokenPrefix):
			// Any producer can set the header, so the text may be long, or contain a secret.
			kind = contract.Quoted(kind)
		}
		return fmt.Errorf("unknown kind %s; this worker handles %s", kind, known)
	}
}
