package enginetest

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

func topicGroupTests() []test {
	return []test{
		{"StartsAtTheStartTheEndATimeOrAPosition",
			[]string{"C12.2", "C12.65", "C12.67", "C12.68", "C12.69", "C12.70"}, Options{}, groupFroms},
		{"ThatExistsIsNotChanged", []string{"C12.66"}, Options{}, groupExists},
		{"StartAheadOfTheLogIsInvalid", []string{"C12.69", "C12.70", "C12.149"}, Options{}, groupFromAhead},
		{"StartsAtTheOldestStoredMessage", []string{"C12.67", "C12.121"}, Options{}, groupFromTrimmed},
		{"ReceivesMessagesPublishedAfterItsCreation", []string{"C12.71", "C12.72", "C12.73"}, Options{}, groupFromEnd},
		{"EachReceivesEveryMessage", []string{"C1.10", "C12.1", "C12.83"}, Options{}, groupsSeeAll},
		{"UnknownNamesAreNotFound", []string{"C12.76"}, Options{}, groupUnknown},
		{"ReserveFromAnUnknownGroupLeasesNothing", []string{"C12.76"}, Options{}, groupUnknownAmongOthers},
		{"HasTheDefaultsOfAGroup", []string{"C12.84", "C12.85", "C12.86"}, Options{}, groupDefaults},
		{"SettingsApplyToEveryMessage", []string{"C12.85"}, Options{}, groupSettings},
		{"RefusesOperationsOfQueues", []string{"C12.78", "C12.86"}, Options{}, groupRefuses},
		{"SupportsTheOperationsOfAQueue", []string{"C12.77"}, Options{}, groupOperations},
		{"DeletesMessagesByIDs", []string{"C12.77", "C4.103", "C4.104"}, Options{}, groupDeletions},
		{"InvalidGroupNamesAreRefused", []string{"C12.76"}, Options{}, groupBadNames},
		{"NumberPerTopicIsAtMost100", []string{"C12.178"}, Options{}, groupBound},
		{"PositionsOfAnotherTopicAreInvalid", []string{"C12.114", "C12.77"}, Options{}, groupForeignPositions},
		{"PauseStopsTheCursor", []string{"C12.84"}, Options{}, groupPaused},
		{"LimitsStopTheCursor", []string{"C12.84"}, Options{}, groupLimits},
	}
}

func groupFroms(s *scene) {
	s.send("a", "b")
	s.Advance(time.Second)
	at := s.now()
	c := s.send("c")[0]
	s.Advance(time.Second)
	s.send("d")

	// A time includes the messages that entered at it. A position includes its message.
	for i, from := range []struct {
		from duly.From
		want string
	}{
		{duly.FromStart, "abcd"}, {"", "abcd"}, {duly.FromEnd, ""}, {duly.FromTime(at), "cd"},
		{duly.FromTime(at.Add(-time.Millisecond)), "cd"},
		{duly.FromTime(at.Add(time.Millisecond)), "d"}, {duly.FromTime(at.Add(-time.Hour)), "abcd"},
		{duly.FromTime(s.now()), "d"},
		{duly.From(c), "cd"},
	} {
		g := s.groupFrom(fmt.Sprint("g", i), from.from)
		if got := strings.Join(bodiesOf(g.takeAll()), ""); got != from.want {
			s.Errorf("a group from %q receives %q, want %q", from.from, got, from.want)
		}
		same(s, "entered", g.groupStats().Entered, int64(len(from.want)))
	}
}

func groupExists(s *scene) {
	s.send("a", "b")
	g := s.group("g")
	g.configure(duly.QueueConfig{MaxLeased: 7})
	g.take()
	// A second creation must not move the cursor of the group.
	s.topicUnchanged("a second creation", func() {
		for _, from := range []duly.From{duly.FromStart, duly.FromEnd} {
			existed, err := s.log().CreateGroup(s.ctx, g.ref(), from)
			s.must("create group", err)
			same(s, "existed", existed, true)
		}
	})
}

