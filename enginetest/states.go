package enginetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

func stateTests() []test {
	return []test{
		{"EveryTransitionMatchesTheTable", []string{
			"C3.1", "C3.2", "C3.3", "C3.4", "C3.5", "C3.6", "C3.7", "C3.8", "C3.9", "C3.10", "C3.11", "C3.12", "C3.13",
			"C3.14", "C3.15",
			"C3.16", "C3.17", "C3.18", "C3.19", "C3.20", "C3.21", "C3.22", "C3.23", "C3.24", "C3.25", "C3.26", "C3.27", "C3.28",
		}, Options{}, statesWalked},
	}
}

// driveResult is the result of an event, except for the job's new state.
type driveResult struct {
	err     error
	outcome duly.PushStatus
}

// drive causes one event by public operations. The job is x. The receipt belongs to a delivery of
// x. The delivery is in flight if x is leased, and has ended in all other states.
type drive func(s *scene, receipt duly.Receipt) driveResult

// reach moves a new job x into a state.
func (s *scene) reach(state duly.State) (id string, receipt duly.Receipt) {
	s.Helper()
	return s.reachAs(state, duly.Job{})
}

// reachAs is like reach, for a given job. The job was delivered once in every state, so that there
// is a receipt.
func (s *scene) reachAs(state duly.State, j duly.Job) (id string, receipt duly.Receipt) {
	s.Helper()
	j.ID, j.Lease, j.Backoff = "x", 10*time.Hour, "fixed:1h"
	if j.Retain == 0 {
		j.Retain = 20 * time.Hour
	}
	if state == duly.StateBlocked {
		j.OrderKey = "k"
	}
	s.push(j)
	d := s.takes("x")[0]
	switch state {
	case duly.StateDelayed:
		s.snooze(d, 10*time.Hour)
	case duly.StateReady:
		s.release(d)
	// A delivered job keeps its key unless it becomes dead.
	case duly.StateBlocked:
		s.bury(d, "no")
		s.push(duly.Job{ID: "head", OrderKey: "k"})
		s.requeue("x")
	case duly.StateDead:
		s.bury(d, "no")
	case duly.StateDone:
		s.ack(d)
	}
	s.is("x", state)
	return "x", d.Receipt
}

// stateOf returns the state at the current time, or StateNone if the job does not exist.
func (s *scene) stateOf(id string) duly.State {
	s.Helper()
	info, err := s.Engine.Get(s.ctx, s.ref(), id)
	if duly.CodeOf(err) == duly.CodeNotFound {
		return duly.StateNone
	}
	s.must("get", err)
	return info.State
}

// cell is a state and an event of the state table.
type cell struct {
	from  duly.State
	event contract.Event
}

// statesWalked causes every event in every state and compares the result with the table. Cells with
// several results are driven to each of these results.
func statesWalked(s *scene) {
	reached := map[cell][]duly.State{}
	walk := func(c cell, name string, j duly.Job, do drive) {
		n := s.on(nameOf(fmt.Sprintf("%s of %s %s", c.event, c.from, name)))
		_, receipt := n.reachAs(c.from, j)
		got := do(n, receipt)
		to := n.stateOf("x")
		reached[c] = append(reached[c], to)
		n.agrees(c, name, got, to)
	}

	for _, event := range contract.Events {
		for _, from := range duly.States {
			walk(cell{from, event}, "", duly.Job{Merge: duly.Merge{Key: "m", Until: duly.UntilDone}}, usualDrive(event))
		}
	}

	for _, v := range variants() {
		walk(v.cell, v.name, v.job, v.do)
	}

	for _, event := range contract.Events {
		for _, from := range duly.States {
			s.allReached(cell{from, event}, reached[cell{from, event}])
		}
	}
}

