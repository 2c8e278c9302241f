package enginetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// Both sides are compared as text. The text contains everything that the contract promises, and
// nothing else.

// errorText returns an error's code, its fields and its state.
func errorText(err error) string {
	if err == nil {
		return "ok"
	}

	// The message of an error is not compared, because each engine may word it differently.
	text := string(duly.CodeOf(err))
	var e *duly.Error
	if errors.As(err, &e) {
		for _, f := range e.Fields {
			text += " " + f.Field
		}
		if e.State != duly.StateNone {
			text += " " + e.State.String()
		}
	}
	return text
}

func errorTexts(errs []error) string {
	texts := make([]string, len(errs))
	for i, err := range errs {
		texts[i] = errorText(err)
	}
	return strings.Join(texts, ", ")
}

// moment formats a time for the comparison.
func moment(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format("2006-01-02T15:04:05.999999999")
}

// jobText returns a job's fields. Format %q sorts the headers.
func jobText(j duly.Job) string {
	return fmt.Sprintf("%s %s/%s %q %q due %s delay %s prio %d tries %d stalls %d backoff %s ttl %s lease %s "+
		"order %q merge %+v retain %s made %t to %s done %s dead %s",
		j.ID, j.Namespace, j.Queue, j.Body, j.Headers, moment(j.Due), j.Delay, j.Priority, j.Tries, j.MaxStalls, j.Backoff,
		j.TTL, j.Lease, j.OrderKey, j.Merge, j.Retain, j.Made, j.Callback, j.OnDone, j.OnDead)
}

func infoText(i duly.JobInfo) string {
	return fmt.Sprintf("%s: %s size %d attempt %d failures %d stalls %d pushed %s expires %s lease end %s "+
		"finished %s error %q result %q",
		i.State, jobText(i.Job), i.Size, i.Attempt, i.Failures, i.Stalls, moment(i.PushedAt), moment(i.ExpiresAt),
		moment(i.LeaseEnd), moment(i.FinishedAt),
		i.LastError, i.Result)
}

func deliveryText(d duly.Delivery) string {
	// Of a receipt only the shard is compared, because each side draws its own numbers.
	parts, _ := contract.ParseReceipt(d.Receipt)
	return fmt.Sprintf("%s shard %d attempt %d failures %d stalls %d lease end %s now %s pushed %s expires %s",
		jobText(d.Job), parts.Shard, d.Attempt, d.Failures, d.Stalls, moment(d.LeaseEnd), moment(d.Now), moment(d.PushedAt),
		moment(d.ExpiresAt))
}

// deliveriesText returns the deliveries in their order. It marks a receipt that is missing or was
// issued twice.
func deliveriesText(ds []duly.Delivery) string {
	texts := make([]string, len(ds))
	receipts := map[duly.Receipt]bool{}
	for i, d := range ds {
		texts[i] = "\n  " + deliveryText(d)
		if receipts[d.Receipt] || d.Receipt == "" {
			texts[i] += " WITH A MISSING OR REPEATED RECEIPT"
		}
		receipts[d.Receipt] = true
	}
	return strings.Join(texts, "")
}

func pushesText(results []duly.PushResult) string {
	texts := make([]string, len(results))
	for i, r := range results {
		texts[i] = fmt.Sprintf("%s %s %s %s", r.ID, r.Status, r.State, errorText(r.Err))
		if r.Err != nil {
			texts[i] = errorText(r.Err)
		}
	}
	return strings.Join(texts, "; ")
}

func requeuesText(results []duly.RequeueResult) string {
	texts := make([]string, len(results))
	for i, r := range results {
		texts[i] = fmt.Sprintf("%s %s %q %s", r.ID, r.State, r.Merged, errorText(r.Err))
	}
	return strings.Join(texts, "; ")
}

func infosText(jobs []duly.JobInfo) string {
	texts := make([]string, len(jobs))
	for i, j := range jobs {
		texts[i] = "\n  " + infoText(j)
	}
	return strings.Join(texts, "")
}

func statsLine(st duly.Stats) string {
	return fmt.Sprintf("%s %+v %+v oldest %s next %s, %d schedules, next tick %s, closed until %s for %q, factor %v, "+
		"%d probing, %d tokens, next token %s",
		st.Delivery, st.Sizes, st.Counters, st.OldestReady, moment(st.NextDue), st.Schedules, moment(st.NextTick),
		moment(st.Closing.Until), st.Closing.Reason, st.Factor, st.Probing, st.Tokens,
		moment(st.NextToken))
}

func explanationText(x contract.Explanation) string {
	text := fmt.Sprintf("%s at %s", x.State, moment(x.Now))
	for _, f := range x.Facts {
		text += fmt.Sprintf("\n  %s %s %q used %d of %d, count %d more %t, holder %s %s %s", f.Code, moment(f.At), f.Cause,
			f.Used, f.Limit, f.Count, f.More, f.Holder.ID, f.Holder.State, moment(f.Holder.At))
	}
	return text
}

func namesText(names []string) string { return strings.Join(slices.Clone(names), " ") }
