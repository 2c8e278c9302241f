package wire

import (
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

func (f *fields) settle(outcomes *Items[duly.SettleRequest]) {
	f.request("Settle")
	items(f, "outcomes", outcomes, "How each delivery ends.", (*fields).settlement)
}

func (f *fields) settlement(out *duly.SettleRequest) {
	f.request("Outcome")
	f.text("receipt", (*string)(&out.Receipt), required, "", "The receipt of the delivery.")
	enum(f, "as", &out.As, required, settlements, "ack: done. nack: failed, try again. "+
		"release: give it back without using a try. bury: dead now.")
	f.durationIfGiven("delay", &out.Delay, "For nack: when to try again. For release: how long to snooze. "+
		"Default: the backoff for nack, the old due time for release.")
	f.durationIfGiven("slow", &out.Slow, "For release: how long the queue delivers no job, because the service "+
		"behind it has no capacity. Bound: up to 1h. Default: the queue stays open.")
	f.errorText(&out.Error)
	f.sentBytes("result", &out.Result, optional, "For ack: kept with a job that is retained. Bound: 64 KiB.",
		"The result as base64, instead of result.")
}

// errorText declares the error of a nack, or the reason of a bury or of a closing. A writer cuts it to the
// length that an engine stores.
func (f *fields) errorText(v *string) {
	// A copy: the writer must not shorten the caller's text.
	text := *v
	if f.task == writing {
		text = contract.CutError(text)
	}
	f.text("error", &text, optional, "", "For nack the failure, for bury the reason, for a release with slow "+
		"the reason why the queue is closed. Bound: cut at 4 KiB, for a release at 200 bytes.")
	if f.task == reading {
		*v = text
	}
}

const settlements = `enum:"ack,nack,release,bury"`

// AppendSettle writes the request of a settle.
func AppendSettle(dst []byte, outcomes []duly.SettleRequest) []byte {
	return SettleForm.Append(dst, Items[duly.SettleRequest]{Values: outcomes})
}

// ReadSettle reads the request of a settle.
func ReadSettle(text string) (outcomes Items[duly.SettleRequest], err error) {
	outcomes, err = SettleForm.ReadRequest(text)
	for i := range outcomes.Values {
		// If the outcome already has an error, that error is better than this one.
		if outcomes.Values[i].As == 0 && outcomes.Err(i) == nil {
			outcomes.Fail(i, contract.Invalid("as", "is missing, must be one of ack, nack, release, bury"))
		}
	}
	return outcomes, outcomes.given("outcomes", err)
}

func (f *fields) results(errs *[]error) {
	f.answer("Results")
	list(f, "results", errs, required, "One result per item, in order.", (*fields).result)
}

func (f *fields) result(err *error) {
	f.answer("Result")

	// A reader ignores ok, because only the error decides.
	ok := *err == nil
	f.bool("ok", &ok, optional, "True if the item succeeded.")
	f.error(err, "Instead of ok.")
}

// Extend is the request of an extend. A Lease of 0 means each job's own lease.
type Extend struct {
	Receipts []duly.Receipt
	Lease    time.Duration
}

func (f *fields) extend(e *Extend) {
	f.request("Extend")
	texts(f, "receipts", &e.Receipts, duly.MaxBatch, required, `maxItems:"1000"`,
		"The receipts of the deliveries.")
	f.lease("lease", &e.Lease, optional, "How long to hold each job from now."+leaseBounds)
}

// ReadExtend reads the request of an extend.
func ReadExtend(text string) (e Extend, err error) {
	e, err = ExtendForm.ReadRequest(text)

	// An empty list is a valid request. Only a missing list is an error.
	if err == nil && e.Receipts == nil {
		err = missing("receipts")
	}
	return e, err
}