// agrees compares a transition with the table.
func (s *scene) agrees(c cell, name string, got driveResult, to duly.State) {
	s.Helper()
	want := contract.Next(c.from, c.event)
	if !want.Possible() {
		if to != c.from {
			s.Errorf("%s %s of a %s job can't happen, but the job is %s", c.event, name, c.from, to)
		}
		return
	}
	if !slices.Contains(want.To, to) {
		s.Errorf("%s %s of a %s job: the new state is %s, want one of %s", c.event, name, c.from, to, want.To)
	}
	if code := duly.CodeOf(got.err); code != want.Refused {
		s.Errorf("%s %s of a %s job returns %q (%v), want %q", c.event, name, c.from, code, got.err, want.Refused)
	}
	if got.outcome != want.Status {
		s.Errorf("%s %s of a %s job returns %s, want %s", c.event, name, c.from, got.outcome, want.Status)
	}
}

// allReached reports an error unless every result of a cell was seen. A ready job holds its key,
// and another job holds the key of a blocked job. So an update or a merge never makes a ready job
// blocked, or the other way round.
func (s *scene) allReached(c cell, reached []duly.State) {
	s.Helper()
	for _, to := range contract.Next(c.from, c.event).To {
		changed := c.event == contract.EventUpdate || c.event == contract.EventMerge
		swap := c.from == duly.StateReady && to == duly.StateBlocked || c.from == duly.StateBlocked && to == duly.StateReady
		if changed && swap {
			continue
		}
		if !slices.Contains(reached, to) {
			s.Errorf("no test moved a job from %s by %s to %s", c.from, c.event, to)
		}
	}
}

// usualDrive returns the drive of an event that works in every state.
func usualDrive(event contract.Event) drive {
	switch event {
	case contract.EventDue:
		return stateIs(duly.StateDelayed, 10*time.Hour)
	case contract.EventStall:
		return stateIs(duly.StateLeased, 10*time.Hour+time.Second)
	case contract.EventExpire:
		return driveExpire
	case contract.EventTrim:
		return driveTrim
	case contract.EventReserve:
		return func(s *scene, _ duly.Receipt) driveResult { s.takeAll(); return driveResult{} }
	case contract.EventKeyFreed:
		return driveKeyFreed
	case contract.EventAck:
		return driveSettle(duly.SettleRequest{As: duly.Ack})
	case contract.EventBury:
		return driveSettle(duly.SettleRequest{As: duly.Bury})
	case contract.EventNack:
		return driveSettle(duly.SettleRequest{As: duly.Nack})
	case contract.EventRelease:
		return driveSettle(duly.SettleRequest{As: duly.Release})
	case contract.EventExtend:
		return func(s *scene, r duly.Receipt) driveResult { return driveResult{err: s.extend(r, time.Hour)} }
	case contract.EventPush:
		return drivePush(duly.Job{ID: "x"})
	case contract.EventMerge:
		return driveMerge
	case contract.EventUpdate:
		return driveUpdate(duly.Update{Tries: 3})
	case contract.EventPromote:
		return func(s *scene, _ duly.Receipt) driveResult {
			return driveResult{err: s.Engine.Promote(s.ctx, s.ref(), "x")}
		}
	case contract.EventRequeue:
		return func(s *scene, _ duly.Receipt) driveResult { return driveResult{err: s.requeue("x").Err} }
	}
	return func(s *scene, _ duly.Receipt) driveResult {
		return driveResult{err: s.Engine.Delete(s.ctx, s.ref(), "x")}
	}
}

// stateIs returns a drive that advances the clock if the job is in this state, and then steps.
func stateIs(state duly.State, d time.Duration) drive {
	return func(s *scene, _ duly.Receipt) driveResult {
		if s.stateOf("x") == state {
			s.Advance(d)
		}
		s.step()
		return driveResult{}
	}
}

// driveExpire sets the TTL of a waiting job only at this time, because a requeued job has none. A
// job in flight got its TTL at the push.
func driveExpire(s *scene, _ duly.Receipt) driveResult {
	if s.stateOf("x").Waiting() {
		// An update may not set a due time beyond the expiry.
		if s.get("x").State == duly.StateDelayed {
			s.must("update", s.update("x", duly.Update{Delay: ptr(time.Hour), TTL: time.Hour}))
		} else {
			s.must("update", s.update("x", duly.Update{TTL: time.Hour}))
		}
	}
	s.Advance(2 * time.Hour)
	s.step()
	return driveResult{}
}

