package enginetest

import (
	"bytes"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dulymq/duly"
)

// must fails the test at once if an operation that has to succeed returned an error.
func (s *scene) must(what string, err error) {
	s.Helper()
	if err != nil {
		s.Fatalf("%s: %v", what, err)
	}
}

// same reports an error if two values differ.
func same[T comparable](s *scene, what string, got, want T) {
	s.Helper()
	if got != want {
		s.Errorf("%s is %v, want %v", what, got, want)
	}
}

// sameTime reports an error if two times differ.
func sameTime(s *scene, what string, got, want time.Time) {
	s.Helper()
	if !got.Equal(want) {
		s.Errorf("%s is %s, want %s (%s)", what, got, want, got.Sub(want))
	}
}

func (s *scene) sameIDs(what string, got, want []string) {
	s.Helper()
	if !slices.Equal(got, want) {
		s.Errorf("%s are %q, want %q", what, got, want)
	}
}

func idsOf(jobs []duly.JobInfo) []string {
	ids := make([]string, len(jobs))
	for i, j := range jobs {
		ids[i] = j.ID
	}
	return ids
}

func idsTaken(ds []duly.Delivery) []string {
	ids := make([]string, len(ds))
	for i, d := range ds {
		ids[i] = d.ID
	}
	return ids
}

// refused reports an error unless err has this code.
func (s *scene) refused(what string, err error, code duly.Code) {
	s.Helper()
	if got := duly.CodeOf(err); got != code {
		s.Errorf("%s is answered %q (%v), want %s", what, got, err, code)
	}
}

// lost reports an error unless err says that the receipt's lease is lost.
func (s *scene) lost(what string, err error) {
	s.Helper()
	s.refused(what, err, duly.CodeLeaseLost)

	// The code alone is not enough: callers compare with errors.Is.
	if !errors.Is(err, duly.ErrLeaseLost) {
		s.Errorf("%s: errors.Is(%v, ErrLeaseLost) is false, want true", what, err)
	}
}

// names reports an error unless err has this code and names the field together with a problem.
func (s *scene) names(what string, err error, code duly.Code, field string) {
	s.Helper()
	s.refused(what, err, code)
	var e *duly.Error
	if !errors.As(err, &e) {
		return
	}
	for _, f := range e.Fields {
		// The text must name the field too, because logs show nothing else.
		if f.Field == field && f.Problem != "" && strings.Contains(err.Error(), field) {
			return
		}
	}
	s.Errorf("%s: %v names the fields %+v, want %s", what, err, e.Fields, field)
}

// namesBound is like names, but for an invalid field. The message must also contain the field's
// bound.
func (s *scene) namesBound(what string, err error, field, bound string) {
	s.Helper()
	s.names(what, err, duly.CodeInvalid, field)
	if err != nil && !strings.Contains(err.Error(), bound) {
		s.Errorf("%s: error %q does not contain the limit %s", what, err, bound)
	}
}

// conflicts reports an error unless err is a conflict that names the job's current state.
func (s *scene) conflicts(what string, err error, state duly.State) {
	s.Helper()
	s.refused(what, err, duly.CodeConflict)
	var e *duly.Error
	if errors.As(err, &e) && e.State != state {
		s.Errorf("%s: the conflict names the state %s, want %s", what, e.State, state)
	}
}

// nothing fails the test if the queue has a job that can be delivered now.
func (s *scene) nothing(why string) {
	s.Helper()
	if ds := s.reserve(duly.MaxBatch); len(ds) > 0 {
		s.Fatalf("%s, but %q was delivered at %s", why, idsTaken(ds), s.now())
	}
}

// is reports an error unless Get returns the job in this state.
func (s *scene) is(id string, want duly.State) {
	s.Helper()
	if got := s.get(id).State; got != want {
		s.Errorf("job %q is %s, want %s", id, got, want)
	}
}

// gone reports an error if the job still exists.
func (s *scene) gone(id string) {
	s.Helper()

	// Get goes by the clock, so no step has to run before it.
	info, err := s.Engine.Get(s.ctx, s.ref(), id)
	if err == nil {
		s.Errorf("job %q still exists as %s, want not_found", id, info.State)
		return
	}
	s.refused("get of a job that is gone", err, duly.CodeNotFound)
}

// exists reports an error unless a push answers that the job already exists in this state.
func (s *scene) exists(j duly.Job, state duly.State) {
	s.Helper()
	r := s.try(j)
	if r.Err != nil || r.Status != duly.Exists || r.State != state || r.ID != j.ID {
		s.Errorf("push of %q is answered %+v, want exists %s", j.ID, r, state)
	}
}

// merges reports an error unless a push is merged into the job with this ID.
func (s *scene) merges(j duly.Job, into string) {
	s.Helper()
	r := s.try(j)
	if r.Err != nil || r.Status != duly.Merged || r.ID != into {
		s.Errorf("push is answered %s %q (%v), want merged into %q", r.Status, r.ID, r.Err, into)
	}
}

// takes reserves every job that is deliverable now. It fails unless they are exactly these, in
// this order.
func (s *scene) takes(ids ...string) []duly.Delivery {
	s.Helper()
	ds := s.takeAll()
	if got := idsTaken(ds); !slices.Equal(got, ids) {
		s.Fatalf("the jobs delivered are %q, want %q", got, ids)
	}
	return ds
}

// sizes steps the queue and compares its sizes.
func (s *scene) sizes(want duly.Sizes) {
	s.Helper()

	// Stats may count expired jobs until the next step (C4.61).
	s.step()
	same(s, "sizes", s.stats().Sizes, want)
}

// counted compares the queue's counters.
func (s *scene) counted(want duly.Counters) {
	s.Helper()
	same(s, "counters", s.stats().Counters, want)
}

// sameContent compares the bodies and headers of two jobs.
func (s *scene) sameContent(what string, got, want duly.Job) {
	s.Helper()
	if !bytes.Equal(got.Body, want.Body) {
		s.Errorf("%s has a body of %d bytes, want the %d bytes that were pushed", what, len(got.Body), len(want.Body))
	}
	if !maps.Equal(got.Headers, want.Headers) {
		s.Errorf("%s has the headers %q, want %q", what, got.Headers, want.Headers)
	}
}
