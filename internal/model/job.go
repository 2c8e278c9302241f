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
	ended            uint64 // number of ended deliveries, which makes old receipts invalid
	failures, stalls int
	leaseEnd         int64
	finished         int64 // time at which the job became dead or done
	lastError        string
	result           []byte
	isMessage        bool // whether the job is a message that a group holds, or its dead copy
	// Whether the message was dead and was requeued, so that it is a copy and needs no message in
	// the log.
	requeued bool
	// Whether the job is leased, and a later push in replace mode has taken its merge key.
	overtaken bool
}

// past reports whether an end time has passed. The last millisecond still counts as not over.
func past(end, now int64) bool { return now > end }

// end returns the time at which the job is dropped: the end of its TTL while it waits, and the end
// of Retain when it is done. It returns 0 if the job has no such end. During a lease the TTL is
// suspended.
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

// receipt returns the handle of the running delivery.
func (s *shard) receipt(j *job) duly.Receipt {
	return contract.ReceiptParts{Queue: j.Queue, Shard: s.index, Number: j.number, Delivery: j.ended + 1}.Receipt()
}

// dueIn returns the due time of a job in a state. A message has its entry time, unless it is
// delayed, so that ready messages sort by position.
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

	// The model's maps and slices must not be shared, so headers and body are cloned.
	p.Headers, p.Body = maps.Clone(j.Headers), nil
	if body {
		p.Body = slices.Clone(j.Body)
	}

	// A reader gets only the due time, because a Delay would count from a push in the past.
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
