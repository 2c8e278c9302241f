package wire

import (
	"time"

	"github.com/dulymq/duly"
)

// ReadSettle reads the request of a settle.
func ReadSettle(text string, mode Mode) (outcomes Items[duly.Outcome], err error) {
	given := false
	err = parse(text, mode, func(r *reader) {
		for key := range r.object {
			if key != "outcomes" {
				r.unknown(key)
				continue
			}
			given = true
			readItems(r, key, &outcomes, r.outcome)
		}
	})
	if err == nil && !given {
		err = missing("outcomes")
	}
	return outcomes, err
}

func (r *reader) outcome(out *duly.Outcome) {
	for key := range r.object {
		switch key {
		case "receipt":
			out.Receipt = duly.Receipt(r.string(key))
		case "as":
			unmarshal(r, key, &out.As)
		case "delay":
			if d, given := r.duration(key); given {
				out.Delay = &d
			}
		case "error":
			out.Error = r.string(key)
		case "result", "result_base64":
			out.Result = r.either("result", key, out.Result)
		default:
			r.unknown(key)
		}
	}
	if out.As == 0 && r.err == nil && r.faults.Len() == 0 {
		r.bad("as", "is missing, must be one of ack, nack, release, bury")
	}
}

// AppendSettle writes the request of a settle. Error texts are cut as an
// engine cuts them.
func AppendSettle(dst []byte, outcomes []duly.Outcome) []byte {
	o := begin(dst)
	list(&o, "outcomes", outcomes, func(dst []byte, out *duly.Outcome) []byte {
		o := begin(dst)
		o.string("receipt", string(out.Receipt))
		o.string("as", out.As.String())
		if out.Delay != nil {
			o.duration("delay", *out.Delay)
		}
		o.text("error", duly.CutError(out.Error))
		if len(out.Result) > 0 {
			o.sent("result", out.Result)
		}
		return o.end()
	})
	return o.end()
}

// AppendResults writes the answer to a settle or an extend: per item done, or
// its error.
func AppendResults(dst []byte, errs []error) []byte {
	o := begin(dst)
	list(&o, "results", errs, func(dst []byte, err *error) []byte {
		o := begin(dst)
		if *err != nil {
			o.error(*err)
		} else {
			o.bool("ok", true)
		}
		return o.end()
	})
	return o.end()
}

// ReadResults reads the answer to a settle or an extend.
func ReadResults(text string) (errs []error, err error) {
	err = readResults(text, func(r *reader) {
		var own error
		for key := range r.object {
			if key == "error" {
				own = r.errorValue()
			} else {
				r.unknown(key)
			}
		}
		errs = append(errs, own)
	})
	return errs, err
}

// Extend is the request of an extend. A Lease of 0 is each job's own.
type Extend struct {
	Receipts []duly.Receipt
	Lease    time.Duration
}

// ReadExtend reads the request of an extend.
func ReadExtend(text string, mode Mode) (e Extend, err error) {
	given := false
	err = parse(text, mode, func(r *reader) {
		for key := range r.object {
			switch key {
			case "receipts":
				given = true
				for _, s := range r.strings(key, duly.MaxBatch) {
					e.Receipts = append(e.Receipts, duly.Receipt(s))
				}
			case "lease":
				e.Lease = r.lease(key)
			default:
				r.unknown(key)
			}
		}
	})
	if err == nil && !given {
		err = missing("receipts")
	}

	return e, err
}

// AppendExtend writes the request of an extend.
func AppendExtend(dst []byte, e Extend) []byte {
	o := begin(dst)
	texts(&o, "receipts", e.Receipts)
	if e.Lease != 0 {
		o.duration("lease", e.Lease)
	}
	return o.end()
}
