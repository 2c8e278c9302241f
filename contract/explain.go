package contract

import (
	"context"
	"slices"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
)

const (
	// MaxBehind is the number of ready jobs up to which an Explain counts.
	MaxBehind = 10_000
	// MaxBlocked is the number of blocked jobs of an order key up to which an Explain counts.
	MaxBlocked = 1000
)

// Explainer is implemented by engines that know what holds a job back. [ExplainerOf] returns an
// Explainer for every engine.
type Explainer interface {
	// Explain returns the facts that hold a job back now. They are from one moment, and Explain
	// changes nothing. It returns [duly.ErrNotFound] if the job does not exist. Groups of topics
	// have no Explain.
	Explain(ctx context.Context, q duly.QueueRef, id string) (Explanation, error)
}

// Explanation is the result of an Explain.
type Explanation struct {
	State duly.State // by the clock, as Get returns it
	Now   time.Time  // on the clock of the engine
	// Facts are in the order of the codes below.
	Facts []Fact
}

// Held reports whether a fact holds the job back. If none does, the next Reserve from the shard
// returns the ready job.
func (x *Explanation) Held() bool {
	return x.State != duly.StateReady || slices.ContainsFunc(x.Facts, func(f Fact) bool {
		return f.Code != FactExpires && f.Code != FactMerging
	})
}

// FactCode names a kind of fact. A caller must ignore codes that it does not know.
type FactCode string

// The kinds of facts. The comments describe the fields that a fact has besides its code.
const (
	// FactDelayed: the job is due at At. Cause is one of the causes below. If the job has failed, Used
	// is the number of its failures and Limit its tries.
	FactDelayed FactCode = "delayed"
	// FactPaused: the queue is paused.
	FactPaused FactCode = "paused"
	// FactMaxLeased: the shard of the job has Used running leases and allows Limit. The next of them
	// ends at At.
	FactMaxLeased FactCode = "max_leased"
	// FactRate: the rate of the shard allows the next delivery at At.
	FactRate FactCode = "rate"
	// FactClosed: the shard is closed until At. Cause is the reason, which may be empty.
	FactClosed FactCode = "closed"
	// FactProbing: the shard waits for its probe, Holder, whose lease ends at At.
	FactProbing FactCode = "probing"
	// FactBlocked: another job, Holder, has the order key. Count blocked jobs of the key are
	// delivered before this one. At is the moment of the holder.
	FactBlocked FactCode = "blocked"
	// FactBehind: Count ready jobs of the shard are delivered before this one.
	FactBehind FactCode = "behind"
	// FactLeased: the job is leased until At.
	FactLeased FactCode = "leased"
	// FactStepPending: a moment, At, has passed, and the engine has not moved the job yet.
	FactStepPending FactCode = "step_pending"
	// FactExpires: the waiting or done job expires after At.
	FactExpires FactCode = "expires"
	// FactDead: the job is dead since At. Cause is its last error. Used is the number of its failures
	// and Limit its tries.
	FactDead FactCode = "dead"
	// FactDone: the job is done since At.
	FactDone FactCode = "done"
	// FactMerging: pushes with the merge key merge into the waiting job. Cause is the mode. They can
	// postpone the job until At at most.
	FactMerging FactCode = "merging"
	// FactMoving: the namespace moves to another pool, which has the job. Count jobs of the queue are
	// in the old pool, which is served first. Only pools return it.
	FactMoving FactCode = "moving"
)

// The causes of [FactDelayed], as far as the stored job shows them.
const (
	DelayedByPush   = "push"   // the job was never delivered
	DelayedByRetry  = "retry"  // no delivery of the job was released
	DelayedBySnooze = "snooze" // no delivery of the job has failed or stalled
	// DelayedByEither means that deliveries of the job have failed or stalled, and others were
	// released. The job does not store which was the last.
	DelayedByEither = "retry_or_snooze"
)

// Fact is something that holds a job back, or that ends its wait. Fields that a code does not use
// are zero.
type Fact struct {
	Code FactCode
	// At is the moment at which the fact changes by itself, or the moment of the fact. It is zero if
	// none is known.
	At          time.Time
	Cause       string
	Used, Limit int
	// Count is a number of jobs. More reports whether there are more than that.
	Count  int
	More   bool
	Holder Holder // zero if there is none, or if it is unknown
}