func groupFromAhead(s *scene) {
	p := s.send("a")[0]
	// These are a position, a time, a malformed text and a position of another topic.
	parts := mustPosition(s, p)
	parts.Ordinal++
	for _, from := range []duly.From{
		duly.FromPosition(parts.Position()), duly.FromTime(s.now().Add(time.Second)), "next:1", "yesterday",
		duly.FromPosition(contract.PositionParts{Millis: 1, Ordinal: 1, Topic: 1}.Position()),
	} {
		s.topicUnchanged("creation from "+string(from), func() {
			_, err := s.log().CreateGroup(s.ctx, duly.Q(theTopic+"@g"), from)
			s.names("a group from "+string(from), err, duly.CodeInvalid, "from")
		})
	}

	_, err := s.log().CreateGroup(s.ctx, duly.Q("new@g"), duly.FromTime(s.now().Add(time.Second)))
	s.names("a group of a new topic", err, duly.CodeInvalid, "from")
	// The refused call has not created the topic.
	s.sameIDs("the topics", s.topics(), []string{theTopic})
}

// mustPosition parses a position.
func mustPosition(s *scene, text string) contract.PositionParts {
	s.Helper()
	n, ok := duly.ParseNumber(text)
	if !ok {
		s.Fatalf("%q must be a position", text)
	}
	return contract.PositionPartsOf(n)
}

func groupFromTrimmed(s *scene) {
	first := s.group("first")
	positions := s.send("a", "b", "c")
	// The first two messages are trimmed, so every start before them is clipped.
	first.ackAll(first.reserve(2))
	s.stepTopic()
	s.logged("c")

	s.group("second").delivers("c")
	s.groupFrom("third", duly.From(positions[0])).delivers("c")
	s.groupFrom("fourth", duly.FromTime(s.now().Add(-time.Hour))).delivers("c")
}

func groupFromEnd(s *scene) {
	s.send("a")
	g := s.groupFrom("g", duly.FromEnd)
	s.send("b")
	g.delivers("b")

	// The same for a topic that the group creates.
	empty := s.onTopic("empty").groupFrom("g", duly.FromEnd)
	s.onTopic("empty").send("c")
	empty.delivers("c")
}

func groupsSeeAll(s *scene) {
	g, h := s.group("g"), s.group("h")
	s.send("a", "b")
	g.ackAll(g.delivers("a", "b"))
	s.send("c")
	h.delivers("a", "b", "c")
	g.delivers("c")

	s.sameIDs("the groups", s.groups(), []string{"g", "h"})
	s.must("destroy", s.Engine.Destroy(s.ctx, g.ref()))
	s.sameIDs("the groups", s.groups(), []string{"h"})
	// Destroying a group that does not exist succeeds.
	s.must("destroy again", s.Engine.Destroy(s.ctx, g.ref()))
	s.must("destroy a group of no topic", s.Engine.Destroy(s.ctx, duly.Q("nothing@g")))
}

// callsOf calls every operation on a group and returns the errors by operation.
func callsOf(s *scene, ref duly.QueueRef) map[string]error {
	id := contract.PositionParts{Millis: 1, Ordinal: 1,
		Topic: contract.TopicChecksum(duly.QueueRef{Namespace: ref.Namespace,
			Name: strings.TrimSuffix(ref.Name, "@g")})}.Position().String()
	return map[string]error{
		"reserve":   errOf(s.Engine.Reserve(s.ctx, duly.ReserveParams{Queues: []string{ref.Name}, Max: 1})),
		"wait":      errOf(s.Engine.Wait(s.ctx, duly.WaitParams{Queues: []string{ref.Name}})),
		"get":       errOf(s.Engine.Get(s.ctx, ref, id)),
		"list":      errOf(s.Engine.List(s.ctx, ref, duly.ListParams{State: duly.StateReady})),
		"stats":     errOf(s.Engine.Stats(s.ctx, ref)),
		"config":    errOf(s.Engine.Config(s.ctx, ref)),
		"delete":    s.Engine.Delete(s.ctx, ref, id),
		"get all":   errOf(s.Engine.GetJobs(s.ctx, ref, []string{id}, true)),
		"deletion":  errOf(s.Engine.DeleteJobs(s.ctx, ref, []string{id}, duly.StateNone)),
		"requeue":   errOf(s.Engine.Requeue(s.ctx, ref, duly.RequeueParams{N: 1})),
		"purge":     errOf(s.Engine.Purge(s.ctx, ref, duly.StateReady, 0)),
		"configure": s.Engine.Configure(s.ctx, ref, duly.QueueConfig{MaxLeased: 1}),
		"pause":     s.Engine.Pause(s.ctx, ref),
		"resume":    s.Engine.Resume(s.ctx, ref),
		"seek":      errOf(s.log().Seek(s.ctx, ref, duly.FromStart)),
	}
}

