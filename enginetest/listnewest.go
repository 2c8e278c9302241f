package enginetest

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

func listNewestTests() []test {
	one := Options{OneShard: true}
	return []test{
		{"NewestReversesEveryState", []string{"C4.112"}, one, newestStates},
		{"NewestReversesEachShard", []string{"C4.112"}, Options{}, newestShards},
		{"FromBeginsAtTheMoment", []string{"C4.113", "C4.114"}, one, fromMoment},
		{"FromHoldsInEachShard", []string{"C4.113", "C4.116"}, Options{}, fromShards},
		{"FromIsCutToMilliseconds", []string{"C4.114"}, one, fromMilliseconds},
		{"RefusesABadFrom", []string{"C4.114"}, Options{}, fromRefused},
		{"CursorIsValidInBothDirections", []string{"C4.115"}, one, cursorDirections},
		{"CursorAndFromBothBoundTheList", []string{"C4.115"}, one, cursorAndFrom},
		{"NewestReturnsUnchangedJobsExactlyOnce", []string{"C4.116"}, Options{}, newestWhileMoving},
		{"NewestContinuesAfterADeletedJob", []string{"C4.116"}, one, newestBehindDeleted},
	}
}

// statesByTime returns the states that are sorted by time.
func statesByTime() []duly.State {
	return slices.DeleteFunc(slices.Clone(duly.States[:]), func(s duly.State) bool { return !contract.SortedByTime(s) })
}

// momentOf returns the sort key of a job in a state that is sorted by time.
func momentOf(j *duly.JobInfo) time.Time {
	switch j.State {
	case duly.StateDelayed:
		return j.Due
	case duly.StateLeased:
		return j.LeaseEnd
	}
	return j.FinishedAt
}

// isFrom reports whether the list p contains the job.
func isFrom(j *duly.JobInfo, p duly.ListParams) bool {
	if p.Newest {
		return !momentOf(j).After(p.From)
	}
	return !momentOf(j).Before(p.From)
}

// pageIDs returns the IDs of a list, read page by page.
func (s *scene) pageIDs(p duly.ListParams, limit int) []string {
	s.Helper()
	p.Limit = limit
	return idsOf(s.pages(p, nil))
}

func backwards[T any](list []T) []T {
	list = slices.Clone(list)
	slices.Reverse(list)
	return list
}

// newestStates compares the list of each state with its reverse. The jobs have different sort keys,
// and some have the same one.
func newestStates(s *scene) {
	s.pushAll(duly.Job{ID: "d3", Delay: 3 * time.Hour}, duly.Job{ID: "d1", Delay: time.Hour},
		duly.Job{ID: "d2", Delay: 2 * time.Hour}, duly.Job{ID: "d1b", Delay: time.Hour, Priority: 7})
	for i := range 9 {
		s.push(duly.Job{ID: fmt.Sprint("k", i), OrderKey: []string{"a", "bb", "b"}[i%3], Priority: i % 2})
	}
	for i := range 8 {
		lease := time.Duration(1+i%3) * time.Minute
		s.push(duly.Job{ID: fmt.Sprint("l", i), Priority: 10, Lease: lease, Retain: time.Hour})
	}
	ds := s.reserve(8)
	for i, d := range ds[:6] {
		if i == 3 {
			s.Advance(time.Second)
		}
		if i%2 == 0 {
			s.ack(d)
		} else {
			s.bury(d, "no")
		}
	}

	for _, state := range duly.States {
		want := backwards(idsOf(s.list(state)))
		if len(want) < 2 {
			s.Fatalf("there are %d %s jobs, want at least 2", len(want), state)
		}
		for _, limit := range []int{1, 2, 3, 100} {
			got := s.pageIDs(duly.ListParams{State: state, Newest: true}, limit)
			s.sameIDs(fmt.Sprintf("the %s jobs in pages of %d", state, limit), got, want)
		}
	}
}

// pushSpread pushes delayed jobs whose order differs from that of their IDs.
func (s *scene) pushSpread(n int) {
	s.Helper()
	jobs := numbered(n, "j")
	for i := range jobs {
		jobs[i].Delay = time.Hour + time.Duration(i*37%n)*time.Second
	}
	s.pushAll(jobs...)
}

