package enginetest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

func batchTests() []test {
	return []test{
		{"ReturnsOneResultPerItemInOrder", []string{"C4.1"}, Options{OneShard: true}, batchResults},
		{"SecondOfTwoEqualItemsSeesWhatTheFirstDid", []string{"C4.3"}, Options{OneShard: true}, batchEqualItems},
		{"BadItemNeverFailsItsNeighbours", []string{"C4.4"}, Options{OneShard: true}, batchBadItem},
		{"EmptyBatchSucceeds", []string{"C4.1"}, Options{}, batchEmpty},
		{"MoreThan1000ItemsAreTooLarge", []string{"C4.5", "C13.7"}, Options{}, batchTooMany},
		{"MoreThan8MiBOfBodiesAreTooLarge", []string{"C4.6", "C13.7"}, Options{}, batchTooBig},
		{"LargerBodyIsPushedAndDeliveredAlone", []string{"C4.6", "C4.7", "C2.7"}, Options{MaxBody: 9 << 20, OneShard: true},
			batchLargeBody},
		{"ReserveStopsEarlyAt8MiB", []string{"C4.7"}, Options{OneShard: true}, batchReserveStops},
		{"ReserveOverQueuesStopsEarlyAt8MiB", []string{"C4.7", "C4.10"}, Options{OneShard: true}, batchReserveQueuesStop},
		{"ListStopsEarlyAt8MiB", []string{"C4.7", "C4.50"}, Options{OneShard: true}, batchListStops},
		{"ListOfResultsStopsEarlyAt8MiB", []string{"C4.7", "C4.50"}, Options{}, batchListOfResults},
		{"KeepsItsOrder", []string{"C6.2", "C4.1"}, Options{OneShard: true}, batchOrder},
		{"NumbersOfACallRise", []string{"C11.9", "C6.2"}, Options{OneShard: true}, batchNumbers},
		{"NumbersRiseInANewQueue", []string{"C11.9"}, Options{OneShard: true}, batchNumbersOfANewQueue},
		{"MayCoverSeveralQueues", []string{"C4.1", "C1.3"}, Options{OneShard: true}, batchQueues},
		{"CanceledContextReturnsAnError", []string{"C4.2"}, Options{}, batchContext},
		{"CanceledCallReportsThatItMayHaveRun", []string{"C4.2"}, Options{}, callsPastDeadline},
	}
}

func numbered(n int, prefix string) []duly.Job {
	jobs := make([]duly.Job, n)
	for i := range jobs {
		jobs[i].ID = fmt.Sprintf("%s%04d", prefix, i)
	}
	return jobs
}

func idsOfJobs(jobs []duly.Job) []string {
	ids := make([]string, len(jobs))
	for i, j := range jobs {
		ids[i] = j.ID
	}
	return ids
}

func batchResults(s *scene) {
	jobs := numbered(1000, "j")
	s.sameIDs("the results", s.pushAll(jobs...), idsOfJobs(jobs))
	ds := s.reserve(1000)
	s.sameIDs("the deliveries", idsTaken(ds), idsOfJobs(jobs))

	// Every second receipt belongs to a job that never existed, so its item must fail alone.
	outcomes := make([]duly.SettleRequest, len(ds))
	receipts := make([]duly.Receipt, len(ds))
	for i, d := range ds {
		outcomes[i] = duly.SettleRequest{Receipt: d.Receipt, As: duly.Ack}
		receipts[i] = d.Receipt
		if i%2 == 1 {
			ended := contract.ReceiptParts{Queue: "x", Delivery: 1}.Receipt()
			outcomes[i].Receipt, receipts[i] = ended, ended
		}
	}
	errs, err := s.Engine.Extend(s.ctx, "", receipts, time.Minute)
	s.must("extend", err)
	s.everySecondLost("extend", errs, len(ds))
	errs, err = s.Engine.Settle(s.ctx, "", outcomes)
	s.must("settle", err)
	s.everySecondLost("settle", errs, len(ds))
	s.sizes(duly.Sizes{Leased: 500})
}

