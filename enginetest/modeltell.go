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

// Both sides are compared by what is told of them: everything that the
// contract promises, and nothing else.

// tellError is an error's code, its fields and its state.
func tellError(err error) string {
	if err == nil {
		return "ok"
	}
	told := string(duly.CodeOf(err))
	var e *duly.Error
	if errors.As(err, &e) {
		for _, f := range e.Fields {
			told += " " + f.Field
		}
		if e.State != duly.StateNone {
			told += " " + e.State.String()
		}
	}
	return told
}

func tellErrors(errs []error) string {
	told := make([]string, len(errs))
	for i, err := range errs {
		told[i] = tellError(err)
	}
	return strings.Join(told, ", ")
}

// moment is a time on the scripts' clock.
func moment(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format("2006-01-02T15:04:05.999999999")
}

// tell is a job without its moments; fmt sorts the headers.
func tell(j duly.Job) string {
	return fmt.Sprintf("%s %s/%s %q %q due %s delay %s prio %d tries %d stalls %d backoff %s ttl %s lease %s order %q merge %+v retain %s made %t to %s done %s dead %s",
		j.ID, j.Namespace, j.Queue, j.Body, j.Headers, moment(j.Due), j.Delay, j.Priority, j.Tries, j.MaxStalls, j.Backoff, j.TTL, j.Lease,
		j.OrderKey, j.Merge, j.Retain, j.Made, j.Callback, j.OnDone, j.OnDead)
}

func tellJob(i duly.JobInfo) string {
	return fmt.Sprintf("%s: %s size %d attempt %d failures %d stalls %d pushed %s expires %s lease end %s finished %s error %q result %q",
		i.State, tell(i.Job), i.Size, i.Attempt, i.Failures, i.Stalls, moment(i.PushedAt), moment(i.ExpiresAt), moment(i.LeaseEnd), moment(i.FinishedAt),
		i.LastError, i.Result)
}

func tellDelivery(d duly.Delivery) string {
	parts, _ := contract.ParseReceipt(d.Receipt)
	return fmt.Sprintf("%s shard %d attempt %d failures %d stalls %d lease end %s now %s pushed %s expires %s",
		tell(d.Job), parts.Shard, d.Attempt, d.Failures, d.Stalls, moment(d.LeaseEnd), moment(d.Now), moment(d.PushedAt), moment(d.ExpiresAt))
}

// tellDeliveries tells deliveries in their order, and whether a receipt was
// given twice.
func tellDeliveries(ds []duly.Delivery) string {
	told := make([]string, len(ds))
	receipts := map[duly.Receipt]bool{}
	for i, d := range ds {
		told[i] = "\n  " + tellDelivery(d)
		if receipts[d.Receipt] || d.Receipt == "" {
			told[i] += " WITH A RECEIPT OF ANOTHER"
		}
		receipts[d.Receipt] = true
	}
	return strings.Join(told, "")
}

func tellPushes(results []duly.PushResult) string {
	told := make([]string, len(results))
	for i, r := range results {
		told[i] = fmt.Sprintf("%s %s %s %s", r.ID, r.Status, r.State, tellError(r.Err))
		if r.Err != nil {
			told[i] = tellError(r.Err)
		}
	}
	return strings.Join(told, "; ")
}

func tellRequeues(results []duly.RequeueResult) string {
	told := make([]string, len(results))
	for i, r := range results {
		told[i] = fmt.Sprintf("%s %s %q %s", r.ID, r.State, r.Merged, tellError(r.Err))
	}
	return strings.Join(told, "; ")
}

func tellJobs(jobs []duly.JobInfo) string {
	told := make([]string, len(jobs))
	for i, j := range jobs {
		told[i] = "\n  " + tellJob(j)
	}
	return strings.Join(told, "")
}

func tellStats(st duly.Stats) string {
	return fmt.Sprintf("%s %+v %+v oldest %s next %s", st.Delivery, st.Sizes, st.Counters, st.OldestReady, moment(st.NextDue))
}

func tellNames(names []string) string { return strings.Join(slices.Clone(names), " ") }
