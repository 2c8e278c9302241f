package wire

import (
	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// OperationPage is a page of operations.
type OperationPage struct {
	Operations []contract.Operation
	Next       string
}

const (
	operationKinds  = `enum:"requeue,delete,promote,purge"`
	operationStates = `enum:"queued,running,waiting,paused,interrupted,stopped,failed,done"`
	canaryChoices   = `enum:"wait,continue"`
	maxOperationIDs = `maxItems:"1000"`
	operationRate   = `minimum:"0.001" maximum:"1000000"`
)

func (f *fields) newOperation(o *contract.NewOperation) {
	f.request("NewOperation")
	f.name("kind", (*string)(&o.Kind), required, operationKinds, "What to do with the jobs.")
	f.text("queue", &o.Queue, required, "", "The queue of the jobs.")
	f.text("group", &o.Group, optional, `pattern:"^[0-9a-f]{12}$"`,
		"Only dead jobs with this error: the group of dead list --groups. Default: all dead jobs.")
	texts(f, "ids", &o.IDs, duly.MaxBatch, optional, maxOperationIDs, "Only the jobs with these IDs.")
	enum(f, "state", &o.State, optional, anyState, "For a purge: the state of the jobs. For a deletion by IDs: only "+
		"jobs in this state. A requeue takes dead jobs, and a promotion delayed ones.")
	f.number("rate", &o.Rate, optional, operationRate, "Jobs per second. Default: no limit.")
	pointer(f, "canary", &o.Canary, "For a requeue: requeues a few jobs first. It has at most a tenth of the jobs found.",
		(*fields).newCanary)
	f.count("tries", &o.Tries, optional, triesRange, "For a requeue: new tries of each job. Default: each job's own.")
	f.periodOrNone("ttl", &o.TTL, given, "For a requeue: a TTL from the moment of the requeue. Default: none.")
}

func (f *fields) newCanary(c *contract.OperationCanary) {
	f.request("NewCanary")
	f.count("jobs", &c.Jobs, optional, `minimum:"1" maximum:"500"`, "The number of jobs. Default: 10.")
	f.name("then", &c.Then, optional, canaryChoices, "wait: an operator continues the operation. "+
		"continue: it continues when 90 % of the jobs have succeeded. Default: wait.")
}

func (f *fields) operation(o *contract.Operation) {
	f.answer("Operation")
	f.text("id", &o.ID, required, "", "The ID.")
	f.name("kind", (*string)(&o.Kind), required, operationKinds, "What it does with the jobs.")
	f.text("queue", &o.Queue, required, "", "The queue.")
	f.text("by", &o.By, optional, "", "The name of the caller who started it.")
	f.text("filter", &o.Filter, required, "", "The jobs, in words.")
	f.text("group", &o.Group, optional, "", "The group of the dead jobs.")
	enum(f, "job_state", &o.JobState, optional, anyState, "The state of the jobs; absent for any.")
	f.int("ids", &o.IDs, optional, "", "The number of IDs; absent if it looks for the jobs itself.")
	f.count("tries", &o.Tries, optional, "", "New tries of requeued jobs.")
	f.periodOrNone("ttl", &o.TTL, given, "The TTL of requeued jobs.")

	f.text("state", (*string)(&o.State), required, operationStates, "What it does now.")
	f.text("reason", &o.Reason, optional, "", "Why it waits, was stopped or has failed.")
	f.text("error", &o.Error, optional, "", "The error of a call that it repeats.")
	pointer(f, "canary", &o.Canary, "The canary, if it has one.", (*fields).canary)
	f.number("rate", &o.Rate, optional, "", "Jobs per second at most; absent without a limit.")
	f.number("current_rate", &o.CurrentRate, optional, "", "Jobs per second of the last 10 s, while it runs.")

	f.integer("found", &o.Found, "The number of jobs at the start.")
	f.bool("counted", &o.Counted, required, "false: it still counts the jobs.")
	f.integer("taken", &o.Taken, "Jobs that were worked on: done, skipped and failed together.")
	f.integer("done", &o.Done, "Jobs that it has changed.")
	f.integer("skipped", &o.Skipped, "Jobs that another caller had changed before.")
	f.integer("failed", &o.Failed, "Jobs that could not be changed.")

	f.time("started", &o.Started, required, "When it was started. It takes no job that died or was pushed later.")
	f.time("expected_end", &o.ExpectedEnd, optional, "When it ends at the current rate.")
	f.time("ended", &o.Ended, optional, "When it ended.")
	list(f, "answers", &o.Answers, optional, "The last 100 results, oldest first. Lists have none, and callers who may "+
		"neither see the jobs nor change the operation get none.", (*fields).operationAnswer)
}

func (f *fields) canary(c *contract.OperationCanary) {
	f.answer("Canary")
	f.int("jobs", &c.Jobs, required, "", "The number of jobs.")
	f.text("then", &c.Then, required, canaryChoices, "What happens after these jobs.")
	f.int("succeeded", &c.Succeeded, required, "", "Jobs that are done or gone.")
	f.int("failed", &c.Failed, required, "", "Jobs that are dead again.")
}

func (f *fields) operationAnswer(a *contract.OperationAnswer) {
	f.answer("OperationAnswer")
	f.time("at", &a.At, required, "When.")
	f.text("id", &a.ID, required, "", "The job.")
	f.text("outcome", &a.Outcome, required, `enum:"done,skipped,failed"`, "What happened.")
	f.text("error", &a.Error, optional, "", "Why it was not changed.")
}

func (f *fields) operations(p *OperationPage) {
	f.answer("Operations")
	list(f, "operations", &p.Operations, required, "The operations of this page, the newest first.", (*fields).operation)
	f.cursor(&p.Next)
}
