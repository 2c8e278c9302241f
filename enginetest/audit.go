package enginetest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// audit is what must hold after every test, whatever it did: the books of
// every queue balance, lists, sizes and the survey agree, and Check finds nothing.
func (s *scene) audit() {
	s.Helper()
	for _, namespace := range s.root.namespaces {
		n := s.in(namespace)
		n.surveyed(duly.MaxBatch)
		for _, queue := range n.queues() {
			q := n.on(queue)
			q.conserved()
			q.step()
			q.conserved()
			q.listsAgree()
		}
		n.auditTopics()
	}
	s.checked()
}

// conserved wants every job that was pushed to be somewhere (I8).
func (s *scene) conserved() {
	s.Helper()
	st := s.stats()
	c, z := st.Counters, st.Sizes
	sum := c.Acked + c.Merged + c.Expired + c.Deleted + c.Dropped + z.Delayed + z.Ready + z.Blocked + z.Leased + z.Dead
	if c.Pushed != sum {
		s.Errorf("queue %s: %d jobs were pushed and %d are accounted for: %+v", s.ref(), c.Pushed, sum, st)
	}
}

// surveyed wants the survey of the namespace, in pages of so many queues, to tell
// what Queues and Stats do (C4.94).
func (s *scene) surveyed(limit int) {
	s.Helper()
	p, names := duly.PageParams{Limit: limit}, []string{}
	for pages := 0; ; pages++ {
		page, err := contract.SurveyorOf(s.Engine).Survey(s.ctx, s.namespace, p)
		s.must("survey", err)
		if len(page.Queues) > limit || pages > 10_000 {
			s.Fatalf("page %d of the survey in pages of %d has %d queues", pages, limit, len(page.Queues))
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
	want := append(append([]string{}, s.queues()...), s.groupNames()...)
	slices.Sort(want)
	s.sameIDs("the queues and groups of the survey", names, want)
}

// listsAgree wants each list to be as long as its size says, and every job of
// it to say that it is there. The queue has been stepped.
func (s *scene) listsAgree() {
	s.Helper()
	sizes := s.stats().Sizes
	for _, state := range duly.States {
		if *sizes.Of(state) > 2500 {
			continue // the walk would be all that the test does
		}
		jobs := s.list(state)
		if int64(len(jobs)) != *sizes.Of(state) {
			s.Errorf("queue %s lists %d %s jobs, its size is %d", s.ref(), len(jobs), state, *sizes.Of(state))
		}
		for _, j := range jobs {
			if j.State != state {
				s.Errorf("job %q in the list of %s jobs says that it is %s", j.ID, state, j.State)
			}
		}
	}
}

// checked wants Check to find nothing.
func (s *scene) checked() {
	s.Helper()
	report, err := s.Maintainer.Check(s.ctx, contract.CheckParams{})
	s.must("check", err)
	for _, f := range report.Faults {
		s.Errorf("check finds %s in %s at job %q: %s", f.Kind, f.Queue, f.ID, f.Detail)
	}
}

// dump is everything that can be seen of a queue, as text: what must not
// change when nothing may.
func (s *scene) dump() string {
	s.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "queues %q\nconfig %+v\nstats %+v\n", s.queues(), s.config(), s.stats())
	s.dumpJobs(&b)
	if info, err := s.Engine.Peek(s.ctx, s.ref()); err == nil {
		fmt.Fprintf(&b, "peek %+v\n", info)
	}
	return b.String()
}

// dumpJobs writes every job as it is listed and as Get returns it.
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

// unchanged wants f to change nothing that can be seen.
func (s *scene) unchanged(what string, f func()) {
	s.Helper()
	before := s.dump()
	f()
	if after := s.dump(); after != before {
		s.Errorf("%s has changed something.\nbefore:\n%s\nafter:\n%s", what, before, after)
	}
}
