package enginetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

func topicStatsTests() []test {
	return []test{
		{"GroupCountersMatchItsOperations", []string{"C12.7", "C12.151", "C12.152", "C12.153", "C12.154", "C12.155"},
			Options{}, groupCounts},
		{"TopicCountersMatchItsOperations", []string{"C12.156", "C12.157", "C12.158"}, Options{}, topicCounts},
		{"OldestNeededIsTheAgeOfTheFloor", []string{"C12.152"}, Options{}, groupOldest},
		{"ListsAreSortedByState", []string{"C12.7", "C12.159", "C4.112", "C4.150"}, Options{}, groupLists},
		{"ListsBeginAtAMoment", []string{"C12.159", "C4.113", "C4.114", "C4.115"}, Options{}, groupListsFrom},
		{"EveryLeasedMessageIsListed", []string{"C12.159", "C4.51", "C4.116"}, Options{}, groupListsWhole},
		{"EverySingleDeliveryIsListed", []string{"C12.159", "C4.51", "C4.116"}, Options{}, groupListsSingle},
		{"NamesAreListedInPages", []string{"C12.160"}, Options{}, topicNames},
		{"CheckCountsMessages", []string{"C12.182"}, Options{}, topicCheckCounts},
		{"SurveyCoversGroups", []string{"C12.161"}, Options{}, topicSurvey},
	}
}

// topicCheckCounts checks that Check counts held, dead and delayed messages separately from jobs.
// Other messages of the log do not count.
func topicCheckCounts(s *scene) {
	s.on("q").push(duly.Job{})
	g := s.groupFrom("g", duly.FromStart)
	s.send("leased", "nacked", "buried", "acked")
	ds := g.delivers("leased", "nacked", "buried", "acked")
	g.nack(ds[1], "no")
	g.bury(ds[2], "no")
	g.ack(ds[3])
	s.send("beyond the cursor")
	s.publish(duly.Message{Body: []byte("delayed"), Delay: time.Hour})

	var done, total int64
	for _, repair := range []bool{false, true} {
		report, err := s.Maintainer.Check(s.ctx, contract.CheckParams{
			Repair: repair, Progress: func(d, t int64) { done, total = d, t },
		})
		s.must("check", err)
		same(s, "the faults", len(report.Faults), 0)
		same(s, "the number of jobs checked", report.Jobs, 1)
		same(s, "the number of messages checked", report.Messages, 4)
		if done > 5 || done > total {
			s.Errorf("the progress ends at %d of %d, want at most 5 and at most the total", done, total)
		}
	}
}

func groupCounts(s *scene) {
	s.configureTopic(duly.TopicConfig{Keep: time.Hour})
	s.send("before")
	g := s.groupFrom("g", duly.FromEnd)
	g.configure(duly.QueueConfig{DeadCount: 1, Group: duly.GroupConfig{Filter: "a=yes"},
		Defaults: duly.Defaults{Backoff: "fixed:1h"}})
	bodies := []string{"acked", "nacked", "released", "buried", "buried too", "deleted", "stalled"}
	for _, body := range bodies {
		s.publish(withHeaders(body, "a", "yes"), withHeaders("no", "a", "no"))
	}

	// Each message ends in a different way. Half of the published messages do not match the filter.
	ds := g.delivers(bodies...)
	g.ack(ds[0])
	g.nack(ds[1], "no")
	g.release(ds[2])
	g.bury(ds[3], "no")
	g.bury(ds[4], "no")
	s.must("delete", g.Engine.Delete(g.ctx, g.ref(), ds[5].ID))
	g.balanced()
	g.stall(ds[6])
	s.must("requeue", g.requeue(ds[4].ID).Err)
	s.publish(withHeaders("new", "a", "yes"))

	// The new message is beyond the cursor, so it counts as lag.
	st := g.stats()
	same(s, "the counters", st.Counters, duly.Counters{
		Delivered: 7, Acked: 1, Failed: 1, Stalled: 1, Released: 1, Dead: 2, Requeued: 1, Deleted: 1, Dropped: 1,
	})

	same(s, "the sizes", st.Sizes, duly.Sizes{Delayed: 1, Ready: 3})
	same(s, "entered", st.Group.Entered, 15)
	same(s, "filtered", st.Group.Filtered, 7)
	same(s, "the lag", st.Group.Lag, 1)
	sameTime(s, "the next due time", st.NextDue, ds[1].Now.Add(time.Hour))
	g.balanced()

	// A seek to the start releases the held messages and replays the log.
	g.seek(duly.FromStart)
	st = g.stats()
	same(s, "replayed", st.Group.Replayed, 15)
	same(s, "skipped", st.Group.Skipped, 4)
	same(s, "the lag", st.Group.Lag, 16)
	g.balanced()
}