// Holder is another job for which the explained one waits.
type Holder struct {
	ID    string
	State duly.State
	// At is when the holder is due, or when its lease ends. It is zero for a ready holder.
	At time.Time
}

// ValidateExplain returns [duly.ErrInvalid] with every bad parameter.
func ValidateExplain(q duly.QueueRef, id string) error {
	var f BadFields
	f.Take(ValidateQueue(q))
	f.Take(ValidateID(id))
	if err := f.Err(); err != nil {
		return err
	}
	if q.IsGroup() {
		return NotForGroup(q, "explanation")
	}
	return nil
}

// ExplainerOf returns the engine itself if it is an Explainer. Otherwise it returns an Explainer
// whose Explain returns [duly.ErrUnsupported].
func ExplainerOf(e duly.Engine) Explainer {
	if x, ok := e.(Explainer); ok {
		return x
	}
	return noExplainer{}
}

type noExplainer struct{}

// Explain implements Explainer.
func (noExplainer) Explain(context.Context, duly.QueueRef, string) (Explanation, error) {
	return Explanation{}, Errorf(duly.CodeUnsupported, "this engine cannot explain what holds a job back")
}

// Standing is what an engine has read of a job and of its shard at one moment. [Standing.Explain]
// derives the facts from it, so that all engines use the same words.
type Standing struct {
	Job    duly.JobInfo // with its state by the clock
	Ended  uint64       // deliveries of the job that have ended
	Stored duly.State   // the state in which the shard stores the job
	Now    int64        // in ms

	// The fields below are used only if the job waits.

	Paused    bool
	Leased    int       // running leases of the shard
	MaxLeased int       // the bound that the shard enforces now, or duly.None
	NextEnd   int64     // when the first of these leases ends, 0 if there is none
	Tokens    int64     // as [Bucket.Tokens] returns it for the rate that the shard enforces now
	NextToken time.Time // likewise
	Closing   Closing   // after the step that ends a probe whose lease has run out
	Probing   bool      // whether the shard waits for a probe whose lease runs
	Probe     *duly.JobInfo
	// Head is the job that holds the order key of a blocked job. Its state by the clock is
	// [duly.StateNone] if it has expired.
	Head *duly.JobInfo
	// Ahead counts the jobs that are delivered before this one: the ready jobs of the shard for a ready
	// job, up to MaxBehind + 1, and the blocked jobs of its key for a blocked job, up to MaxBlocked + 1.
	Ahead int
}

// Explain returns the facts of a job.
func (s *Standing) Explain() Explanation {
	x := Explanation{State: s.Job.State, Now: clock.FromMilli(s.Now)}
	add := func(f Fact, holds bool) {
		if holds {
			x.Facts = append(x.Facts, f)
		}
	}

	j := &s.Job
	if j.State.Waiting() {
		add(s.delayed(), j.State == duly.StateDelayed)
		add(Fact{Code: FactPaused}, s.Paused)
		// A limit that is full now may be free when a delayed job is due.
		if j.State != duly.StateDelayed {
			s.addLimits(add)
		}
		add(s.blocked(), j.State == duly.StateBlocked)
		add(counted(FactBehind, s.Ahead, MaxBehind), j.State == duly.StateReady && s.Ahead > 0)
	}

	add(Fact{Code: FactLeased, At: j.LeaseEnd}, j.State == duly.StateLeased)
	pending, at := s.pending()
	add(Fact{Code: FactStepPending, At: at}, pending)
	ends := s.ends()
	add(Fact{Code: FactExpires, At: ends}, !ends.IsZero())
	add(Fact{Code: FactDead, At: j.FinishedAt, Cause: j.LastError, Used: s.failures(), Limit: j.Tries},
		j.State == duly.StateDead)
	add(Fact{Code: FactDone, At: j.FinishedAt}, j.State == duly.StateDone)
	add(s.merging(), j.State.Waiting() && j.Merge.Set())
	return x
}

