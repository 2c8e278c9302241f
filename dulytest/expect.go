package dulytest

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// Waiting returns the waiting jobs of a queue (delayed, ready or blocked) with their bodies, by
// their due times and then in push order. Each State is the state at the time of the clock.
func (e *Engine) Waiting(queue string) []duly.JobInfo {
	e.tb.Helper()
	var all []duly.JobInfo
	for _, state := range []duly.State{duly.StateReady, duly.StateBlocked, duly.StateDelayed} {
		all = append(all, e.list(queue, state)...)
	}
	slices.SortStableFunc(all, func(a, b duly.JobInfo) int { return a.Due.Compare(b.Due) })
	return all
}

// Only returns the only job that waits in the queue. It ends the test unless exactly one job
// waits.
func (e *Engine) Only(queue string) duly.JobInfo {
	e.tb.Helper()
	jobs := e.Waiting(queue)
	if len(jobs) != 1 {
		e.tb.Fatalf("%d jobs wait in queue %s, want 1%s", len(jobs), queue, describe(jobs))
		return duly.JobInfo{}
	}
	return jobs[0]
}

// None ends the test if a job waits in the queue.
func (e *Engine) None(queue string) {
	e.tb.Helper()
	if jobs := e.Waiting(queue); len(jobs) > 0 {
		e.tb.Fatalf("%d jobs wait in queue %s, want none%s", len(jobs), queue, describe(jobs))
	}
}

// Dead returns the dead jobs of the queue with their last errors, oldest first.
func (e *Engine) Dead(queue string) []duly.JobInfo {
	e.tb.Helper()
	return e.list(queue, duly.StateDead)
}

// Published returns the messages in the log of a topic, in the order of their positions. A
// message stays in the log while a group needs it. A topic without groups keeps all.
func (e *Engine) Published(topic string) (all []contract.Entry) {
	e.tb.Helper()
	e.step(topic)
	p := contract.ReadParams{Limit: duly.MaxBatch}
	for {
		page, err := e.Read(context.Background(), duly.Q(topic), p)
		e.must(err)
		// The Next of a page is never empty, so an empty page is the end.
		if len(page.Entries) == 0 {
			return all
		}
		all, p.From = append(all, page.Entries...), page.Next
	}
}

// step runs the steps that are due in a queue, a group or a topic.
func (e *Engine) step(name string) {
	e.tb.Helper()
	for more := true; more; {
		var err error
		more, err = e.Step(context.Background(), duly.Q(name))
		e.must(err)
	}
}

// list returns the jobs of one state after a step.
func (e *Engine) list(queue string, state duly.State) (all []duly.JobInfo) {
	e.tb.Helper()
	ctx, q := context.Background(), duly.Q(queue)
	// Only a step lets due jobs become ready and ended leases end.
	e.step(queue)
	p := duly.ListParams{State: state, Bodies: true}
	for {
		page, err := e.List(ctx, q, p)
		e.must(err)
		all = append(all, page.Jobs...)
		if p.Cursor = page.Next; p.Cursor == "" {
			return all
		}
	}
}

// shorten quotes the beginning of a body for the message of a failed test.
func shorten(body []byte) string {
	const most = 80
	if len(body) <= most {
		return strconv.Quote(string(body))
	}
	return fmt.Sprintf("%q… (%d bytes)", body[:most], len(body))
}

// describe lists jobs for a failed test.
func describe(jobs []duly.JobInfo) string {
	const most = 10
	text := ""
	for i, j := range jobs {
		if i == most {
			return text + "\n  …"
		}
		text += "\n  " + j.State.String() + " " + j.ID +
			" due " + j.Due.Format("2006-01-02T15:04:05.000Z07:00") + ", body " + shorten(j.Body)
	}
	return text
}