func groupUnknown(s *scene) {
	s.send("a")
	s.on("q").push(duly.Job{})
	s.topicUnchanged("operations on unknown groups", func() {
		// An unknown group of a topic, a group of no topic, and a group of a queue.
		for _, name := range []string{"events@g", "nothing@g", "q@g"} {
			missing := "no topic"
			if name == "events@g" {
				missing = "no group"
			}
			for what, err := range callsOf(s, duly.Q(name)) {
				s.refused(what+" of "+name, err, duly.CodeNotFound)
				if err != nil && !strings.Contains(err.Error(), missing) {
					s.Errorf("%s of %s: %q does not say %q", what, name, err, missing)
				}
			}
		}

		for what, err := range map[string]error{
			"topic":  errOf(s.log().Topic(s.ctx, duly.Q("nothing"))),
			"read":   errOf(s.log().Read(s.ctx, duly.Q("nothing"), contract.ReadParams{})),
			"groups": errOf(s.log().Groups(s.ctx, duly.Q("nothing"), duly.PageParams{})),
		} {
			s.refused(what+" of an unknown topic", err, duly.CodeNotFound)
		}
	})
}

func groupUnknownAmongOthers(s *scene) {
	g := s.group("g")
	s.send("a")
	s.on("q").push(duly.Job{})
	s.topicUnchanged("a reserve that names an unknown group", func() {
		// The other queues of the call exist, but no job may be leased from them.
		for _, names := range [][]string{{g.queue, "q", "events@other"}, {"events@other", g.queue},
			{g.queue, "other@g"}} {
			_, err := s.Engine.Reserve(s.ctx, duly.ReserveParams{Queues: names, Max: 2})
			s.refused("a reserve from an unknown group", err, duly.CodeNotFound)
			_, err = s.Engine.Wait(s.ctx, duly.WaitParams{Queues: names, Timeout: time.Minute})
			s.refused("a wait for an unknown group", err, duly.CodeNotFound)
		}
	})

	ds := s.reserve(2, g.queue, "q")
	same(s, "the deliveries of a group and a queue", len(ds), 2)
	same(s, "the queue of the first", ds[0].Queue, g.queue)
	same(s, "the queue of the second", ds[1].Queue, "q")
}

func groupDefaults(s *scene) {
	g := s.group("g")
	want := contract.DefaultGroupConfig()
	same(s, "the configuration", g.config(), want)
	same(s, "max_held", want.Group.MaxHeld, 100_000)

	s.send("a")
	j := g.take()
	same(s, "tries", j.Tries, 16)
	same(s, "max stalls", j.MaxStalls, 8)
	same(s, "backoff", j.Backoff, "exp:1s:1h")
	same(s, "lease", j.LeaseEnd.Sub(s.now()), 30*time.Second)
	same(s, "ttl", j.TTL, duly.None)
	same(s, "retain", j.Retain, duly.None)
	same(s, "priority", j.Priority, 0)
	same(s, "merge", j.Merge, duly.Merge{})
}

