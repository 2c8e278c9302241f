package enginetest

import (
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

func inspectTests() []test {
	return []test{
		{"GetReturnsTheJobWithItsBody", []string{"C4.40"}, Options{}, inspectGet},
		{"GetReturnsTheStateAtTheCurrentTime", []string{"C4.60"}, Options{OneShard: true}, inspectGetByClock},
		{"ListReturnsTheStoredStates", []string{"C4.60"}, Options{}, inspectListAsStored},
		{"ConflictNamesTheStateAtTheCurrentTime", []string{"C4.60", "C13.5"}, Options{}, inspectConflict},
		{"PeekReturnsTheFirstJobReadyAtTheCurrentTime", []string{"C4.47"}, Options{OneShard: true}, inspectPeek},
		{"PeekIgnoresPauseAndLimits", []string{"C4.48"}, Options{OneShard: true}, inspectPeekPaused},
		{"PeekSkipsBlockedJobs", []string{"C4.47", "C6.4"}, Options{}, inspectPeekBlocked},
		{"ReadingChangesNothing", []string{"C4.40", "C4.47", "C4.56"}, Options{}, inspectChangesNothing},
		{"UnknownQueueIsEmpty", []string{"C4.86", "C4.87"}, Options{}, inspectUnknown},
		{"QueuesAreListedByName", []string{"C4.55"}, Options{}, inspectQueues},
		{"QueuesListsOneNamespace", []string{"C4.55", "C1.1"}, Options{}, inspectQueuesOfNamespace},
		{"UnknownJobIsNotFound", []string{"C13.4"}, Options{}, inspectNotFound},
		{"JobIsFoundByItsReceipt", []string{"C4.101"}, Options{}, inspectReceipt},
		{"ReceiptOfAnotherJobIsNotFound", []string{"C4.101", "C13.4"}, Options{}, inspectNoReceipt},
	}
}

func inspectGet(s *scene) {
	s.push(duly.Job{ID: "x", Body: []byte("body"), Headers: map[string]string{"h": "v"}, Priority: 3, OrderKey: "k"})
	info := s.get("x")
	s.sameContent("the job", info.Job, duly.Job{Body: []byte("body"), Headers: map[string]string{"h": "v"}})
	same(s, "its size", info.Size, 4)
	same(s, "its order key", info.OrderKey, "k")
	same(s, "its queue", info.Queue, s.queue)
	d := s.take()
	info = s.get("x")
	same(s, "its state", info.State, duly.StateLeased)
	sameTime(s, "its lease's end", info.LeaseEnd, d.LeaseEnd)
	same(s, "its attempt", info.Attempt, 1)
}

func inspectGetByClock(s *scene) {
	s.push(duly.Job{ID: "due", Delay: time.Minute})
	s.push(duly.Job{ID: "head", OrderKey: "k"})
	s.push(duly.Job{ID: "behind", OrderKey: "k", Delay: time.Minute})
	s.push(duly.Job{ID: "leased", Priority: 5, Lease: time.Second})
	s.take()
	// No step has been made yet. Get computes due times by the clock, but a lease ends only in a
	// step.
	s.Advance(time.Minute)
	s.is("due", duly.StateReady)
	s.is("behind", duly.StateBlocked)
	s.is("leased", duly.StateLeased)

	s.step()
	s.is("due", duly.StateReady)
	s.is("behind", duly.StateBlocked)
	s.is("leased", duly.StateReady)
}

func inspectListAsStored(s *scene) {
	s.push(duly.Job{ID: "due", Delay: time.Minute})
	// List returns jobs by the state that is stored, so the overdue job is still delayed.
	s.Advance(time.Hour)
	s.sameIDs("the delayed jobs", idsOf(s.list(duly.StateDelayed)), []string{"due"})
	same(s, "its state in the list", s.list(duly.StateDelayed)[0].State, duly.StateDelayed)

	s.step()
	s.sameIDs("the delayed jobs after a step", idsOf(s.list(duly.StateDelayed)), nil)
	s.sameIDs("the ready jobs after a step", idsOf(s.list(duly.StateReady)), []string{"due"})
}

func inspectConflict(s *scene) {
	s.push(duly.Job{ID: "x", Delay: time.Minute})
	s.conflicts("requeue of a delayed job", s.requeue("x").Err, duly.StateDelayed)
	s.Advance(time.Minute)
	s.conflicts("requeue of a job that is due", s.requeue("x").Err, duly.StateReady)
}

func inspectPeek(s *scene) {
	s.push(duly.Job{ID: "second", Delay: time.Minute, Body: []byte("2")})
	s.push(duly.Job{ID: "first", Delay: time.Minute, Priority: 1, Body: []byte("1")})
	_, err := s.Engine.Peek(s.ctx, s.ref())
	s.refused("peek before anything is due", err, duly.CodeNotFound)
	s.Advance(time.Minute)
	// No step has moved the jobs, but both are due.
	for _, want := range []string{"first", "second"} {
		info, err := s.Engine.Peek(s.ctx, s.ref())
		s.must("peek", err)
		same(s, "the first ready job", info.ID, want)
		same(s, "its state", info.State, duly.StateReady)
		same(s, "its body's length", len(info.Body), 1)
		same(s, "the job delivered", s.take().ID, want)
	}
	_, err = s.Engine.Peek(s.ctx, s.ref())
	s.refused("peek when everything is leased", err, duly.CodeNotFound)
}

func inspectPeekPaused(s *scene) {
	s.configure(duly.QueueConfig{MaxLeased: 1})
	s.pushAll(duly.Job{ID: "a"}, duly.Job{ID: "b"})
	// The limit is reached and the queue is paused. Neither matters for Peek.
	s.take()
	s.must("pause", s.Engine.Pause(s.ctx, s.ref()))
	info, err := s.Engine.Peek(s.ctx, s.ref())
	s.must("peek", err)
	same(s, "the first ready job", info.ID, "b")
}

func inspectPeekBlocked(s *scene) {
	s.push(duly.Job{ID: "head", OrderKey: "k"})
	s.push(duly.Job{ID: "blocked", OrderKey: "k", Priority: 1000})
	s.push(duly.Job{ID: "due", OrderKey: "k", Priority: 1000, Delay: time.Second})
	// The key's first job is in flight, so its other jobs are blocked in spite of their priority.
	s.take()
	s.push(duly.Job{ID: "free"})
	s.Advance(2 * time.Second)

	info, err := s.Engine.Peek(s.ctx, s.ref())
	s.must("peek", err)
	same(s, "the first ready job", info.ID, "free")
}

func inspectChangesNothing(s *scene) {
	// Some jobs are overdue, so a step would change something.
	s.pushAll(duly.Job{ID: "a"}, duly.Job{ID: "due", Delay: time.Minute}, duly.Job{TTL: time.Minute},
		duly.Job{Lease: time.Second, Priority: 3})
	s.take()

	s.Advance(2 * time.Minute)
	s.unchanged("looking", func() {
		for range 3 {
			s.get("a")
			s.stats()
			s.config()
			s.queues()
			_, err := s.Engine.Peek(s.ctx, s.ref())
			s.must("peek", err)
			for _, state := range duly.States {
				s.list(state)
			}
		}
	})
}

func inspectUnknown(s *scene) {
	s.nothing("the queue does not exist")
	same(s, "its stats", s.stats(), duly.Stats{Tokens: duly.None})
	same(s, "its configuration", s.config(), s.usual())
	for _, state := range duly.States {
		// Reading, purging and destroying succeed. Operations on one job return not_found.
		same(s, "its jobs", len(s.list(state)), 0)
		n, err := s.Engine.Purge(s.ctx, s.ref(), state, 0)
		s.must("purge", err)
		same(s, "the jobs purged", n, 0)
	}

	_, err := s.Engine.Peek(s.ctx, s.ref())
	s.refused("peek", err, duly.CodeNotFound)
	s.gone("x")
	s.refused("delete", s.Engine.Delete(s.ctx, s.ref(), "x"), duly.CodeNotFound)
	s.refused("update", s.Engine.Update(s.ctx, s.ref(), "x", duly.Update{Tries: 2}), duly.CodeNotFound)
	s.refused("promote", s.Engine.Promote(s.ctx, s.ref(), "x"), duly.CodeNotFound)
	s.refused("pause", s.Engine.Pause(s.ctx, s.ref()), duly.CodeNotFound)
	s.refused("resume", s.Engine.Resume(s.ctx, s.ref()), duly.CodeNotFound)
	s.must("destroy", s.Engine.Destroy(s.ctx, s.ref()))

	ready, err := s.Engine.Wait(s.ctx, duly.WaitParams{Queues: []string{s.queue}})
	s.must("wait", err)
	same(s, "ready", ready, false)
	// None of the calls has created the queue.
	s.step()
	same(s, "the number of queues", len(s.queues()), 0)
}

func inspectQueues(s *scene) {
	for _, name := range []string{"b", "a", "B", "-x", "a.b", "0", "aa"} {
		s.push(duly.Job{Queue: name})
	}
	// Names are sorted by their bytes.
	want := []string{"-x", "0", "B", "a", "a.b", "aa", "b"}
	s.sameIDs("the queues", s.queues(), want)

	// The same in pages of two.
	var got []string
	p := duly.PageParams{Limit: 2}
	for pages := 0; ; pages++ {
		page, err := s.Engine.Queues(s.ctx, "", p)
		s.must("queues", err)
		if len(page.Names) > 2 || pages > len(want) {
			s.Fatalf("page %d has the names %q, want at most 2 names and no page after the last name", pages, page.Names)
		}
		got = append(got, page.Names...)
		if page.Next == "" {
			break
		}
		p.Cursor = page.Next
	}
	s.sameIDs("the queues page by page", got, want)
}

func inspectQueuesOfNamespace(s *scene) {
	s.push(duly.Job{Queue: "default-q"})
	s.in("a").push(duly.Job{Queue: "a-q"})
	// Each name is a prefix of the next, so a wrong prefix scan would mix them up.
	s.in("ab").push(duly.Job{Queue: "ab-q"})
	s.sameIDs("the default namespace's", s.queues(), []string{"default-q"})
	s.sameIDs("a's", s.in("a").queues(), []string{"a-q"})
	s.sameIDs("ab's", s.in("ab").queues(), []string{"ab-q"})
	s.sameIDs("another's", s.in("abc").queues(), nil)
}

func inspectNotFound(s *scene) {
	s.push(duly.Job{ID: "x"})
	_, err := s.Engine.Get(s.ctx, s.ref(), "y")
	s.refused("get", err, duly.CodeNotFound)
	s.refused("delete", s.Engine.Delete(s.ctx, s.ref(), "y"), duly.CodeNotFound)
	s.refused("update", s.Engine.Update(s.ctx, s.ref(), "y", duly.Update{Tries: 2}), duly.CodeNotFound)
	s.refused("promote", s.Engine.Promote(s.ctx, s.ref(), "y"), duly.CodeNotFound)
	s.refused("requeue", s.requeue("y").Err, duly.CodeNotFound)
	s.refused("delete in another queue", s.Engine.Delete(s.ctx, duly.Q("other"), "x"), duly.CodeNotFound)
	s.is("x", duly.StateReady)
}

// byReceipt checks the job that GetByReceipt returns, and its state.
func (s *scene) byReceipt(what string, d duly.Delivery, want duly.State) {
	s.Helper()
	info, err := s.Engine.GetByReceipt(s.ctx, s.namespace, d.Receipt)
	s.must("look at the job of a receipt", err)
	same(s, what+": its ID", info.ID, d.ID)
	same(s, what+": its queue", info.Queue, s.queue)
	same(s, what+": its body", string(info.Body), string(d.Body))
	same(s, what+": its state", info.State, want)
}

// inspectReceipt follows jobs by their receipts: one whose ID the engine made, one with an own
// ID, and one whose own ID has the format of a made one.
func inspectReceipt(s *scene) {
	for _, id := range []string{"", "order:1", "01J0000000000000000000000A"} {
		s.push(duly.Job{ID: id, Body: []byte("x"), Tries: 2, Backoff: "fixed:1m", Retain: time.Hour})
		first := s.take()
		s.byReceipt("a leased job", first, duly.StateLeased)
		s.must("nack", s.settle(duly.SettleRequest{Receipt: first.Receipt, As: duly.Nack}))
		s.byReceipt("after a nack", first, duly.StateDelayed)
		s.Advance(time.Minute)
		s.byReceipt("when it is due again", first, duly.StateReady)

		second := s.take()
		same(s, "the second delivery's job", second.ID, first.ID)
		// These are the two ways to end a job that keep the job.
		as, want := duly.Bury, duly.StateDead
		if id == "order:1" {
			as, want = duly.Ack, duly.StateDone
		}
		s.must("settle", s.settle(duly.SettleRequest{Receipt: second.Receipt, As: as}))
		s.byReceipt("at the end, by the first receipt", first, want)
		s.byReceipt("at the end", second, want)
	}
}

func inspectNoReceipt(s *scene) {
	s.push(duly.Job{ID: "x"})
	d := s.take()

	// These receipts have the right format, but each has one wrong part.
	parts, _ := contract.ParseReceipt(d.Receipt)
	elsewhere := parts
	elsewhere.Queue = "other"
	nowhere := parts
	nowhere.Shard = duly.MaxShards - 1
	number := parts
	number.Number = duly.NewNumber()
	for what, r := range map[string]duly.Receipt{
		"another queue": elsewhere.Receipt(), "no such shard": nowhere.Receipt(), "another number": number.Receipt(),
	} {
		_, err := s.Engine.GetByReceipt(s.ctx, s.namespace, r)
		s.refused(what, err, duly.CodeNotFound)
	}

	_, err := s.in("a").Engine.GetByReceipt(s.ctx, "a", d.Receipt)
	s.refused("another namespace", err, duly.CodeNotFound)
	for _, bad := range []duly.Receipt{"", "x", d.Receipt + "1x", "q:0:x:1"} {
		_, err := s.Engine.GetByReceipt(s.ctx, s.namespace, bad)
		s.refused("a malformed receipt", err, duly.CodeInvalid)
	}

	s.ack(d)
	_, err = s.Engine.GetByReceipt(s.ctx, s.namespace, d.Receipt)
	s.refused("a job that is gone", err, duly.CodeNotFound)

	// The receipt names one job, so it must not find a later job with the same ID.
	s.push(duly.Job{ID: "x"})
	_, err = s.Engine.GetByReceipt(s.ctx, s.namespace, d.Receipt)
	s.refused("a later job with its ID", err, duly.CodeNotFound)
}
