package enginetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dulymq/duly"
)

func listTests() []test {
	return []test{
		{"LastPageHasNoCursor", []string{"C4.49", "C4.51"}, Options{OneShard: true}, listPages},
		{"OmitsBodiesByDefault", []string{"C4.50"}, Options{}, listBodies},
		{"SortsDelayedJobsByDueThenNumber", []string{"C4.52"}, Options{OneShard: true}, listDelayed},
		{"SortsReadyJobsByDeliveryOrder", []string{"C4.52"}, Options{OneShard: true}, listReady},
		{"SortsBlockedJobsByKeyThenDeliveryOrder", []string{"C4.53"}, Options{OneShard: true}, listBlocked},
		{"SortsLeasedJobsByLeaseEnd", []string{"C4.54"}, Options{OneShard: true}, listLeased},
		{"SortsDeadAndDoneJobsByAge", []string{"C4.54"}, Options{OneShard: true}, listFinished},
		{"ReturnsUnchangedJobsExactlyOnce", []string{"C4.51"}, Options{}, listWhileMoving},
		{"PagesThroughEveryState", []string{"C4.49", "C4.51", "C4.53", "C4.54"}, Options{}, listEveryState},
		{"ContinuesAfterADeletedJob", []string{"C4.51"}, Options{OneShard: true}, listBehindDeleted},
		{"CursorOfAnotherListIsRefusedOrHarmless", []string{"C4.51"}, Options{}, listForeignCursor},
	}
}

// pageThrough lists the jobs of a state page by page. It calls between after each page but the
// last.
func (s *scene) pageThrough(state duly.State, limit int, between func(page int)) (jobs []duly.JobInfo) {
	s.Helper()
	return s.pages(duly.ListParams{State: state, PageParams: duly.PageParams{Limit: limit}}, between)
}

// pages lists jobs page by page. It calls between after each page but the last.
func (s *scene) pages(p duly.ListParams, between func(page int)) (jobs []duly.JobInfo) {
	s.Helper()
	for page := range 10_000 {
		got, err := s.Engine.List(s.ctx, s.ref(), p)
		s.must("list", err)
		if p.Limit > 0 && len(got.Jobs) > p.Limit {
			s.Fatalf("a page of at most %d jobs has %d", p.Limit, len(got.Jobs))
		}
		jobs = append(jobs, got.Jobs...)
		if got.Next == "" {
			return jobs
		}
		p.Cursor = got.Next
		if between != nil {
			between(page)
		}
	}
	s.Fatal("the list does not end after all jobs were listed")
	return nil
}

func listPages(s *scene) {
	jobs := numbered(25, "j")
	s.pushAll(jobs...)
	for _, limit := range []int{1, 7, 25, 100} {
		s.sameIDs("the ready jobs", idsOf(s.pageThrough(duly.StateReady, limit, nil)), idsOfJobs(jobs))
	}

	// Without a limit the page has the default size.
	more := numbered(120, "k")
	s.on("default-page").pushAll(more...)
	page, err := s.Engine.List(s.ctx, duly.Q("default-page"), duly.ListParams{State: duly.StateReady})
	s.must("list", err)
	same(s, "a page without a limit", len(page.Jobs), duly.DefaultPage)
	same(s, "the list of a state without jobs", len(s.list(duly.StateDead)), 0)
}

func listBodies(s *scene) {
	headers := map[string]string{"h": "v"}
	s.push(duly.Job{ID: "x", Body: []byte("body"), Headers: headers})
	job := s.list(duly.StateReady)[0]
	same(s, "the size", job.Size, 4)
	same(s, "the body", string(job.Body), "")
	same(s, "the header", job.Headers["h"], "v")
	page, err := s.Engine.List(s.ctx, s.ref(), duly.ListParams{State: duly.StateReady, Bodies: true})
	s.must("list with bodies", err)
	s.sameContent("the job", page.Jobs[0].Job, duly.Job{Body: []byte("body"), Headers: headers})
}

func listDelayed(s *scene) {
	s.pushAll(duly.Job{ID: "c", Delay: 3 * time.Minute, Priority: 1000}, duly.Job{ID: "b", Delay: 2 * time.Minute},
		duly.Job{ID: "b2", Delay: 2 * time.Minute, Priority: 5}, duly.Job{ID: "a", Delay: time.Minute})
	s.sameIDs("the delayed jobs", idsOf(s.pageThrough(duly.StateDelayed, 1, nil)), []string{"a", "b", "b2", "c"})
}

func listReady(s *scene) {
	s.pushAll(duly.Job{ID: "low", Priority: -1}, duly.Job{ID: "mid"}, duly.Job{ID: "high", Priority: 1},
		duly.Job{ID: "mid2"})
	s.Advance(time.Second)
	s.push(duly.Job{ID: "high2", Priority: 1})
	want := []string{"high", "high2", "mid", "mid2", "low"}
	s.sameIDs("the ready jobs", idsOf(s.pageThrough(duly.StateReady, 2, nil)), want)
	s.takes(want...)
}