// newestShards finds the shards in a list of jobs with different due times: a shard ends where
// the next job is due earlier.
func newestShards(s *scene) {
	s.pushSpread(200)
	var want []string
	jobs := s.list(duly.StateDelayed)
	for first := 0; first < len(jobs); {
		end := first + 1
		for end < len(jobs) && jobs[end].Due.After(jobs[end-1].Due) {
			end++
		}
		want = append(want, backwards(idsOf(jobs[first:end]))...)
		first = end
	}

	for _, limit := range []int{1, 7, 100, 1000} {
		got := s.pageIDs(duly.ListParams{State: duly.StateDelayed, Newest: true}, limit)
		s.sameIDs(fmt.Sprintf("the jobs in pages of %d", limit), got, want)
	}
}

// fillState moves jobs into a state: three jobs each at three moments, a second apart.
func (s *scene) fillState(state duly.State) []duly.JobInfo {
	s.Helper()
	var ds []duly.Delivery
	for i := range 9 {
		apart := time.Duration(i/3) * time.Second
		j := duly.Job{ID: fmt.Sprint("j", i), Retain: time.Hour, Lease: time.Hour + apart}
		if state == duly.StateDelayed {
			j.Delay = time.Hour + apart
		}
		s.push(j)
	}

	if state != duly.StateDelayed {
		ds = s.reserve(9)
	}
	for i, d := range ds {
		if i%3 == 0 && i > 0 {
			s.Advance(time.Second)
		}
		switch state {
		case duly.StateDead:
			s.bury(d, "no")
		case duly.StateDone:
			s.ack(d)
		}
	}

	jobs := s.list(state)
	same(s, "the number of jobs", len(jobs), 9)
	return jobs
}

func fromMoment(s *scene) {
	for _, state := range statesByTime() {
		n := s.on(state.String())
		jobs := n.fillState(state)
		first, last := momentOf(&jobs[0]), momentOf(&jobs[8])
		for _, from := range []time.Time{
			first.Add(-time.Minute), first.Add(-time.Millisecond), first, first.Add(time.Millisecond),
			momentOf(&jobs[4]), last, last.Add(time.Millisecond), last.Add(time.Minute), duly.MaxTime, time.Unix(0, 0),
		} {
			for _, newest := range []bool{false, true} {
				n.listsFrom(jobs, duly.ListParams{State: state, Newest: newest, From: from})
			}
		}
	}
}

// listsFrom compares a list from a moment with the jobs of the whole list, oldest first.
func (s *scene) listsFrom(jobs []duly.JobInfo, p duly.ListParams) {
	s.Helper()
	var want []string
	for i := range jobs {
		if isFrom(&jobs[i], p) {
			want = append(want, jobs[i].ID)
		}
	}
	if p.Newest {
		slices.Reverse(want)
	}
	for _, limit := range []int{1, 2, 100} {
		what := fmt.Sprintf("the %s jobs from %s, newest %t, in pages of %d", p.State, p.From, p.Newest, limit)
		s.sameIDs(what, s.pageIDs(p, limit), want)
	}
}

// fromShards lists from a moment in several shards. The order of the shards is that of the whole list.
func fromShards(s *scene) {
	s.pushSpread(200)
	for _, newest := range []bool{false, true} {
		p := duly.ListParams{State: duly.StateDelayed, Newest: newest}
		all := s.pages(p, nil)
		p.From = s.now().Add(time.Hour + 77*time.Second)
		var want []string
		for i := range all {
			if isFrom(&all[i], p) {
				want = append(want, all[i].ID)
			}
		}
		for _, limit := range []int{1, 7, 1000} {
			s.sameIDs(fmt.Sprintf("newest %t, in pages of %d", newest, limit), s.pageIDs(p, limit), want)
		}
	}
}

func fromMilliseconds(s *scene) {
	jobs := s.fillState(duly.StateDelayed)
	at := jobs[4].Due
	p := duly.ListParams{State: duly.StateDelayed, From: at.Add(time.Millisecond - 1)}
	s.sameIDs("the jobs from less than a millisecond later", s.pageIDs(p, 100), idsOf(jobs[3:]))
	p.From = at.Add(-1)
	p.Newest = true
	s.sameIDs("the jobs until a nanosecond before", s.pageIDs(p, 100), backwards(idsOf(jobs[:3])))
}

func fromRefused(s *scene) {
	s.push(duly.Job{})
	list := func(state duly.State, from time.Time) error {
		_, err := s.Engine.List(s.ctx, s.ref(), duly.ListParams{State: state, From: from})
		return err
	}
	for _, state := range []duly.State{duly.StateReady, duly.StateBlocked} {
		s.namesBound("from of "+state.String()+" jobs", list(state, s.now()), "from", "delayed, leased, dead or done")
	}
	for _, state := range statesByTime() {
		s.namesBound("from before 1970", list(state, time.Unix(-1, 0)), "from", "1970")
		s.namesBound("from beyond the latest time", list(state, duly.MaxTime.Add(time.Hour)), "from", "9999")
	}
}

