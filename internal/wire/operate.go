package wire

import (
	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

func (f *fields) update(u *duly.Update) {
	f.request("Rules")
	f.sentBytes("body", &u.Body, given, bodyDoc, base64Doc)
	f.headers(&u.Headers, given, maxHeaders, headersDoc)
	f.durationIfGiven("delay", &u.Delay, delayDoc)
	f.due(&u.Due, dueDoc)
	f.priorityIfGiven(&u.Priority)
	f.rules(&u.Tries, &u.MaxStalls, &u.Backoff, &u.TTL, &u.Lease, &u.Retain)
}

// priorityIfGiven declares a priority. It is nil if the priority does not change.
func (f *fields) priorityIfGiven(v **int) {
	switch {
	case f.task == reading:
		if f.at("priority") {
			if !f.r.null() {
				n := int(f.r.int("priority"))
				*v = &n
			}
			f.next()
		}
	case f.task == writing && *v != nil:
		f.int("priority", *v, always, "", "")
	case f.task == describing:
		f.describe("priority", Integer, optional, priorityRange, priorityDoc)
	}
}

func (f *fields) requeue(p *duly.RequeueParams) {
	f.request("Requeue")
	texts(f, "ids", &p.IDs, duly.MaxBatch, optional, `maxItems:"1000"`, "The IDs of dead jobs. Give ids or n.")
	f.int("n", &p.N, optional, `minimum:"1" maximum:"1000"`, "Requeue the n oldest dead jobs.")
	f.count("tries", &p.Tries, optional, triesRange, "New tries of each job. Default: each job's own.")
	f.periodOrNone("ttl", &p.TTL, given, "A TTL from now. Default: none.")
}

func (f *fields) requeued(results *[]duly.RequeueResult) {
	f.answer("Requeued")
	list(f, "results", results, required, "One result per job.", (*fields).requeueResult)
}

func (f *fields) requeueResult(q *duly.RequeueResult) {
	f.answer("RequeueResult")
	f.text("id", &q.ID, required, "", "The job's ID.")
	enum(f, "state", &q.State, optional, `enum:"ready,blocked"`, "The state that the job is in now.")
	f.text("merged", &q.Merged, optional, "", "The ID of the waiting job that holds its merge key.")
	f.error(&q.Err, "Instead of a state: why this job was not requeued.")
}

// Purge is the request of a purge: up to N jobs of one state, or all of them if N is 0.
type Purge struct {
	State duly.State
	N     int
}

func (f *fields) purge(p *Purge) {
	f.request("Purge")
	enum(f, "state", &p.State, required, anyState, "Which jobs to delete.")
	f.count("n", &p.N, optional, `minimum:"1"`, "The most jobs to delete. Default: all of them.")
}

func (f *fields) purged(n *int) {
	f.answer("Purged")
	f.int("purged", n, required, "", "How many jobs were deleted.")
}

// GetJobs is the request of a read by IDs.
type GetJobs struct {
	IDs    []string
	Bodies bool
}

func (f *fields) getJobs(g *GetJobs) {
	f.request("GetJobs")
	f.ids(&g.IDs)
	f.bool("bodies", &g.Bodies, optional, "True: with bodies and results, of 8 MiB together. Default: without.")
}

// gotJobs declares the jobs of a read by IDs, with their bodies if bodies is set.
func (f *fields) gotJobs(results *[]contract.JobResult, bodies bool) {
	f.answer("GotJobs")
	list(f, "results", results, required, "One result per ID, in order.", func(f *fields, r *contract.JobResult) {
		f.answer("GotJob")
		if f.task != writing || r.Err == nil {
			f.nested("job", false, optional, "The job; its body only with bodies.", func() { f.info(&r.Info, bodies) })
		}
		f.error(&r.Err, "Instead of a job: why it was not read.")
	})
}

// AppendGotJobs writes the answer of a read by IDs, with bodies if bodies is set.
func AppendGotJobs(dst []byte, results []contract.JobResult, bodies bool) []byte {
	f := writer(dst)
	f.gotJobs(&results, bodies)
	return f.end()
}

// ReadGotJobs reads the answer of a read by IDs. The bodies are nil if the answer has none.
func ReadGotJobs(text, namespace string) (results []contract.JobResult, err error) {
	results, err = GotJobsForm.ReadAnswer(text)
	for i := range results {
		if results[i].Err == nil {
			results[i].Info.Namespace = namespace
		}
	}
	return results, err
}

func (f *fields) promoteJobs(ids *[]string) {
	f.request("PromoteJobs")
	f.ids(ids)
}

// ids declares the IDs of a call on many jobs.
func (f *fields) ids(ids *[]string) {
	texts(f, "ids", ids, duly.MaxBatch, required, `minItems:"1" maxItems:"1000"`, "The IDs of the jobs.")
}

// DeleteJobs is the request of a deletion by IDs. Without a State, it deletes jobs in any state.
type DeleteJobs struct {
	IDs   []string
	State duly.State
}

func (f *fields) deleteJobs(d *DeleteJobs) {
	f.request("DeleteJobs")
	f.ids(&d.IDs)
	enum(f, "state", &d.State, optional, anyState, "Delete only jobs that are in this state. Default: in any state.")
}

// ReadEmpty reads the request of an operation without parameters: nothing, or an empty
// object.
func ReadEmpty(text string) error {
	if text == "" {
		return nil
	}
	return readForm(text, strict, func(*fields) {})
}