func driveTrim(s *scene, _ duly.Receipt) driveResult {
	switch s.stateOf("x") {
	case duly.StateDead:
		s.Advance(duly.DefaultDeadAge + time.Second)
	case duly.StateDone:
		s.Advance(20*time.Hour + time.Second)
	}
	s.step()
	return driveResult{}
}

func driveKeyFreed(s *scene, _ duly.Receipt) driveResult {
	// The job has no head, so the event must not affect it.
	if s.stateOf("head") == duly.StateNone {
		s.push(duly.Job{ID: "head", OrderKey: "another"})
	}
	s.must("delete", s.Engine.Delete(s.ctx, s.ref(), "head"))
	return driveResult{}
}

func driveSettle(o duly.SettleRequest) drive {
	return func(s *scene, r duly.Receipt) driveResult {
		o.Receipt = r
		return driveResult{err: s.settle(o)}
	}
}

func driveUpdate(u duly.Update) drive {
	return func(s *scene, _ duly.Receipt) driveResult { return driveResult{err: s.update("x", u)} }
}

func drivePush(j duly.Job) drive {
	return func(s *scene, _ duly.Receipt) driveResult {
		r := s.try(j)
		return driveResult{err: r.Err, outcome: r.Status}
	}
}

// driveMerge pushes a job with the merge key and the order key of x.
func driveMerge(s *scene, r duly.Receipt) driveResult {
	return drivePush(duly.Job{ID: "y", OrderKey: s.get("x").OrderKey, Merge: duly.Merge{Key: "m"}})(s, r)
}

// variant drives a cell to another one of its results.
type variant struct {
	cell cell
	name string
	job  duly.Job
	do   drive
}

