package wire

import (
	"slices"

	"github.com/dulymq/duly"
)

// Items are the items of a batch as they were read, and for each nil or the
// error that is its own. Errs is nil where no item has one.
type Items[T any] struct {
	Values []T
	Errs   []error
}

// Good lists the places of the items without an error; nil stands for all of
// them.
func (it *Items[T]) Good() []int {
	if it.Errs == nil {
		return nil
	}
	good := make([]int, 0, len(it.Values))
	for i, err := range it.Errs {
		if err == nil {
			good = append(good, i)
		}
	}
	return good
}

// readItems reads an array of at most MaxBatch items.
func readItems[T any](r *reader, field string, it *Items[T], item func(*T)) {
	if it.Values == nil {
		it.Values = make([]T, 0, min(1+len(r.text)/256, duly.MaxBatch))
	}
	for i := range r.array {
		if i == duly.MaxBatch {
			if r.err == nil {
				r.err = duly.TooLarge("batch", "has more than %d %s; send several calls", duly.MaxBatch, field)
			}
			return
		}

		if r.null() { // which is no item, as it is no value of any member
			r.fail("has null for %s[%d]; it needs an object there", field, i)
			return
		}

		var zero T
		it.Values = append(it.Values, zero)
		item(&it.Values[i])
		err := r.itemErr()
		if err != nil && it.Errs == nil {
			it.Errs = make([]error, i, duly.MaxBatch)
		}
		if it.Errs != nil {
			it.Errs = append(it.Errs, err)
		}
	}
}

// ReadPush reads the request of a push. Every job is given the namespace. A job
// with a fault is judged whole, so that its error names every bad field.
func ReadPush(text, namespace string, mode Mode) (jobs Items[duly.Job], err error) {
	given := false
	err = parse(text, mode, func(r *reader) {
		for key := range r.object {
			if key != "jobs" {
				r.unknown(key)
				continue
			}
			given = true
			readItems(r, key, &jobs, func(j *duly.Job) {
				j.Namespace = namespace
				r.pushed(j)
			})
		}
	})
	if err == nil && !given {
		err = missing("jobs")
	}

	for i, fault := range jobs.Errs {
		if fault != nil {
			jobs.Errs[i] = withFaults(fault, jobs.Values[i].Validate(duly.MaxMaxBody))
		}
	}
	return jobs, err
}

// ReadPushOne reads the request of a push of one job into a queue. A fault of
// the job is the error, with every bad field.
func ReadPushOne(text string, queue duly.QueueRef, mode Mode) (j duly.Job, err error) {
	err = parse(text, mode, func(r *reader) {
		if r.null() { // which is no job, as it is none in a batch
			r.fail("is null; it needs an object")
			return
		}
		r.pushed(&j)
		if j.Queue != "" {
			r.bad("queue", "is in the path; leave it out of the body")
		}
		j.Namespace, j.Queue = queue.Namespace, queue.Name

		// The error of a bad job names every bad field, as in a batch.
		if fault := r.itemErr(); fault != nil {
			r.faults.Take(withFaults(fault, j.Validate(duly.MaxMaxBody)))
		}
	})

	return j, err
}

func missing(field string) error { return duly.Invalid(field, "is missing") }

// withFaults joins the bad fields of two errors of one item; the first error's
// word for a field counts.
func withFaults(err, more error) error {
	m, ok := more.(*duly.Error)
	if !ok {
		return err
	}
	var bad duly.BadFields
	bad.Take(err)
	for _, f := range m.Fields {
		if !hasField(err.(*duly.Error).Fields, f.Field) {
			bad.Add(f.Field, "%s", f.Problem)
		}
	}
	return bad.Err()
}

func hasField(fields []duly.FieldError, name string) bool {
	return slices.ContainsFunc(fields, func(f duly.FieldError) bool { return f.Field == name })
}

// AppendPush writes the request of a push.
func AppendPush(dst []byte, jobs []duly.Job) []byte {
	o := begin(dst)
	list(&o, "jobs", jobs, appendPushed)
	return o.end()
}

// AppendPushResults writes the answer to a push.
func AppendPushResults(dst []byte, results []duly.PushResult) []byte {
	o := begin(dst)
	list(&o, "results", results, AppendPushResult)
	return o.end()
}

// AppendPushResult writes what became of one job.
func AppendPushResult(dst []byte, p *duly.PushResult) []byte {
	o := begin(dst)
	o.text("id", p.ID)
	if p.Err != nil {
		o.error(p.Err)
		return o.end()
	}
	o.string("outcome", p.Outcome.String())
	if p.State != duly.StateNone {
		o.string("state", p.State.String())
	}
	return o.end()
}

// ReadPushResults reads the answer to a push.
func ReadPushResults(text string) (results []duly.PushResult, err error) {
	err = readResults(text, func(r *reader) {
		var p duly.PushResult
		for key := range r.object {
			switch key {
			case "id":
				p.ID = r.string(key)
			case "outcome":
				unmarshal(r, key, &p.Outcome)
			case "state":
				unmarshal(r, key, &p.State)
			case "error":
				p.Err = r.errorValue()
			default:
				r.unknown(key)
			}
		}
		results = append(results, p)
	})

	return results, err
}

// readResults reads {"results":[…]} leniently.
func readResults(text string, item func(*reader)) error {
	return readList(text, "results", item, nil)
}

// readList reads an object with a list and other members.
func readList(text, name string, item func(*reader), other func(r *reader, key string) bool) error {
	return parse(text, Lenient, func(r *reader) {
		for key := range r.object {
			switch {
			case key == name:
				for range r.array {
					item(r)
				}
			case other == nil || !other(r, key):
				r.unknown(key)
			}
		}
	})
}

// unmarshal reads one of the root package's enumerations.
func unmarshal[T interface{ UnmarshalText([]byte) error }](r *reader, field string, value T) {
	text := r.string(field)
	if r.err != nil {
		return
	}
	if err := value.UnmarshalText([]byte(text)); err != nil {
		r.refused(field, err)
	}
}

// refused notes what the root package says of a value.
func (r *reader) refused(field string, err error) {
	r.bad(field, "%s", err.(*duly.Error).Fields[0].Problem)
}
