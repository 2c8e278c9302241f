package enginetest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// audit checks the invariants that hold after every test. Counters and sizes of every queue add
// up, lists and the survey agree with them, and Check finds no fault.
func (s *scene) audit() {
	s.Helper()
	for _, namespace := range s.root.namespaces {
		n := s.in(namespace)
		// One page holds every queue, unless there are more queues than a batch may have.
		n.surveyed(duly.MaxBatch)
		for _, queue := range n.queues() {
			q := n.on(queue)
			// Steps apply what is due. The sum must be right before and after.
			q.conserved()
			q.step()
			q.conserved()
			q.listsAgree()
		}
		n.auditTopics()
	}
	s.checked()
}

// conserved checks that every pushed job is counted exactly once: as finished, or in a state.
func (s *scene) conserved() {
	s.Helper()
	st := s.stats()
	c, z := st.Counters, st.Sizes
	// Every job has ended in one of the counters or is still in one of the states.
	sum := c.Acked + c.Merged + c.Expired + c.Deleted + c.Dropped + z.Delayed + z.Ready + z.Blocked + z.Leased + z.Dead
	if c.Pushed != sum {
		s.Errorf("queue %s: %d jobs were pushed, but the counters and sizes add up to %d, want the same: %+v", s.ref(), c.Pushed, sum, st)
	}
}

// surveyed checks that the survey of the namespace agrees with Queues and Stats (C4.94). It reads
// pages of at most limit queues.
func (s *scene) surveyed(limit int) {
	s.Helper()
	p, names := duly.PageParams{Limit: limit}, []string{}
	for pages := 0; ; pages++ {
		page, err := contract.SurveyorOf(s.Engine).Survey(s.ctx, s.namespace, p)
		s.must("survey", err)
		// The bound on pages ends the test if a cursor never ends.
		if len(page.Queues) > limit || pages > 10_000 {
			s.Fatalf("page %d of the survey in pages of at most %d has %d queues", pages, limit, len(page.Queues))
		}
		for _, q := range page.Queues {
			names = append(names, q.Name)
			s.must("survey of "+q.Name, q.Err)
			s.sameStats("the survey of "+q.Name, q.Stats, s.on(q.Name).stats())
			same(s, "the throttle of "+q.Name, q.Throttle, contract.ThrottleOf(s.on(q.Name).config()))
		}
		if p.Cursor = page.Next; p.Cursor == "" {
			break
		}
	}
	// The survey lists groups of topics together with the queues, sorted by name.
	want := append(append([]string{}, s.queues()...), s.groupNames()...)
	slices.Sort(want)
	s.sameIDs("the queues and groups of the survey", names, want)
}

// listsAgree checks that each list has as many jobs as the queue's sizes say, all in that state.
// The queue must have been stepped.
func (s *scene) listsAgree() {
	s.Helper()
	sizes := s.stats().Sizes
	for _, state := range duly.States {
		if *sizes.Of(state) > 2500 {
			continue // listing so many jobs would take most of the test's time
		}
		jobs := s.list(state)
		if int64(len(jobs)) != *sizes.Of(state) {
			s.Errorf("queue %s lists %d %s jobs, its size is %d", s.ref(), len(jobs), state, *sizes.Of(state))
		}
		for _, j := range jobs {
			if j.State != state {
				s.Errorf("job %q in the list of %s jobs has the state %s, want the state of the list", j.ID, state, j.State)
			}
		}
	}
}

// checked checks that Check finds no fault.
func (s *scene) checked() {
	s.Helper()
	report, err := s.Maintainer.Check(s.ctx, contract.CheckParams{})
	s.must("check", err)
	for _, f := range report.Faults {
		s.Errorf("check finds %s in %s at job %q: %s", f.Kind, f.Queue, f.ID, f.Detail)
	}
}

// dump returns all that the API shows of a queue, as text. Tests compare two dumps to prove that
// nothing changed.
func (s *scene) dump() string {
	s.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "queues %q\nconfig %+v\nstats %+v\n", s.queues(), s.config(), s.stats())
	s.dumpJobs(&b)
	// Peek fails if no job is ready. The error is part of the state as well.
	if info, err := s.Engine.Peek(s.ctx, s.ref()); err == nil {
		fmt.Fprintf(&b, "peek %+v\n", info)
	}
	return b.String()
}

// dumpJobs writes each job as List and as Get return it.
func (s *scene) dumpJobs(b *strings.Builder) {
	s.Helper()
	for _, state := range duly.States {
		for _, j := range s.list(state) {
			fmt.Fprintf(b, "%s: listed %+v\n", state, j)
			info, err := s.Engine.Get(s.ctx, s.ref(), j.ID)
			if err != nil {
				fmt.Fprintf(b, "%s: not got: %v\n", state, err)
				continue
			}
			fmt.Fprintf(b, "%s: got %+v\n", state, info)
		}
	}
}

// unchanged reports an error if f changes anything that the API shows.
func (s *scene) unchanged(what string, f func()) {
	s.Helper()
	before := s.dump()
	f()
	if after := s.dump(); after != before {
		s.Errorf("%s changed the state.\nbefore:\n%s\nafter:\n%s", what, before, after)
	}
}