func listBlocked(s *scene) {
	for _, key := range []string{"b", "ab", "a", "B", "aa", "ä", "0"} {
		// A head per key blocks the jobs below.
		s.push(duly.Job{ID: "head-of-" + fmt.Sprintf("%x", key), OrderKey: key})
	}
	var want []string
	// Keys are sorted by length first and then by their bytes.
	for _, key := range []string{"0", "B", "a", "b", "aa", "ab", "ä"} {
		for _, name := range []string{"first", "second", "third"} {
			want = append(want, fmt.Sprintf("%s-%x", name, key))
		}
	}

	// The jobs are pushed in a different order than they are listed. The first job of each key is
	// pushed last.
	for _, key := range []string{"ab", "a", "ä", "B", "aa", "0", "b"} {
		s.push(duly.Job{ID: fmt.Sprintf("second-%x", key), OrderKey: key})
		s.push(duly.Job{ID: fmt.Sprintf("third-%x", key), OrderKey: key})
		s.push(duly.Job{ID: fmt.Sprintf("first-%x", key), OrderKey: key, Priority: 1})
	}
	for _, limit := range []int{1, 2, 4, 100} {
		s.sameIDs("the blocked jobs", idsOf(s.pageThrough(duly.StateBlocked, limit, nil)), want)
	}
}

func listLeased(s *scene) {
	s.pushAll(duly.Job{ID: "c", Lease: 3 * time.Minute}, duly.Job{ID: "a", Lease: time.Minute},
		duly.Job{ID: "b", Lease: 2 * time.Minute})
	ds := s.reserve(3)
	s.sameIDs("the leased jobs", idsOf(s.pageThrough(duly.StateLeased, 1, nil)), []string{"a", "b", "c"})
	// A longer lease moves the job to the end of the list.
	s.must("extend", s.extend(ds[1].Receipt, time.Hour))
	s.sameIDs("the leased jobs", idsOf(s.list(duly.StateLeased)), []string{"b", "c", "a"})
}

func listFinished(s *scene) {
	jobs := []duly.Job{{ID: "a", Retain: time.Hour}, {ID: "b", Retain: time.Hour}, {ID: "c", Retain: time.Hour}}
	for _, as := range []duly.Settlement{duly.Bury, duly.Ack} {
		n := s.on(as.String())
		n.pushAll(jobs...)
		ds := n.reserve(3)
		// The jobs finish in a different order than they were pushed.
		for _, i := range []int{1, 2, 0} {
			n.must("settle", n.settle(duly.SettleRequest{Receipt: ds[i].Receipt, As: as}))
			n.Advance(time.Second)
		}
	}
	want := []string{"b", "c", "a"}
	s.sameIDs("the dead jobs", idsOf(s.on("bury").pageThrough(duly.StateDead, 1, nil)), want)
	s.sameIDs("the done jobs", idsOf(s.on("ack").pageThrough(duly.StateDone, 1, nil)), want)
}

// listWhileMoving pages through 1500 jobs while other jobs are pushed and deleted before, behind
// and among them. Every job that stays is listed exactly once.
func listWhileMoving(s *scene) {
	jobs := numbered(1500, "j")
	for i := range jobs {
		// Groups of four jobs are due at the same time, so that pages also end within a group.
		jobs[i].Delay = time.Hour + time.Duration(i/4)*time.Second
		jobs[i].Priority = i % 3
	}
	s.pushAll(jobs[:1000]...)
	s.pushAll(jobs[1000:]...)

	// Every tenth job is deleted at some time during the listing.
	goes, deleted := 3, map[string]bool{}
	seen := s.pageThrough(duly.StateDelayed, 100, func(page int) {
		// Delete jobs a little ahead of the cursor, and add jobs at both ends and in the middle.
		for ; goes < (page+1)*110 && goes < len(jobs); goes += 10 {
			s.must("delete", s.Engine.Delete(s.ctx, s.ref(), jobs[goes].ID))
			deleted[jobs[goes].ID] = true
		}
		s.push(duly.Job{ID: fmt.Sprintf("new-early-%d", page), Delay: time.Minute})
		s.push(duly.Job{ID: fmt.Sprintf("new-mid-%d", page), Delay: time.Hour + 180*time.Second})
		s.push(duly.Job{ID: fmt.Sprintf("new-late-%d", page), Delay: 2 * time.Hour})
	})
	s.listedOnce("the delayed jobs", seen, jobs, deleted, func(*duly.Job) bool { return true })
}