func variants() []variant {
	zero := time.Duration(0)
	merge := duly.Merge{Key: "m"}
	replace := duly.Merge{Key: "m", Mode: duly.MergeReplace}
	leased := func(e contract.Event) cell { return cell{duly.StateLeased, e} }
	late := func(do drive) drive { // runs after the expiry
		return func(s *scene, r duly.Receipt) driveResult { s.Advance(2 * time.Hour); return do(s, r) }
	}
	superseded := func(do drive) drive { // runs while a newer job with the same merge key exists
		return func(s *scene, r duly.Receipt) driveResult {
			s.push(duly.Job{ID: "newer", Merge: merge})
			return do(s, r)
		}
	}
	ttl := duly.Job{TTL: time.Hour}
	nack, release, stall := usualDrive(contract.EventNack), usualDrive(contract.EventRelease),
		usualDrive(contract.EventStall)
	return append([]variant{
		{leased(contract.EventExpire), "in time", ttl, late(func(s *scene,
			_ duly.Receipt) driveResult {
			s.step()
			return driveResult{}
		})},
		{leased(contract.EventAck), "without retain", duly.Job{Retain: duly.None}, usualDrive(contract.EventAck)},
		{leased(contract.EventNack), "at once", duly.Job{}, driveSettle(duly.SettleRequest{As: duly.Nack, Delay: &zero})},
		{leased(contract.EventNack), "for the last time", duly.Job{Tries: 1}, nack},
		{leased(contract.EventNack), "beyond the expiry", ttl, late(nack)},
		{leased(contract.EventNack), "behind a newer", duly.Job{Merge: merge}, superseded(nack)},
		{leased(contract.EventRelease), "for an hour", duly.Job{},
			driveSettle(duly.SettleRequest{As: duly.Release, Delay: ptr(time.Hour)})},
		{leased(contract.EventRelease), "beyond the expiry", ttl, late(release)},
		{leased(contract.EventRelease), "behind a newer", duly.Job{Merge: merge}, superseded(release)},
		{leased(contract.EventStall), "for the last time", duly.Job{Tries: 1, MaxStalls: duly.None}, stall},
		{leased(contract.EventStall), "beyond the expiry", ttl, stall},
		{leased(contract.EventStall), "behind a newer", duly.Job{Merge: merge}, superseded(stall)},
		{cell{duly.StateReady, contract.EventUpdate}, "putting off", duly.Job{},
			driveUpdate(duly.Update{Delay: ptr(time.Hour)})},
		{cell{duly.StateBlocked, contract.EventUpdate}, "putting off", duly.Job{},
			driveUpdate(duly.Update{Delay: ptr(time.Hour)})},
		{cell{duly.StateDelayed, contract.EventUpdate}, "at once", duly.Job{}, driveUpdate(duly.Update{Delay: &zero})},
		{cell{duly.StateDelayed, contract.EventMerge}, "at once", duly.Job{Merge: replace},
			drivePush(duly.Job{Merge: replace})},
		{cell{duly.StateReady, contract.EventMerge}, "putting off", duly.Job{Merge: replace},
			drivePush(duly.Job{Delay: time.Hour, Merge: replace})},
		{cell{duly.StateBlocked, contract.EventMerge}, "putting off", duly.Job{Merge: replace},
			drivePush(duly.Job{OrderKey: "k", Delay: time.Hour, Merge: replace})},
		{cell{duly.StateBlocked, contract.EventMerge}, "in its key", duly.Job{Merge: merge},
			drivePush(duly.Job{OrderKey: "k", Merge: merge})},
		{cell{duly.StateDead, contract.EventRequeue}, "to a busy key", duly.Job{OrderKey: "k"},
			func(s *scene, _ duly.Receipt) driveResult {
				s.push(duly.Job{ID: "head", OrderKey: "k"})
				return driveResult{err: s.requeue("x").Err}
			}},
		{cell{duly.StateDead, contract.EventRequeue}, "to a held merge key", duly.Job{Merge: merge},
			superseded(usualDrive(contract.EventRequeue))},
	}, append(busyKeyVariants(), purgeVariants()...)...)
}

// busyKeyVariants move a delayed job to blocked. A delivered job holds its key, so it is replaced
// by a new job that waits for a job with the same key.
func busyKeyVariants() []variant {
	replace := duly.Merge{Key: "m", Mode: duly.MergeReplace}
	j := duly.Job{OrderKey: "k", Merge: replace}
	behind := func(do drive) drive {
		return func(s *scene, r duly.Receipt) driveResult {
			s.must("delete", s.Engine.Delete(s.ctx, s.ref(), "x"))
			s.push(duly.Job{ID: "head", OrderKey: "k"})
			s.push(duly.Job{ID: "x", OrderKey: "k", Merge: replace, Delay: 10 * time.Hour})
			return do(s, r)
		}
	}
	return []variant{
		{cell{duly.StateDelayed, contract.EventDue}, "to a busy key", j, behind(usualDrive(contract.EventDue))},
		{cell{duly.StateDelayed, contract.EventPromote}, "to a busy key", j, behind(usualDrive(contract.EventPromote))},
		{cell{duly.StateDelayed, contract.EventUpdate}, "to a busy key", j,
			behind(driveUpdate(duly.Update{Delay: ptr(time.Duration(0))}))},
		{cell{duly.StateDelayed, contract.EventMerge}, "to a busy key", j,
			behind(drivePush(duly.Job{OrderKey: "k", Merge: replace}))},
	}
}

// purgeVariants delete jobs by Purge.
func purgeVariants() (vs []variant) {
	for _, state := range duly.States {
		vs = append(vs, variant{cell{state, contract.EventDelete}, "by purge", duly.Job{},
			func(s *scene, _ duly.Receipt) driveResult {
				_, err := s.Engine.Purge(s.ctx, s.ref(), state, 1)
				return driveResult{err: err}
			}})
	}
	return vs
}
