package wire

import (
	"slices"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// Items are the items of a request. Errs has the error of each item, or nil for a valid item. Errs
// is nil if all items are valid.
type Items[T any] struct {
	Values []T
	Errs   []error
}

// Good returns the indexes of the items without an error. It returns nil if all items have no
// error.
func (it *Items[T]) Good() []int {
	if it.Errs == nil {
		return nil
	}

	// The slice is not nil even if no item is good, because nil means that all are.
	good := make([]int, 0, len(it.Values))
	for i, err := range it.Errs {
		if err == nil {
			good = append(good, i)
		}
	}
	return good
}

// Err returns the error of an item.
func (it *Items[T]) Err(i int) error {
	if it.Errs == nil {
		return nil
	}
	return it.Errs[i]
}

// Fail sets the error of an item.
func (it *Items[T]) Fail(i int, err error) {
	if it.Errs == nil {
		it.Errs = make([]error, len(it.Values))
	}
	it.Errs[i] = err
}

// given returns err, or an error if the request has no list of items.
func (it *Items[T]) given(name string, err error) error {
	// An empty list is a valid request. Only a missing list is an error.
	if err == nil && it.Values == nil {
		return missing(name)
	}
	return err
}

// validate adds the result of validate to the errors of bad items, so that an error names
// every bad field.
func (it *Items[T]) validate(validate func(*T) error) {
	// The engine validates the items without an error, so only those with an error are validated
	// here.
	for i, fault := range it.Errs {
		if fault != nil {
			it.Errs[i] = withFaults(fault, validate(&it.Values[i]))
		}
	}
}

// items declares a required array of objects with an error for each: the items of a batch.
func items[T any](f *fields, name string, it *Items[T], doc string, form func(*fields, *T)) {
	switch f.task {
	case writing:
		writeList(f, name, it.Values, form)
	case reading:
		if f.at(name) {
			readItems(f, name, it, form)
			f.next()
		}
	default:
		describeList(f, name, required, `maxItems:"1000"`, doc, form)
	}
}

// readItems reads an array of at most MaxBatch items.
func readItems[T any](f *fields, name string, it *Items[T], form func(*fields, *T)) {
	r := &f.r
	// The capacity is a guess from the text's length, so that a short request allocates little.
	it.Values = make([]T, 0, min(1+len(r.text)/256, duly.MaxBatch))

	for i := range r.array {
		if i == duly.MaxBatch {
			if r.err == nil {
				r.err = contract.TooLarge("batch", "has more than %d %s; send several calls", duly.MaxBatch, name)
			}
			return
		}

		// Null would otherwise read as an object without fields.
		if r.null() {
			r.fail("has null for %s[%d]; it needs an object there", name, i)
			return
		}

		var zero T
		it.Values = append(it.Values, zero)
		f.read(func() { form(f, &it.Values[i]) })

		err := r.itemErr()

		// Check returns no items, so it gets the error of an item through this field.
		if err != nil && f.itemErr != nil {
			*f.itemErr = err
		}
		if err != nil && it.Errs == nil {
			// The items before this one have no error.
			it.Errs = make([]error, i, duly.MaxBatch)
		}
		if it.Errs != nil {
			it.Errs = append(it.Errs, err)
		}
	}
}

func missing(field string) error { return contract.Invalid(field, "is missing") }

// withFaults joins the bad fields of two errors of one item. If both errors name a field, the first
// one counts.
func withFaults(err, more error) error {
	m, ok := more.(*duly.Error)
	if !ok {
		return err
	}

	var bad contract.BadFields

	// The errors from reading come first, because they name what the caller has written.
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

func validateJob(j *duly.Job) error { return contract.ValidateJob(j, duly.MaxMaxBody) }

// AppendPush writes the request of a push.
func AppendPush(dst []byte, jobs []duly.Job) []byte {
	return PushForm.Append(dst, Items[duly.Job]{Values: jobs})
}

// ReadPush reads the request of a push. All jobs get the namespace. The error of a bad
// job names every bad field.
func ReadPush(text, namespace string) (jobs Items[duly.Job], err error) {
	jobs, err = PushForm.ReadRequest(text)
	for i := range jobs.Values {
		jobs.Values[i].Namespace = namespace
	}

	// The namespace is set before the validation, because the validation includes it.
	jobs.validate(validateJob)
	return jobs, jobs.given("jobs", err)
}

func (f *fields) push(jobs *Items[duly.Job]) {
	f.request("Push")
	items(f, "jobs", jobs, "The jobs to store.", (*fields).job)
}

// ReadPushOne reads the request of a push of one job to a queue. The error of a bad job
// names every bad field.
func ReadPushOne(text string, queue duly.QueueRef) (j duly.Job, err error) {
	err = parse(text, strict, func(f *fields) {
		if f.r.null() {
			f.r.fail("is null; it needs an object")
			return
		}
		f.read(func() {
			f.jobWithoutQueue(&j)
			f.text("queue", &j.Queue, optional, "", "") // gives a better error than that of an unknown field
		})
		if j.Queue != "" {
			f.r.bad("queue", "is in the path; leave it out of the body")
		}

		// The validation must not report the queue a second time.
		j.Namespace, j.Queue = queue.Namespace, queue.Name
		if fault := f.r.itemErr(); fault != nil {
			f.r.faults.Take(withFaults(fault, validateJob(&j)))
		}
	})
	return j, err
}

// pushOne declares a job without its queue, which is in the path.
func (f *fields) pushOne(j *duly.Job) {
	f.request("OneJob")
	f.jobWithoutQueue(j)
}

func (f *fields) pushed(results *[]duly.PushResult) {
	f.answer("Pushed")
	list(f, "results", results, required, "One result per job, in order.", (*fields).pushResult)
}

func (f *fields) pushResult(p *duly.PushResult) {
	f.answer("PushResult")
	f.outcome(p, optional)
	f.error(&p.Err, "Instead of an outcome: what is wrong with this job alone.")
}

func (f *fields) pushedOne(p *duly.PushResult) {
	f.answer("PushedOne")
	f.outcome(p, required)
}

func (f *fields) outcome(result *duly.PushResult, p presence) {
	f.name("id", &result.ID, p, "", "The job's ID; for merged, the ID of the waiting job.")
	enum(f, "outcome", &result.Status, p, `enum:"created,merged,exists"`, "created stored the job. "+
		"merged joined it with a waiting job. exists found a job with its ID.")
	enum(f, "state", &result.State, optional, anyState, "For exists: the state of the other job.")
}