func listEveryState(s *scene) {
	const n = 130
	jobs := numbered(n, "j")
	for i := range jobs {
		jobs[i].Retain = time.Hour
		jobs[i].Lease = time.Hour
	}

	want := idsOfJobs(jobs)
	all := func(state duly.State) {
		s.Helper()
		got := idsOf(s.pageThrough(state, 17, nil))
		slices.Sort(got)
		s.sameIDs("the "+state.String()+" jobs", got, want)
	}
	delayed := slices.Clone(jobs)
	for i := range delayed {
		delayed[i].Delay = time.Second
	}

	s.pushAll(delayed...)
	all(duly.StateDelayed)
	s.Advance(time.Second)
	s.step()
	all(duly.StateReady)
	ds := s.reserve(n)
	all(duly.StateLeased)
	for _, d := range ds {
		s.bury(d, "no")
	}
	all(duly.StateDead)
	_, err := s.Engine.Requeue(s.ctx, s.ref(), duly.RequeueParams{N: n})
	s.must("requeue", err)
	for _, d := range s.reserve(n) {
		s.ack(d)
	}
	all(duly.StateDone)

	// Blocked jobs need a head per key, of five keys.
	s.queue = "keys"
	for i := range jobs {
		jobs[i].OrderKey = strings.Repeat("k", 1+i%5)
		s.on("keys").push(duly.Job{ID: fmt.Sprintf("head-%d", i), OrderKey: jobs[i].OrderKey})
		s.on("keys").purgeBlockedBehind(i)
	}
	s.pushAll(jobs...)
	all(duly.StateBlocked)
}

// purgeBlockedBehind deletes the job unless it is the first of its key.
func (s *scene) purgeBlockedBehind(i int) {
	if i >= 5 {
		s.must("delete", s.Engine.Delete(s.ctx, s.ref(), fmt.Sprintf("head-%d", i)))
	}
}

// listBehindDeleted deletes the last job of each page before it reads the next one. All jobs have
// the same sort key, so only the number in the cursor shows where to continue.
func listBehindDeleted(s *scene) {
	for _, state := range duly.States {
		n := s.on(state.String())
		ids := n.reachAll(state, "a", "b", "c", "d", "e", "f", "g", "h", "i")

		listed := n.pageThrough(state, 2, func(page int) {
			// An engine may return a cursor whose page is empty.
			if last := 2*page + 1; last < len(ids) {
				n.must("delete", n.Engine.Delete(n.ctx, n.ref(), ids[last]))
			}
		})
		n.sameIDs("the "+state.String()+" jobs", idsOf(listed), ids)
	}
}

// reachAll moves jobs into one state within the same millisecond.
func (s *scene) reachAll(state duly.State, ids ...string) []string {
	s.Helper()
	jobs := make([]duly.Job, len(ids))
	for i, id := range ids {
		jobs[i] = duly.Job{ID: id, Retain: time.Hour}
		if state == duly.StateBlocked {
			jobs[i].OrderKey = "k"
		}
		if state == duly.StateDelayed {
			jobs[i].Delay = time.Hour
		}
	}
	// Jobs of one key are blocked behind a head in flight.
	if state == duly.StateBlocked {
		s.line("head")
	}
	s.pushAll(jobs...)
	if state == duly.StateDelayed || state == duly.StateReady || state == duly.StateBlocked {
		return ids
	}

	for _, d := range s.reserve(len(ids)) {
		switch state {
		case duly.StateDead:
			s.bury(d, "no")
		case duly.StateDone:
			s.ack(d)
		}
	}
	return ids
}

func listForeignCursor(s *scene) {
	s.pushAll(numbered(5, "j")...)
	s.on("other").pushAll(duly.Job{ID: "d", Delay: time.Hour}, duly.Job{ID: "e", Delay: time.Hour})
	page, err := s.Engine.List(s.ctx, duly.Q("other"), duly.ListParams{State: duly.StateDelayed,
		PageParams: duly.PageParams{Limit: 1}})
	s.must("list", err)
	if page.Next == "" {
		s.Fatal("the first page of two jobs has no cursor, want one")
	}

	// These are a cursor of another list, truncated and extended cursors, and arbitrary texts.
	for _, cursor := range []string{page.Next, "x", strings.Repeat("A", 10_000), "\xff", page.Next + "x",
		page.Next[:len(page.Next)-1]} {
		_, err := s.Engine.List(s.ctx, s.ref(), duly.ListParams{State: duly.StateReady,
			PageParams: duly.PageParams{Cursor: cursor}})
		// The engine may reject the cursor or ignore it. Any other failure is wrong.
		if err != nil {
			s.names("a foreign cursor", err, duly.CodeInvalid, "cursor")
		}
		_, err = s.Engine.Queues(s.ctx, "", duly.PageParams{Cursor: cursor})
		if err != nil {
			s.names("a foreign cursor of queues", err, duly.CodeInvalid, "cursor")
		}
	}
}