func cursorDirections(s *scene) {
	for _, state := range duly.States {
		n := s.on(state.String())
		ids := n.reachAll(state, "a", "b", "c", "d", "e")
		for _, newest := range []bool{false, true} {
			p := duly.ListParams{State: state, Newest: newest, PageParams: duly.PageParams{Limit: 3}}
			page, err := n.Engine.List(n.ctx, n.ref(), p)
			n.must("list", err)
			n.sameIDs("the first page", idsOf(page.Jobs), inDirection(ids, newest)[:3])

			// The cursor is the place of the third job. The same call finishes the list, and the
			// other direction goes back.
			p.Cursor = page.Next
			n.sameIDs("the rest", n.pageIDs(p, 1), inDirection(ids, newest)[3:])
			p.Newest = !newest
			n.sameIDs("the way back", n.pageIDs(p, 1), inDirection(ids, !newest)[3:])
		}
	}
}

func inDirection(ids []string, newest bool) []string {
	if newest {
		return backwards(ids)
	}
	return ids
}

func cursorAndFrom(s *scene) {
	for _, state := range statesByTime() {
		n := s.on(state.String())
		jobs := n.fillState(state)
		ids := idsOf(jobs)
		p := duly.ListParams{State: state, PageParams: duly.PageParams{Limit: 4}}
		page, err := n.Engine.List(n.ctx, n.ref(), p)
		n.must("list", err)
		p.Cursor = page.Next // the place of jobs[3], the first of the second moment

		for _, c := range []struct {
			newest bool
			from   time.Time
			want   []string
		}{
			{false, momentOf(&jobs[0]), ids[4:]},
			{false, momentOf(&jobs[3]), ids[4:]},
			{false, momentOf(&jobs[8]), ids[6:]},
			{true, momentOf(&jobs[8]), backwards(ids[:3])},
			{true, momentOf(&jobs[3]), backwards(ids[:3])},
			{true, momentOf(&jobs[0]), backwards(ids[:3])},
			{true, momentOf(&jobs[0]).Add(-1), nil},
		} {
			p.Newest, p.From = c.newest, c.from
			for _, limit := range []int{1, 2, 100} {
				what := fmt.Sprintf("the %s jobs after the cursor, from %s, newest %t", state, c.from, c.newest)
				n.sameIDs(what, n.pageIDs(p, limit), c.want)
			}
		}
	}
}

// newestWhileMoving pages through jobs in both directions and from a moment, while others come and
// go at both ends and in the middle.
func newestWhileMoving(s *scene) {
	const n = 240
	for _, from := range []time.Duration{0, 20 * time.Second} {
		for _, newest := range []bool{false, true} {
			q := s.on(fmt.Sprintf("newest-%t-%d", newest, from/time.Second))
			jobs := numbered(n, "j")
			for i := range jobs {
				// Groups of four jobs are due at the same time, so that pages also end within a group.
				jobs[i].Delay = time.Hour + time.Duration(i/4)*time.Second
			}
			p := duly.ListParams{State: duly.StateDelayed, Newest: newest, PageParams: duly.PageParams{Limit: 20}}
			if from != 0 {
				p.From = s.now().Add(time.Hour + from)
			}
			q.pushAll(jobs...)
			q.listsUnchangedOnce(p, jobs)
		}
	}
}

func (s *scene) listsUnchangedOnce(p duly.ListParams, jobs []duly.Job) {
	s.Helper()
	deleted, start := map[string]bool{}, s.now()
	seen := s.pages(p, func(page int) {
		if gone := (page*50 + 3) % len(jobs); !deleted[jobs[gone].ID] {
			deleted[jobs[gone].ID] = true
			s.must("delete", s.Engine.Delete(s.ctx, s.ref(), jobs[gone].ID))
		}
		for _, delay := range []time.Duration{time.Minute, time.Hour + 25*time.Second, 2 * time.Hour} {
			s.push(duly.Job{ID: fmt.Sprintf("new-%s-%d", delay, page), Delay: delay})
		}
	})

	s.listedOnce(fmt.Sprintf("newest %t, from %s", p.Newest, p.From), seen, jobs, deleted, func(j *duly.Job) bool {
		info := duly.JobInfo{State: p.State, Job: duly.Job{Due: start.Add(j.Delay)}}
		return p.From.IsZero() || isFrom(&info, p)
	})
}

