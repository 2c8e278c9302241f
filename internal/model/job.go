package model

import (
	"maps"
	"slices"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
)

// job is one job with its run state.
type job struct {
	contract.Planned
	number           duly.Number
	state            duly.State
	ended            uint64 // deliveries that have ended: the fence
	failures, stalls int
	leaseEnd         int64
	finished         int64 // when it became dead or done
	lastError        string
	result           []byte
	isMessage        bool // it is a message that a group holds, or its dead copy
	requeued         bool // and it was dead: it is a copy of its own, and holds nothing in the log
	overtaken        bool // leased, and a later push under replace has taken its merge key
}

// past reports whether a moment that ends something is over: the last
// millisecond still counts.
func past(end, now int64) bool { return now > end }

// end is the moment whose passing ends the job: that of its TTL while it
// waits, that of Retain when it is done; 0 for none. A lease stops the TTL's
// hand.
func (j *job) end() int64 {
	switch {
	case j.state.Waiting():
		return j.ExpiresAt
	case j.state == duly.StateDone:
		return j.finished + clock.Millis(j.Retain)
	}
	return 0
}

// over reports whether the job has ended, by the clock.
func (j *job) over(now int64) bool {
	end := j.end()
	return end != 0 && past(end, now)
}

// receipt is the handle of the running delivery.
func (s *shard) receipt(j *job) duly.Receipt {
	return contract.ReceiptParts{Queue: j.Queue, Shard: s.index, Number: j.number, Delivery: j.ended + 1}.Receipt()
}

// dueIn returns the due moment of a job that a moment was found for. A message
// has its entry time unless it is delayed, so that ready ones sort by position.
func (j *job) dueIn(state duly.State, due int64) int64 {
	if j.isMessage && state != duly.StateDelayed {
		return j.PushedAt
	}
	return due
}

// public returns the job as callers see it, with defaults and its due time. It shares nothing with
// the model, so a caller may change it.
func (j *job) public(state duly.State, body bool) duly.Job {
	p := j.Job

	// The model keeps its maps and slices to itself. Headers and body are therefore cloned.
	p.Headers, p.Body = maps.Clone(j.Headers), nil
	if body {
		p.Body = slices.Clone(j.Body)
	}

	// A reader gets the due time alone: a Delay would count from a push that is over.
	p.Delay, p.Due, p.Made = 0, clock.FromMilli(j.dueIn(state, j.DueAt)), false
	return p
}

func (j *job) info(state duly.State, body bool) duly.JobInfo {
	info := duly.JobInfo{
		Job: j.public(state, body), State: state, Size: len(j.Body),
		Attempt: contract.AttemptIn(&j.Planned.Job, state, j.failures, j.stalls), Failures: j.failures, Stalls: j.stalls,
		PushedAt: clock.FromMilli(j.PushedAt), ExpiresAt: clock.FromMilli(j.ExpiresAt),
		FinishedAt: clock.FromMilli(j.finished), LastError: j.lastError,
	}
	if state == duly.StateLeased {
		info.LeaseEnd = clock.FromMilli(j.leaseEnd)
	}
	if body {
		info.Result = slices.Clone(j.result)
	}
	return info
}