func (s *scene) everySecondLost(what string, errs []error, n int) {
	s.Helper()
	same(s, "the number of answers to "+what, len(errs), n)
	for i, err := range errs {
		if i%2 == 1 {
			s.lost(what, err)
		} else if err != nil {
			s.Errorf("%s of item %d: %v", what, i, err)
		}
	}
}

func batchEqualItems(s *scene) {
	// These are pairs of equal IDs, merge keys and order keys. Each second item must be treated
	// after the first.
	results, err := s.pushed(
		duly.Job{ID: "a"}, duly.Job{ID: "a"},
		duly.Job{ID: "b", Merge: duly.Merge{Key: "k"}}, duly.Job{ID: "c", Merge: duly.Merge{Key: "k"}},
		duly.Job{ID: "d", OrderKey: "o"}, duly.Job{ID: "e", OrderKey: "o"}, duly.Job{ID: "e"},
	)
	s.must("push", err)
	want := []duly.PushResult{
		{ID: "a", Status: duly.Created}, {ID: "a", Status: duly.Exists, State: duly.StateReady},
		{ID: "b", Status: duly.Created}, {ID: "b", Status: duly.Merged},
		{ID: "d", Status: duly.Created}, {ID: "e", Status: duly.Created},
		{ID: "e", Status: duly.Exists, State: duly.StateBlocked},
	}
	if !slices.Equal(results, want) {
		s.Errorf("results are %+v, want %+v", results, want)
	}
	ds := s.takes("a", "b", "d")

	// The receipts are used twice in one batch. The first use ends or keeps the lease.
	errs, err := s.Engine.Settle(s.ctx, "", []duly.SettleRequest{
		{Receipt: ds[0].Receipt, As: duly.Ack}, {Receipt: ds[0].Receipt, As: duly.Ack},
		{Receipt: ds[1].Receipt, As: duly.Release},
		{Receipt: ds[1].Receipt, As: duly.Bury},
	})
	s.must("settle", err)
	s.must("the first ack", errs[0])
	s.lost("the second ack", errs[1])
	s.must("the release", errs[2])
	s.lost("the bury after it", errs[3])

	errs, err = s.Engine.Extend(s.ctx, "", []duly.Receipt{ds[2].Receipt, ds[2].Receipt}, time.Hour)
	s.must("extend", err)
	s.must("the first extend", errs[0])
	s.must("the second extend", errs[1])
	s.counted(duly.Counters{Pushed: 5, Merged: 1, Delivered: 3, Acked: 1, Released: 1})
}

func batchBadItem(s *scene) {
	// The bad items lie between good ones: a bad priority, a large body, a bad queue name.
	results, err := s.pushed(duly.Job{ID: "a"}, duly.Job{ID: "b", Priority: 5000},
		duly.Job{ID: "c", Body: make([]byte, duly.DefaultMaxBody+1)},
		duly.Job{ID: "d", Queue: ".."}, duly.Job{ID: "e"})
	s.must("push", err)
	for i, code := range []duly.Code{"", duly.CodeInvalid, duly.CodeTooLarge, duly.CodeInvalid, ""} {
		s.refused(fmt.Sprintf("item %d", i), results[i].Err, code)
		if code != "" {
			same(s, "the outcome of a bad item", results[i].Status, 0)
		}
	}

	d := s.takes("a", "e")
	minus := -time.Second
	// Items 0 and 1 are invalid, item 2 is valid.
	errs, err := s.Engine.Settle(s.ctx, "", []duly.SettleRequest{
		{Receipt: d[0].Receipt, As: duly.Nack, Delay: &minus}, {Receipt: "?", As: duly.Ack},
		{Receipt: d[1].Receipt, As: duly.Ack},
	})
	s.must("settle", err)
	s.refused("the bad outcome", errs[0], duly.CodeInvalid)
	s.names("the bad receipt", errs[1], duly.CodeInvalid, "receipt")
	s.must("the good outcome", errs[2])
	s.is("a", duly.StateLeased)
	s.gone("e")
}

