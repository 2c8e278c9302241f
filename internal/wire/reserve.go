package wire

import (
	"time"

	"github.com/dulymq/duly"
)

const (
	queuesBounds = `minItems:"1" maxItems:"100"`
	waitBounds   = " Bound: 10m. Default: 0s."
	leaseBounds  = " Bound: 100ms to 366d. Default: each job's own."
)

// Reserve is the request of a reserve. Wait is how long the server waits for a first job, 0 to
// duly.MaxWait.
type Reserve struct {
	duly.ReserveParams
	Wait time.Duration
}

func (f *fields) reserve(q *Reserve) {
	f.request("Reserve")
	texts(f, "queues", &q.Queues, duly.MaxReserveQueues, required, queuesBounds,
		"The queues to take from, and groups as TOPIC@GROUP, in strict order.")
	f.int("max", &q.Max, always, `minimum:"1" maximum:"1000"`, "The most deliveries to take. Default: 1.")
	f.lease("lease", &q.Lease, optional, "How long to hold each job."+leaseBounds)
	f.duration("wait", &q.Wait, optional, "How long to wait for the first job."+waitBounds)
	f.name("consumer", &q.Consumer, optional, nameBounds,
		"The caller's name, which the stats of a group list. It owns nothing. Default: none.")
	f.name("target", &q.Target, optional, nameBounds, "For a bridge: the queue that the caller pushes "+
		"the messages of a group into, which must be the group's target. Default: none.")
}

// ReadReserve reads the request of a reserve. Max is 1 if it is absent.
func ReadReserve(text, namespace string) (q Reserve, err error) {
	// The default is set before the reading, so an explicit 0 reaches the validation.
	q.Namespace, q.Max = namespace, 1
	err = readForm(text, strict, func(f *fields) { f.reserve(&q) })
	return q, err
}

func (f *fields) wait(p *duly.WaitParams) {
	f.request("Wait")
	texts(f, "queues", &p.Queues, duly.MaxReserveQueues, required, queuesBounds,
		"The queues to watch, and groups as TOPIC@GROUP.")
	f.duration("wait", &p.Timeout, always, "How long to wait."+waitBounds)
}

// ReadWait reads the request of a wait.
func ReadWait(text, namespace string) (p duly.WaitParams, err error) {
	p, err = WaitForm.ReadRequest(text)
	p.Namespace = namespace
	return p, err
}

func (f *fields) ready(ready *bool) {
	f.answer("Ready")
	f.bool("ready", ready, required, "Whether one of the queues may have a deliverable job.")
}