// failures returns the number of failed tries, which includes the stalls of a job without MaxStalls.
func (s *Standing) failures() int {
	if s.Job.MaxStalls == duly.None {
		return s.Job.Failures + s.Job.Stalls
	}
	return s.Job.Failures
}

func (s *Standing) delayed() Fact {
	f := Fact{Code: FactDelayed, At: s.Job.Due, Cause: DelayedByEither}
	switch bad := uint64(s.Job.Failures + s.Job.Stalls); {
	case s.Ended == 0:
		f.Cause = DelayedByPush
	case bad == 0:
		f.Cause = DelayedBySnooze
	case bad >= s.Ended:
		f.Cause = DelayedByRetry
	}
	if n := s.failures(); n > 0 {
		f.Used, f.Limit = n, s.Job.Tries
	}
	return f
}

// addLimits adds what holds back all jobs of the shard.
func (s *Standing) addLimits(add func(f Fact, holds bool)) {
	add(Fact{Code: FactMaxLeased, At: clock.FromMilli(s.NextEnd), Used: s.Leased, Limit: s.MaxLeased},
		s.MaxLeased != duly.None && s.Leased >= s.MaxLeased)
	add(Fact{Code: FactRate, At: onWire(s.NextToken)}, s.Tokens == 0)

	closing := s.Closing.Clip(s.Now)
	add(Fact{Code: FactClosed, At: clock.FromMilli(closing.Until), Cause: closing.Reason}, closing.Until != 0)
	probing := Fact{Code: FactProbing}
	if s.Probe != nil {
		probing.Holder = holderOf(s.Probe)
		probing.At = probing.Holder.At
	}
	add(probing, s.Probing)
}

// holderOf returns a job as a holder, with its state by the clock.
func holderOf(j *duly.JobInfo) Holder {
	h := Holder{ID: j.ID, State: j.State}
	switch j.State {
	case duly.StateDelayed:
		h.At = j.Due
	case duly.StateLeased:
		h.At = j.LeaseEnd
	}
	return h
}

func (s *Standing) blocked() Fact {
	f := counted(FactBlocked, s.Ahead, MaxBlocked)
	// An expired job holds no key. The next step gives the key to the first blocked job.
	if s.Head != nil && s.Head.State != duly.StateNone {
		f.Holder = holderOf(s.Head)
		f.At = f.Holder.At
	}
	return f
}

// counted returns a fact with a number of jobs that was counted up to most + 1.
func counted(code FactCode, n, most int) Fact {
	return Fact{Code: code, Count: min(n, most), More: n > most}
}

// pending reports whether the job waits for a step, and since when.
func (s *Standing) pending() (bool, time.Time) {
	j := &s.Job
	switch {
	case s.Stored == duly.StateDelayed && j.State != duly.StateDelayed:
		return true, j.Due
	case j.State == duly.StateLeased && !j.LeaseEnd.After(clock.FromMilli(s.Now)):
		return true, j.LeaseEnd
	case s.Stored == duly.StateBlocked && s.Head == nil:
		return true, time.Time{}
	case s.Stored == duly.StateBlocked && s.Head.State == duly.StateNone:
		return true, s.Head.ExpiresAt
	}
	return false, time.Time{}
}

// ends returns when the job expires, or the zero time. A lease suspends the TTL.
func (s *Standing) ends() time.Time {
	switch j := &s.Job; {
	case j.State.Waiting():
		return j.ExpiresAt
	case j.State == duly.StateDone:
		return after(j.FinishedAt, j.Retain)
	}
	return time.Time{}
}

func (s *Standing) merging() Fact {
	f := Fact{Code: FactMerging, Cause: string(s.Job.Merge.Mode)}
	if wait := s.Job.Merge.MaxWait; wait > 0 {
		f.At = after(s.Job.PushedAt, wait)
	}
	return f
}

// after returns the time d after t. d is rounded up to milliseconds.
func after(t time.Time, d time.Duration) time.Time {
	return onWire(t.Add(time.Duration(clock.Millis(d)) * time.Millisecond))
}

// onWire returns a time, at most [duly.MaxTime]. The wire has no later time.
func onWire(t time.Time) time.Time {
	if t.After(duly.MaxTime) {
		return duly.MaxTime
	}
	return t
}
