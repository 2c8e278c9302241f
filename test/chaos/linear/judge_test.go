package linear

import (
	"cmp"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/dulymq/duly/contract"
)

// The bounds of the search for one job.
const (
	mostSteps  = 60
	searchTime = 30 * time.Second
)

// figures are the counts of one check.
type figures struct {
	calls, unknown, unsent int // counted by the clients
	histories, steps       int
	longest                int // steps of the longest history
	cut                    int // histories that were longer than mostSteps
	empties                int // Reserves that returned nothing while the queue had known jobs
	violations, undecided  int
	first                  string
}

// key identifies the history of one job.
type key struct{ queue, id string }

// check splits the calls by job and searches for an order of each history.
func (l *log) check() figures {
	var f figures
	slices.SortFunc(l.calls, func(a, b *recorded) int { return cmp.Compare(a.At, b.At) })
	histories := l.split(&f)

	work := make(chan key)
	var mu sync.Mutex
	var all sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for k := range work {
				result := porcupine.CheckOperationsTimeout(specification, histories[k], searchTime)
				mu.Lock()
				f.count(k, result, histories[k])
				mu.Unlock()
			}
		})
	}
	for k := range histories {
		work <- k
	}
	close(work)
	all.Wait()
	return f
}

func (f *figures) count(k key, result porcupine.CheckResult, history []porcupine.Operation) {
	f.histories++
	f.steps += len(history)
	f.longest = max(f.longest, len(history))
	switch result {
	case porcupine.Ok:
		return
	case porcupine.Unknown:
		f.undecided++
	case porcupine.Illegal:
		f.violations++
	}
	if f.first == "" {
		f.first = describe(k, history)
	}
}

// split returns one history per job.
func (l *log) split(f *figures) map[key][]porcupine.Operation {
	histories := map[key][]porcupine.Operation{}
	open := l.unanswered()
	var empties []*recorded
	for _, r := range l.calls {
		f.calls++
		switch {
		case r.reply == nil:
			f.unknown++
		case r.reply.Verdict == unsent:
			f.unsent++
			continue
		}
		if r.Kind != "reserve" {
			k := key{r.Queue, r.ID}
			if r.Receipt != "" {
				k.id = l.ids[r.Receipt]
			}
			histories[k] = append(histories[k], r.operation(open))
			continue
		}
		if r.reply == nil {
			continue // counted in hidden
		}
		for _, d := range r.reply.Delivered {
			k := key{r.Queue, d.ID}
			histories[k] = append(histories[k], r.delivery(open, d))
		}
		if len(r.reply.Delivered) == 0 {
			empties = append(empties, r)
		}
	}
	f.cut = shorten(histories)
	f.empties = addEmpties(histories, empties, open)
	return histories
}

// unanswered returns the call times of the Reserves without an answer, by queue.
func (l *log) unanswered() map[string][]int64 {
	open := map[string][]int64{}
	for _, r := range l.calls {
		if r.Kind == "reserve" && r.reply == nil {
			open[r.Queue] = append(open[r.Queue], r.At)
		}
	}
	return open
}

// shorten splits histories that are too long. It cuts at the latest time with room at which no
// answered call was in flight. What came before is a separate history.
func shorten(histories map[key][]porcupine.Operation) (cut int) {
	for k, all := range histories {
		if len(all) <= mostSteps {
			continue
		}

		var busy int64 // a call was in flight until this time
		fits := 0
		for i, o := range all[:mostSteps+1] {
			if busy < o.Call {
				fits = i
			}
			if o.Return != math.MaxInt64 {
				busy = max(busy, o.Return)
			}
		}
		if fits > 0 {
			histories[k] = all[:fits]
			cut++
		}
	}
	return cut
}

// addEmpties adds each Reserve without a delivery to the histories of its queue that have room.
// Such a call changes no state, so leaving one out is sound.
func addEmpties(histories map[key][]porcupine.Operation, empties []*recorded, open map[string][]int64) (added int) {
	for _, r := range empties {
		used := false
		for i := range ids {
			k := key{r.Queue, fmt.Sprintf("j%d", i)}
			if h := histories[k]; len(h) > 0 && len(h) < mostSteps {
				o := r.operation(open)
				in := o.Input.(step)
				in.kind = "empty"
				o.Input = in
				histories[k] = append(h, o)
				used = true
			}
		}
		if used {
			added++
		}
	}
	return added
}

// operation returns a call with its answer in the checker's form.
func (r *recorded) operation(open map[string][]int64) porcupine.Operation {
	in := step{kind: r.Kind, as: r.As, lease: r.Lease, sent: r.Wall}
	in.receipt, _ = contract.ParseReceipt(r.Receipt)
	o := porcupine.Operation{ClientId: r.client, Call: r.At, Return: math.MaxInt64, Output: answer{}}
	if r.reply != nil {
		o.Return = r.reply.At
		in.answered = r.reply.Wall
		for _, at := range open[r.Queue] {
			if at <= o.Return {
				in.hidden++
			}
		}
		o.Output = answer{known: true, verdict: r.reply.Verdict, state: r.reply.State, failures: r.reply.Failures}
	}
	o.Input = in
	return o
}

func (r *recorded) delivery(open map[string][]int64, d delivered) porcupine.Operation {
	o := r.operation(open)
	parts, _ := contract.ParseReceipt(d.Receipt)
	o.Output = answer{known: true, number: parts.Number.String(), delivery: parts.Delivery, failures: d.Failures,
		leaseEnd: d.LeaseEnd}
	return o
}

// describe formats a history in the order of its calls.
func describe(k key, history []porcupine.Operation) string {
	text := fmt.Sprintf("%s of queue %s:\n", k.id, k.queue)
	slices.SortFunc(history, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	for _, o := range history {
		in, out := o.Input.(step), o.Output.(answer)
		end := "open"
		if o.Return != math.MaxInt64 {
			end = fmt.Sprint((o.Return - history[0].Call) / 1000)
		}
		text += fmt.Sprintf("  %8d…%8s µs %-7s %-7s %s.%d wall %d…%d hidden %d → %+v\n", (o.Call-history[0].Call)/1000, end,
			in.kind, in.as,
			in.receipt.Number, in.receipt.Delivery, in.sent, in.answered, in.hidden, out)
	}
	return text
}

// report prints the counts.
func (f figures) report(t *testing.T) {
	t.Helper()
	t.Logf("%d calls, %d without an answer, %d that reached no server; %d histories with %d steps (longest %d, %d "+
		"cut), %d empty results checked: "+
		"%d violations, %d undecided", f.calls, f.unknown, f.unsent, f.histories, f.steps, f.longest, f.cut, f.empties,
		f.violations, f.undecided)
	if f.first != "" {
		t.Logf("the first history without an order: %s", f.first)
	}
}