func groupSettings(s *scene) {
	g := s.group("g")
	s.send("a", "b")
	a := g.take()
	// The new settings also apply to the message in flight.
	g.configure(duly.QueueConfig{Defaults: duly.Defaults{Tries: 2, MaxStalls: 3, Backoff: "fixed:7s",
		Lease: time.Minute}})
	b := g.take()
	for _, d := range []duly.Delivery{a, b} {
		info := g.get(d.ID)
		same(s, "tries", info.Tries, 2)
		same(s, "max stalls", info.MaxStalls, 3)
		same(s, "backoff", info.Backoff, "fixed:7s")
		same(s, "lease", info.Lease, time.Minute)
	}

	same(s, "the lease of a delivery", b.LeaseEnd.Sub(s.now()), time.Minute)
	g.nack(a, "no")
	sameTime(s, "the due time after a nack", g.get(a.ID).Due, s.now().Add(7*time.Second))

	// The new number of tries is lower than the message's failures, so its next failure is the last
	// one.
	g.configure(duly.QueueConfig{Defaults: duly.Defaults{Tries: 1}})
	g.nack(b, "no")
	g.is(b.ID, duly.StateDead)
	ds, err := s.Engine.Reserve(s.ctx, duly.ReserveParams{Queues: []string{g.queue}, Max: 1, Lease: time.Hour})
	s.must("reserve", err)
	same(s, "deliveries", len(ds), 0)

	s.send("c")
	ds, err = s.Engine.Reserve(s.ctx, duly.ReserveParams{Queues: []string{g.queue}, Max: 1, Lease: time.Hour})
	s.must("reserve", err)
	same(s, "the lease that the call sets", ds[0].LeaseEnd.Sub(s.now()), time.Hour)
}

func groupRefuses(s *scene) {
	g := s.group("g")
	id := s.send("a")[0]
	g.bury(g.take(), "no")
	// Operations on job fields and on the order of a queue make no sense for messages of a log.
	s.topicUnchanged("operations that a group does not have", func() {
		s.names("push", g.try(duly.Job{}).Err, duly.CodeInvalid, "queue")
		s.names("update", g.Engine.Update(g.ctx, g.ref(), id, duly.Update{Tries: 2}), duly.CodeInvalid, "queue")
		s.names("promote", g.Engine.Promote(g.ctx, g.ref(), id), duly.CodeInvalid, "queue")
		_, err := g.Engine.Peek(g.ctx, g.ref())
		s.names("peek", err, duly.CodeInvalid, "queue")
		_, err = g.keyLister().Keys(g.ctx, g.ref(), contract.KeysParams{})
		s.names("keys", err, duly.CodeInvalid, "queue")
		_, err = g.keyLister().Holder(g.ctx, g.ref(), "k")
		s.names("holder", err, duly.CodeInvalid, "queue")
		for field, patch := range map[string]duly.QueueConfig{
			"shards": {Shards: 2}, "defaults.ttl": {Defaults: duly.Defaults{TTL: time.Hour}},
			"defaults.retain": {Defaults: duly.Defaults{Retain: time.Hour}},
			"max_jobs":        {MaxJobs: 1}, "order": {Group: duly.GroupConfig{Order: "none at all"}},
			"idle":     {Group: duly.GroupConfig{Idle: time.Minute}},
			"max_held": {Group: duly.GroupConfig{MaxHeld: -1}},
			"filter":   {Group: duly.GroupConfig{Filter: "a=1&b=2&c=3&d=4&e=5&f=6&g=7&h=8&i=9"}},
			"target":   {Group: duly.GroupConfig{Target: "a b"}},
		} {
			s.names("configure", g.Engine.Configure(g.ctx, g.ref(), patch), duly.CodeInvalid, field)
		}
		_, err = g.Engine.Requeue(g.ctx, g.ref(), duly.RequeueParams{N: 1, Tries: 3})
		s.names("requeue", err, duly.CodeInvalid, "tries")
		_, err = g.Engine.Requeue(g.ctx, g.ref(), duly.RequeueParams{N: 1, TTL: time.Hour})
		s.names("requeue", err, duly.CodeInvalid, "ttl")
	})

	s.on("q").push(duly.Job{})
	s.names("a group setting of a queue", s.Engine.Configure(s.ctx, duly.Q("q"),
		duly.QueueConfig{Group: duly.GroupConfig{MaxHeld: 5}}), duly.CodeInvalid, "max_held")
}