func batchEmpty(s *scene) {
	results, err := s.pushed()
	s.must("push of nothing", err)
	same(s, "its results", len(results), 0)
	errs, err := s.Engine.Settle(s.ctx, "", nil)
	s.must("settle of nothing", err)
	same(s, "its answers", len(errs), 0)
	errs, err = s.Engine.Extend(s.ctx, "", nil, 0)
	s.must("extend of nothing", err)
	same(s, "its answers", len(errs), 0)
}

func batchTooMany(s *scene) {
	_, err := s.pushed(numbered(duly.MaxBatch+1, "j")...)
	s.names("a push of 1001", err, duly.CodeTooLarge, "batch")
	_, err = s.Engine.Settle(s.ctx, "", make([]duly.SettleRequest, duly.MaxBatch+1))
	s.names("a settle of 1001", err, duly.CodeTooLarge, "batch")
	_, err = s.Engine.Extend(s.ctx, "", make([]duly.Receipt, duly.MaxBatch+1), 0)
	s.names("an extend of 1001", err, duly.CodeTooLarge, "batch")
	_, err = s.Engine.Requeue(s.ctx, s.ref(), duly.RequeueParams{IDs: make([]string, duly.MaxBatch+1)})
	s.names("a requeue of 1001", err, duly.CodeTooLarge, "batch")
	// A rejected batch creates no queue.
	same(s, "the queues after it", len(s.queues()), 0)
}

func mebi(n int) []duly.Job {
	jobs := numbered(n, "m")
	for i := range jobs {
		jobs[i].Body = make([]byte, 1<<20)
	}
	return jobs
}

func batchTooBig(s *scene) {
	// These jobs exceed the limit of a batch by one byte.
	jobs := append(mebi(8), duly.Job{Body: []byte("x")})
	_, err := s.pushed(jobs...)
	s.names("a push of 8 MiB and a byte", err, duly.CodeTooLarge, "batch")
	same(s, "the queues after it", len(s.queues()), 0)
	s.pushAll(mebi(8)...)
}

func batchLargeBody(s *scene) {
	s.push(duly.Job{ID: "small", Body: []byte("x")})
	s.push(duly.Job{ID: "large", Body: make([]byte, 9<<20)})
	s.push(duly.Job{ID: "small-2", Body: []byte("x")})
	// A body over the batch limit may not share its batch with another job.
	_, err := s.pushed(duly.Job{Body: make([]byte, 9<<20)}, duly.Job{})
	s.refused("a large body in company", err, duly.CodeTooLarge)

	// A Reserve stops before the large body. The next Reserve returns only that job.
	s.sameIDs("the first reserve", idsTaken(s.reserve(3)), []string{"small"})
	large := s.reserve(3)
	s.sameIDs("the second reserve", idsTaken(large), []string{"large"})
	same(s, "the large body", len(large[0].Body), 9<<20)
	s.sameIDs("the third reserve", idsTaken(s.reserve(3)), []string{"small-2"})
}

func batchReserveStops(s *scene) {
	s.pushAll(mebi(8)...)
	// Eight jobs of 1 MiB fill the first reserve, so the other queue gets no share of it.
	s.on("other").pushAll(mebi(3)...)
	s.push(duly.Job{ID: "last", Body: []byte("x")})
	same(s, "the first reserve", len(s.reserve(20, s.queue, "other")), 8)
	ds := s.reserve(20, s.queue, "other")
	s.sameIDs("the second reserve", idsTaken(ds), []string{"last", "m0000", "m0001", "m0002"})
	s.counted(duly.Counters{Pushed: 9, Delivered: 9})
}

func batchReserveQueuesStop(s *scene) {
	s.pushAll(mebi(5)...)
	s.on("other").pushAll(mebi(8)...)

	// The eight jobs of the other queue or the first five and three fill the first reserve.
	same(s, "the first reserve", len(s.reserve(20, s.queue, "other")), 8)
	same(s, "the second reserve", len(s.reserve(20, s.queue, "other")), 5)
}