func topicCounts(s *scene) {
	s.configureTopic(duly.TopicConfig{Dedupe: time.Hour, MaxAge: time.Hour})
	g := s.group("g")
	results := s.publish(duly.Message{ID: "a"}, duly.Message{ID: "b"}, duly.Message{ID: "c", Delay: time.Minute},
		duly.Message{ID: "d", Delay: time.Hour})
	s.repeats(duly.Message{ID: "a"}, results[0])
	// One message is delayed, and one is canceled.
	s.must("cancel", s.log().CancelDelayed(s.ctx, s.topic(), "", "c"))

	st := s.info().Stats
	same(s, "messages", st.Messages, 2)
	same(s, "the first position", st.First, results[0].Position)
	same(s, "the last position", st.Last, results[1].Position)
	same(s, "delayed", st.Delayed, 1)
	sameTime(s, "the next due time", st.NextDue, s.now().Add(time.Hour))

	// The acknowledged message is trimmed, and the other one exceeds the age.
	g.ack(g.take())
	s.Advance(time.Hour + time.Millisecond)
	s.stepTopic()
	st = s.info().Stats
	same(s, "published", st.Published, 4)
	same(s, "exists", st.Exists, 1)
	same(s, "entered", st.Entered, 3)
	same(s, "canceled", st.Canceled, 1)
	same(s, "trimmed", st.Trimmed, 1)
	same(s, "dropped", st.Dropped, 1)
	same(s, "messages", st.Messages, 1)
	same(s, "the first position is the last", st.First == st.Last && st.First != duly.Position{}, true)

	g.ackAll(g.takeAll())
	s.stepTopic()
	st = s.info().Stats
	same(s, "the positions of an empty log", st.First == duly.Position{} && st.Last == duly.Position{}, true)
	same(s, "the bytes of an empty log", st.Bytes, 0)
}

func groupOldest(s *scene) {
	g := s.group("g")
	same(s, "the age of nothing", g.groupStats().OldestNeeded, 0)
	s.send("a")
	s.Advance(time.Minute)
	s.send("b")
	s.Advance(time.Minute)
	same(s, "the age of a new message", g.groupStats().OldestNeeded, 2*time.Minute)

	ds := g.delivers("a", "b")
	same(s, "the age of a held message", g.groupStats().OldestNeeded, 2*time.Minute)
	// A ready message keeps the age of its entry.
	g.release(ds[0])
	same(s, "the age of a ready message", g.stats().OldestReady, 2*time.Minute)
	g.ack(g.delivers("a")[0])
	same(s, "the age of the next", g.groupStats().OldestNeeded, time.Minute)
	g.ack(ds[1])
	same(s, "the age of nothing", g.groupStats().OldestNeeded, 0)
}

func groupLists(s *scene) {
	g := s.ordered("g")
	s.publish(
		keyed("kk", "0"), keyed("b", "1"), keyed("a", "2"), keyed("kk", "3"), keyed("a", "4"), keyed("b", "5"),
		keyed("a", "6"),
		keyed("", "7"), keyed("", "8"), keyed("", "9"), keyed("", "10"), keyed("", "11"), keyed("", "12"),
	)

	ds := g.delivers("0", "1", "2", "7", "8", "9", "10", "11", "12")
	// The messages move into several states, in a different order than the lists have.
	s.must("extend", g.extend(ds[0].Receipt, time.Hour))
	g.snooze(ds[3], 2*time.Minute)
	g.snooze(ds[4], time.Minute)
	g.release(ds[6])
	g.release(ds[5])
	g.bury(ds[8], "no")
	s.Advance(time.Second)
	g.bury(ds[7], "no")

	for state, want := range map[duly.State][]string{
		duly.StateLeased: {"1", "2", "0"}, duly.StateDelayed: {"8", "7"}, duly.StateReady: {"9", "10"},
		duly.StateBlocked: {"4", "6", "5", "3"}, duly.StateDead: {"12", "11"}, duly.StateDone: {},
	} {
		// Pages of two, so that cursors are used.
		p := duly.ListParams{State: state, Bodies: true, PageParams: duly.PageParams{Limit: 2}}
		s.sameIDs("the "+state.String()+" messages", listedBodies(g.pages(p, nil)), want)
		p.Newest = true
		s.sameIDs("the newest "+state.String()+" messages", listedBodies(g.pages(p, nil)), backwards(want))
	}

	for key, want := range map[string][]string{"a": {"4", "6"}, "b": {"5"}, "kk": {"3"}, "k": nil} {
		p := duly.ListParams{State: duly.StateBlocked, Key: key, Bodies: true, PageParams: duly.PageParams{Limit: 1}}
		s.sameIDs("the blocked messages of "+key, listedBodies(g.pages(p, nil)), want)
		p.Newest = true
		s.sameIDs("the newest blocked messages of "+key, listedBodies(g.pages(p, nil)), backwards(want))
	}

	for _, j := range g.list(duly.StateReady) {
		same(s, "the size", j.Size > 0, true)
		same(s, "the bytes of a body that was not requested", len(j.Body), 0)
	}
}