func groupOperations(s *scene) {
	g := s.group("g")
	ids := s.send("a", "b", "c", "d", "e")
	// One message in each state, and one that was not reserved yet.
	ds := g.reserve(4)

	g.is(ids[0], duly.StateLeased)
	s.must("extend", g.extend(ds[0].Receipt, time.Hour))
	same(s, "the lease end", g.get(ids[0]).LeaseEnd.Sub(s.now()), time.Hour)
	g.bury(ds[1], "broken")
	g.release(ds[2])
	g.snooze(ds[3], time.Hour)
	g.is(ids[1], duly.StateDead)
	g.is(ids[2], duly.StateReady)
	g.is(ids[3], duly.StateDelayed)
	s.refused("get beyond the cursor", errOf(g.Engine.Get(g.ctx, g.ref(), ids[4])), duly.CodeNotFound)

	info, err := g.Engine.GetByReceipt(g.ctx, "", ds[1].Receipt)
	s.must("get by receipt", err)
	same(s, "the message of a receipt", info.ID, ids[1])
	s.sameIDs("the dead", idsOf(g.list(duly.StateDead)), ids[1:2])

	same(s, "the state after requeue", g.requeue(ids[1]).State, duly.StateReady)
	s.must("delete", g.Engine.Delete(g.ctx, g.ref(), ids[1]))
	g.gone(ids[1])
	n, err := g.Engine.Purge(g.ctx, g.ref(), duly.StateReady, 0)
	s.must("purge", err)
	same(s, "the messages purged", n, 1)

	// A message beyond the cursor is not the group's yet.
	s.refused("delete beyond the cursor", g.Engine.Delete(g.ctx, g.ref(), ids[4]), duly.CodeConflict)
	s.refused("requeue beyond the cursor", g.requeue(ids[4]).Err, duly.CodeConflict)
	g.conflicts("requeue of a delayed message", g.requeue(ids[3]).Err, duly.StateDelayed)
	// The purge has removed the requeued and released messages.
	g.delivers("e")
	g.sizes(duly.Sizes{Delayed: 1, Leased: 2})
}

// groupDeletions deletes messages by ID: one in each state, one that is gone, and one beyond the cursor.
func groupDeletions(s *scene) {
	g := s.group("g")
	ids := s.send("a", "b", "c", "d", "e", "f")
	ds := g.reserve(5)
	g.bury(ds[1], "broken")
	g.release(ds[2])
	g.snooze(ds[3], time.Hour)
	s.must("ack", g.settle(duly.SettleRequest{Receipt: ds[4].Receipt, As: duly.Ack}))
	states := []duly.State{duly.StateLeased, duly.StateDead, duly.StateReady, duly.StateDelayed}

	for i, r := range g.getJobs(true, ids...) {
		if i >= len(states) {
			s.refused("get of a message that the group does not hold", r.Err, duly.CodeNotFound)
			continue
		}
		s.must("get of a message that is "+states[i].String(), r.Err)
		same(s, "its state", r.Info.State, states[i])
		same(s, "its body", string(r.Info.Body), string("abcd"[i]))
	}
	s.refused("promotion in a group", errOf(s.Engine.PromoteJobs(s.ctx, g.ref(), ids)), duly.CodeInvalid)

	for i, state := range states {
		wanted := states[(i+1)%len(states)]
		g.conflicts("deletion of a message that is "+state.String(), g.deleteJobs(wanted, ids[i])[0], state)
	}
	errs := g.deleteJobs(duly.StateDead, ids...)
	for i, state := range states {
		if state == duly.StateDead {
			s.must("deletion of a dead message", errs[i])
		} else {
			g.conflicts("deletion of a message that is "+state.String(), errs[i], state)
		}
	}
	s.refused("deletion of an acked message", errs[4], duly.CodeNotFound)
	s.refused("deletion beyond the cursor", errs[5], duly.CodeConflict)
	g.gone(ids[1])
	g.sizes(duly.Sizes{Leased: 1, Ready: 1, Delayed: 1})

	// The time of the snoozed message comes, but no step runs.
	s.Advance(time.Hour)
	g.conflicts("deletion of a due message", g.deleteJobs(duly.StateDelayed, ids[3])[0], duly.StateReady)
	for i, err := range g.deleteJobs(duly.StateNone, ids[0], ids[2], ids[3]) {
		s.must("deletion in any state of number "+strconv.Itoa(i), err)
	}
	g.lost("ack of a deleted message", g.settle(duly.SettleRequest{Receipt: ds[0].Receipt, As: duly.Ack}))
	g.delivers("f")
}