func batchListStops(s *scene) {
	s.pushAll(mebi(8)...)
	s.push(duly.Job{ID: "last", Body: []byte("x")})
	p := duly.ListParams{State: duly.StateReady, Bodies: true, PageParams: duly.PageParams{Limit: 20}}
	page, err := s.Engine.List(s.ctx, s.ref(), p)
	s.must("list", err)
	same(s, "the first page", len(page.Jobs), 8)
	same(s, "the first body", len(page.Jobs[0].Body), 1<<20)

	p.Cursor = page.Next
	page, err = s.Engine.List(s.ctx, s.ref(), p)
	s.must("list", err)
	s.sameIDs("the second page", idsOf(page.Jobs), []string{"last"})

	// Without bodies the limit on bytes does not apply.
	p = duly.ListParams{State: duly.StateReady, PageParams: duly.PageParams{Limit: 20}}
	page, err = s.Engine.List(s.ctx, s.ref(), p)
	s.must("list", err)
	same(s, "a page without bodies", len(page.Jobs), 9)
	same(s, "the size of a body that is not there", page.Jobs[0].Size, 1<<20)
}

// batchListOfResults lists done jobs whose results exceed the size limit of a page.
func batchListOfResults(s *scene) {
	const n = 150
	jobs := numbered(n, "j")
	for i := range jobs {
		jobs[i].Retain = time.Hour
	}
	s.pushAll(jobs...)
	ds := s.reserve(n)
	result := make([]byte, duly.MaxResult)
	for i := range ds {
		// Each job stores the longest result.
		s.must("ack", s.settle(duly.SettleRequest{Receipt: ds[i].Receipt, As: duly.Ack, Result: result}))
	}

	p := duly.ListParams{State: duly.StateDone, Bodies: true, PageParams: duly.PageParams{Limit: duly.MaxBatch}}
	var seen []string
	for {
		page, err := s.Engine.List(s.ctx, s.ref(), p)
		s.must("list", err)
		bytes := 0
		for _, j := range page.Jobs {
			bytes += len(j.Body) + len(j.Result)
		}
		// Results count towards the limit of a page like bodies.
		if bytes > duly.MaxBatchBytes {
			s.Fatalf("a page of %d jobs has %d bytes of results, want at most duly.MaxBatchBytes", len(page.Jobs), bytes)
		}
		seen = append(seen, idsOf(page.Jobs)...)
		if p.Cursor = page.Next; p.Cursor == "" {
			break
		}
	}

	slices.Sort(seen)
	s.sameIDs("the done jobs", seen, idsOfJobs(jobs))
	p = duly.ListParams{State: duly.StateDone, PageParams: duly.PageParams{Limit: duly.MaxBatch}}
	page, err := s.Engine.List(s.ctx, s.ref(), p)
	s.must("list", err)
	same(s, "a page without bodies and results", len(page.Jobs), n)
}

func batchOrder(s *scene) {
	var want []string
	for range 3 {
		jobs := make([]duly.Job, 50)
		for i := range jobs {
			// A third of the jobs have an ID of the client, a third an own ID, and a third get one
			// from the engine.
			switch i % 3 {
			case 0:
				jobs[i] = made(duly.Job{})
			case 1:
				jobs[i].ID = fmt.Sprintf("own-%d-%d", len(want), i)
			}
		}
		want = append(want, s.pushAll(jobs...)...)
	}
	// IDs that the client made before, mixed with the caller's own IDs.
	late := []duly.Job{made(duly.Job{}), {ID: "own-1"}, made(duly.Job{}), {ID: "own-2"}, made(duly.Job{}), {ID: "own-3"},
		made(duly.Job{})}
	want = append(want, s.pushAll(late...)...)
	// The client pushes made IDs in a different order than it created them.
	a, b := made(duly.Job{}), made(duly.Job{})
	want = append(want, s.pushAll(b, a)...)
	s.takes(want...)
}