// groupListsFrom lists messages from each moment of a state, in both directions.
func groupListsFrom(s *scene) {
	g := s.group("g")
	s.send("0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15", "16", "17")
	ds := g.reserve(18)

	// Six messages become dead and six delayed, two at each moment. Two of the others get a longer
	// lease, one gets the longest, and three keep the first one.
	for i := range 6 {
		g.bury(ds[5-i], "no")
		g.snooze(ds[6+i], time.Hour+time.Duration(i/2)*time.Minute)
		if i%2 == 1 {
			s.Advance(time.Second)
		}
	}
	s.must("extend", g.extend(ds[12].Receipt, 2*time.Hour))
	s.must("extend", g.extend(ds[13].Receipt, 2*time.Hour))
	s.must("extend", g.extend(ds[14].Receipt, 3*time.Hour))

	for _, state := range []duly.State{duly.StateDelayed, duly.StateLeased, duly.StateDead} {
		jobs := g.list(state)
		same(s, "the number of "+state.String()+" messages", len(jobs), 6)
		for i := range jobs {
			for _, apart := range []time.Duration{-time.Millisecond, 0, time.Millisecond} {
				from := momentOf(&jobs[i]).Add(apart)
				g.listsFrom(jobs, duly.ListParams{State: state, From: from})
				g.listsFrom(jobs, duly.ListParams{State: state, From: from, Newest: true})
			}
		}
	}

	_, err := g.Engine.List(s.ctx, g.ref(), duly.ListParams{State: duly.StateReady, From: s.now()})
	s.names("from of ready messages", err, duly.CodeInvalid, "from")
}

// groupListsWhole lists more messages with one lease end than a page has: messages of first deliveries,
// and messages that were given back before.
func groupListsWhole(s *scene) {
	const n = 2100
	g := s.group("g")
	for range n / 700 {
		s.send(make([]string, 700)...)
	}
	for range 2 {
		ds := g.takeAll()
		same(s, "the number of deliveries", len(ds), n)
		for _, newest := range []bool{false, true} {
			for _, limit := range []int{450, 1000} {
				g.listsEachLeased(n, newest, limit)
			}
		}

		requests := make([]duly.SettleRequest, n)
		for i, d := range ds {
			requests[i] = duly.SettleRequest{Receipt: d.Receipt, As: duly.Release}
		}
		for some := range slices.Chunk(requests, duly.MaxBatch) {
			_, err := s.Engine.Settle(s.ctx, "", some)
			s.must("release", err)
		}
	}
}

// listsEachLeased checks that a list has n leased messages, each once.
func (s *scene) listsEachLeased(n int, newest bool, limit int) {
	s.Helper()
	ids := s.pageIDs(duly.ListParams{State: duly.StateLeased, Newest: newest}, limit)
	what := fmt.Sprintf("the leased messages, newest %t, in pages of %d", newest, limit)
	same(s, what, len(ids), n)
	slices.Sort(ids)
	same(s, what+", each once", len(slices.Compact(ids)), n)
}

// groupListsSingle lists the messages of many deliveries of one message each, with the same lease end.
func groupListsSingle(s *scene) {
	const n = 1010
	g := s.group("g")
	for range n / 10 {
		s.send(make([]string, 10)...)
	}
	for range n {
		g.take()
	}
	for _, newest := range []bool{false, true} {
		g.listsEachLeased(n, newest, duly.MaxBatch)
	}
}

func topicNames(s *scene) {
	for _, topic := range []string{"d", "b", "e", "a", "c"} {
		s.onTopic(topic).send("x")
	}
	s.sameIDs("the topics", s.topics(), []string{"a", "b", "c", "d", "e"})
	for _, group := range []string{"z", "y", "x", "w"} {
		s.onTopic("b").group(group)
	}
	s.sameIDs("the groups", s.onTopic("b").groups(), []string{"w", "x", "y", "z"})
	s.sameIDs("the groups of a topic without one", s.onTopic("a").groups(), nil)

	_, err := s.log().Topics(s.ctx, "", duly.PageParams{Limit: duly.MaxBatch + 1})
	s.names("a large page of topics", err, duly.CodeInvalid, "limit")
	_, err = s.log().Groups(s.ctx, duly.Q("b"), duly.PageParams{Limit: -1})
	s.names("a bad page of groups", err, duly.CodeInvalid, "limit")
}

func topicSurvey(s *scene) {
	// Queues before and after the groups by name.
	s.on("zz").push(duly.Job{})
	s.on("aa").push(duly.Job{})
	for _, topic := range []string{"m", "n"} {
		t := s.onTopic(topic)
		t.group("g1")
		t.group("g2")
		t.send("x", "y")
		s.on(duly.GroupName(topic, "g1")).take()
	}
	s.on("m@g2").configure(duly.QueueConfig{MaxLeased: 3})
	for _, limit := range []int{1, 2, 10} {
		s.surveyed(limit)
	}
}