func groupBadNames(s *scene) {
	s.send("a")
	s.topicUnchanged("operations with invalid group names", func() {
		for _, name := range []string{"a@b@c", "@g", "events@", "@", "events@.g", "events@g h"} {
			for what, err := range callsOf(s, duly.Q(name)) {
				s.refused(what+" of "+name, err, duly.CodeInvalid)
			}
			s.refused("creation of "+name, errOf(s.log().CreateGroup(s.ctx, duly.Q(name), "")), duly.CodeInvalid)
			s.refused("push to "+name, s.on(name).try(duly.Job{}).Err, duly.CodeInvalid)
		}
		s.refused("creation of a group without a topic", errOf(s.log().CreateGroup(s.ctx, duly.Q("events"), "")),
			duly.CodeInvalid)
		s.refused("seek of a topic", errOf(s.log().Seek(s.ctx, duly.Q("events"), "")), duly.CodeInvalid)
		s.refused("publish to a group", s.tryPublish(duly.Message{Topic: "events@g"}).Err, duly.CodeInvalid)
	})
}

func groupBound(s *scene) {
	for i := range duly.MaxGroups {
		s.group(fmt.Sprintf("g%03d", i))
	}
	_, err := s.log().CreateGroup(s.ctx, duly.Q(theTopic+"@more"), "")
	s.refused("the 101st group", err, duly.CodeFull)
	same(s, "the groups", len(s.groups()), duly.MaxGroups)

	// The bound does not concern a group that exists.
	existed, err := s.log().CreateGroup(s.ctx, duly.Q(theTopic+"@g007"), "")
	s.must("a group that exists", err)
	same(s, "existed", existed, true)
	s.must("destroy", s.Engine.Destroy(s.ctx, duly.Q(theTopic+"@g007")))
	s.group("more")
	s.send("a")
	s.on(theTopic + "@g099").delivers("a")
}

func groupForeignPositions(s *scene) {
	g := s.group("g")
	// The group has a dead message, so its own positions would work.
	g.bury(takeSent(g, "a"), "no")
	other := s.onTopic("other").send("a")[0]
	for _, id := range []string{other, "order-17", duly.NewNumber().String()} {
		s.names("get "+id, errOf(g.Engine.Get(g.ctx, g.ref(), id)), duly.CodeInvalid, "id")
		s.names("get of "+id, g.getJobs(true, id)[0].Err, duly.CodeInvalid, "id")
		s.names("delete "+id, g.Engine.Delete(g.ctx, g.ref(), id), duly.CodeInvalid, "id")
		s.names("deletion of "+id, g.deleteJobs(duly.StateDead, id)[0], duly.CodeInvalid, "id")
		s.names("requeue "+id, g.requeue(id).Err, duly.CodeInvalid, "id")
	}

	s.names("seek", errOf(s.log().Seek(s.ctx, g.ref(), duly.From(other))), duly.CodeInvalid, "from")
	s.names("read", errOf(s.log().Read(s.ctx, s.topic(), contract.ReadParams{From: duly.From(other)})), duly.CodeInvalid,
		"from")
}

// takeSent publishes a message and reserves it.
func takeSent(g *scene, body string) duly.Delivery {
	g.Helper()
	g.send(body)
	return g.take()
}

func groupPaused(s *scene) {
	g := s.group("g")
	s.send("a", "b")
	s.must("pause", g.Engine.Pause(g.ctx, g.ref()))
	g.nothing("the group is paused")
	// The paused group has not moved its cursor.
	same(s, "the lag", g.groupStats().Lag, 2)
	same(s, "paused", g.config().Paused, true)
	same(s, "a wait for a paused group", g.ready(), false)
	s.must("resume", g.Engine.Resume(g.ctx, g.ref()))
	g.delivers("a", "b")
}

func groupLimits(s *scene) {
	g, h := s.group("g"), s.group("h")
	g.configure(duly.QueueConfig{MaxLeased: 2})
	s.send("a", "b", "c")
	ds := g.delivers("a", "b")
	same(s, "the lag", g.groupStats().Lag, 1)
	g.ack(ds[0])
	g.delivers("c")
	h.configure(duly.QueueConfig{Rate: duly.Rate{PerSecond: 1, Burst: 1}})
	h.delivers("a")
	// The rate allows the next message after a second.
	s.Advance(time.Second)
	h.delivers("b")
}