// batchNumbers pushes an ID that was created later, and then one that was created earlier, in one
// call. The second job must not be delivered at the place that its ID suggests. A job whose ID was
// made between the two, and which was pushed before, comes first. This holds whatever happened to
// the first item.
func batchNumbers(s *scene) {
	for _, c := range []struct {
		name   string
		before func(late duly.Job) duly.Job
		want   []string
	}{
		{"a job that is stored", func(late duly.Job) duly.Job { return late }, []string{"between", "late", "early"}},
		{"a job that exists", func(late duly.Job) duly.Job {
			s.push(late)
			return late
		}, []string{"between", "late", "early"}},
		{"a job that is merged", func(late duly.Job) duly.Job {
			late.Merge.Key = "k"
			s.push(duly.Job{ID: "holder", Merge: late.Merge})
			return late
		}, []string{"between", "holder", "early"}},
		{"an invalid job", func(late duly.Job) duly.Job {
			late.Priority = duly.MaxPriority + 1
			return late
		}, []string{"between", "early"}},
		{"a job of another queue", func(late duly.Job) duly.Job {
			late.Queue = "other"
			return late
		}, []string{"early", "between"}},
	} {
		early, between, late := made(duly.Job{}), made(duly.Job{}), made(duly.Job{})
		names := map[string]string{early.ID: "early", between.ID: "between", late.ID: "late", "holder": "holder"}
		s.push(between)

		_, err := s.pushed(c.before(late), early)
		s.must("push", err)

		// Translate the made IDs to readable names.
		var got []string
		for _, d := range s.takeAll() {
			got = append(got, names[d.ID])
			s.ack(d)
		}
		s.sameIDs("the jobs delivered after "+c.name, got, c.want)
	}
}

// batchNumbersOfANewQueue is like batchNumbers for queues that the call creates. The invalid job comes
// first, so it creates no queue, but its number counts for the job after it.
func batchNumbersOfANewQueue(s *scene) {
	for _, queues := range [][]string{{"n"}, {"a", "b"}} {
		early, between, late := made(duly.Job{}), made(duly.Job{}), made(duly.Job{})
		names := map[string]string{early.ID: "early", between.ID: "between"}

		var jobs []duly.Job
		late.OrderKey = "\x00"
		for _, queue := range queues {
			early.Queue, late.Queue = queue, queue
			jobs = append(jobs, late, early)
		}
		results, err := s.pushed(jobs...)
		s.must("push", err)
		for i := 0; i < len(results); i += 2 {
			s.refused("the push of an invalid job", results[i].Err, duly.CodeInvalid)
		}

		for _, queue := range queues {
			between.Queue = queue
			s.push(between)
			var got []string
			for _, d := range s.reserve(5, queue) {
				got = append(got, names[d.ID])
			}
			s.sameIDs("the jobs delivered from "+queue, got, []string{"between", "early"})
		}
	}
}

func batchQueues(s *scene) {
	s.pushAll(duly.Job{ID: "1", Queue: "a"}, duly.Job{ID: "2", Queue: "b"}, duly.Job{ID: "3", Queue: "a"})
	ds := append(s.reserve(5, "a"), s.reserve(5, "b")...)
	s.sameIDs("the jobs", idsTaken(ds), []string{"1", "3", "2"})

	outcomes := make([]duly.SettleRequest, len(ds))
	for i, d := range ds {
		outcomes[i] = duly.SettleRequest{Receipt: d.Receipt, As: duly.Ack}
	}
	errs, err := s.Engine.Settle(s.ctx, "", outcomes)
	s.must("settle over two queues", err)
	for _, err := range errs {
		s.must("ack", err)
	}
}

func batchContext(s *scene) {
	// The context ends before the calls begin.
	ended, cancel := context.WithCancel(s.ctx)
	cancel()
	s.push(duly.Job{ID: "x"})
	// An engine may still execute a call whose context has ended. In that case its results must be
	// complete.
	results, err := s.Engine.Push(ended, []duly.Job{{ID: "y", Queue: s.queue}})
	if err == nil && results[0].Status != duly.Created {
		s.Errorf("push with an ended context is answered %+v, want one result for each job", results)
	}
	if ready, err := s.Engine.Wait(ended, duly.WaitParams{Queues: []string{"nowhere"},
		Timeout: time.Minute}); err == nil || ready {
		s.Errorf("wait with an ended context returns %t, %v, want false and an error", ready, err)
	}
	s.is("x", duly.StateReady)
}