// listedOnce checks a list that was read while jobs were pushed and deleted. Each of jobs that belongs
// to the list must be in it once. A deleted job may be missing.
func (s *scene) listedOnce(
	what string, list []duly.JobInfo, jobs []duly.Job, deleted map[string]bool, contains func(*duly.Job) bool,
) {
	s.Helper()
	times := map[string]int{}
	for i := range list {
		times[list[i].ID]++
	}

	for i := range jobs {
		id, in := jobs[i].ID, contains(&jobs[i])
		switch n := times[id]; {
		case n > 1:
			s.Errorf("%s: %q was listed %d times, want once", what, id, n)
		case n == 1 && !in:
			s.Errorf("%s: %q was listed, but does not belong to the list", what, id)
		case n == 0 && in && !deleted[id]:
			s.Errorf("%s: %q was not listed, want once", what, id)
		}
	}
}

// newestBehindDeleted deletes the last job of each page before it reads the next one. All jobs have
// the same sort key.
func newestBehindDeleted(s *scene) {
	for _, state := range duly.States {
		n := s.on(state.String())
		want := backwards(n.reachAll(state, "a", "b", "c", "d", "e", "f", "g", "h", "i"))
		p := duly.ListParams{State: state, Newest: true, PageParams: duly.PageParams{Limit: 2}}
		listed := n.pages(p, func(page int) {
			// An engine may return a cursor whose page is empty.
			if last := 2*page + 1; last < len(want) {
				n.must("delete", n.Engine.Delete(n.ctx, n.ref(), want[last]))
			}
		})
		n.sameIDs("the "+state.String()+" jobs", idsOf(listed), want)
	}
}

// shardsReversed lists jobs with known shards: the shards come in turn, and each is reversed.
func shardsReversed(s *scene) {
	s.over(duly.QueueConfig{})
	jobs := inEach(12, duly.Job{})
	for i := range jobs {
		jobs[i].Delay = time.Duration(1+i*7%11) * time.Second
	}
	start := s.now()
	s.pushAll(jobs...)

	for _, p := range []duly.ListParams{
		{State: duly.StateDelayed},
		{State: duly.StateDelayed, From: start.Add(5 * time.Second)},
		{State: duly.StateDelayed, Newest: true},
		{State: duly.StateDelayed, Newest: true, From: start.Add(5 * time.Second)},
	} {
		var want []string
		for shard := range manyShards {
			want = append(want, inDirection(s.inShardFrom(shard, jobs, p, start), p.Newest)...)
		}
		for _, limit := range []int{1, 5, 12, 1000} {
			what := fmt.Sprintf("newest %t, from %s, in pages of %d", p.Newest, p.From, limit)
			s.sameIDs(what, s.pageIDs(p, limit), want)
		}
	}
}

// inShardFrom returns the IDs of the jobs of one shard that the list p contains, by due time.
func (s *scene) inShardFrom(shard int, jobs []duly.Job, p duly.ListParams, start time.Time) (ids []string) {
	s.Helper()
	jobs = slices.Clone(jobs)
	slices.SortFunc(jobs, func(a, b duly.Job) int {
		return cmp.Or(cmp.Compare(a.Delay, b.Delay), cmp.Compare(a.ID, b.ID))
	})
	for _, j := range jobs {
		info := duly.JobInfo{State: p.State, Job: duly.Job{Due: start.Add(j.Delay)}}
		if contract.ShardOf(j.ID, manyShards) == shard && (p.From.IsZero() || isFrom(&info, p)) {
			ids = append(ids, j.ID)
		}
	}
	return ids
}

// shardsFromAfterBytes fills a page with the first shard, so that the next shard begins without room.
func shardsFromAfterBytes(s *scene) {
	s.over(duly.QueueConfig{})
	body := make([]byte, 1<<20)
	for _, shard := range []int{0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 3} {
		s.push(inShard(shard, duly.Job{Delay: time.Minute, Body: body}))
		s.push(inShard(shard, duly.Job{Delay: time.Hour, Body: body}))
	}
	for _, newest := range []bool{false, true} {
		p := duly.ListParams{State: duly.StateDelayed, Newest: newest, Bodies: true}
		p.From = s.now().Add(30 * time.Minute)
		same(s, fmt.Sprintf("the number of jobs, newest %t", newest), len(s.pages(p, nil)), 11)
	}
}
