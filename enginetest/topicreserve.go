package enginetest

import (
	"fmt"
	"time"

	"github.com/dulymq/duly"
)

func topicReserveTests() []test {
	return []test{
		{"FollowsTheLogAndMovesTheCursor", []string{"C12.83", "C12.89", "C12.98"}, Options{},
			topicReserveOrder},
		{"DeliveryHasAllFieldsOfTheMessage", []string{"C12.79", "C12.93"}, Options{}, topicReserveDelivery},
		{"ReadyMessagesComeFirstByPosition", []string{"C12.87"}, Options{}, topicReserveReady},
		{"ReadyMessagesFillAtMostHalfIfThereAreNewOnes", []string{"C12.88"}, Options{}, topicReserveHalf},
		{"StopsEarlyAt8MiB", []string{"C12.89"}, Options{}, topicReserveBytes},
		{"ConcurrentReservesShareNoMessage", []string{"C12.83", "C12.109"}, Options{}, topicReserveOnce},
		{"SuspectIsDeliveredAlone", []string{"C12.92"}, Options{}, topicReservePoison},
		{"MessageAtItsLastTryIsDeliveredAlone", []string{"C12.92", "C4.100"}, Options{}, topicReserveLastTry},
		{"OnlyThePoisonMessageBecomesDead", []string{"C12.92", "C12.96"}, Options{}, topicPoisonDies},
		{"OnlyTheBridgeReservesAGroupWithATarget", []string{"C12.168"}, Options{}, topicReserveTarget},
		{"TopicIsNoValidTarget", []string{"C12.184"}, Options{}, topicReserveNoTopic},
		{"OneWaiterWakesPerGroupAndMessage", []string{"C12.91"}, Options{}, topicWaiters},
		{"WaitEndsWhenADelayedMessageIsDue", []string{"C12.91", "C12.48"}, Options{}, topicWaitDelayed},
	}
}

func topicReserveOrder(s *scene) {
	g := s.group("g")
	s.send("a", "b", "c")
	s.sameIDs("the first call", bodiesOf(g.reserve(2)), []string{"a", "b"})
	same(s, "the lag", g.groupStats().Lag, 1)
	s.send("d")
	g.delivers("c", "d")
	same(s, "the lag", g.groupStats().Lag, 0)
	g.delivers()
}

func topicReserveNoTopic(s *scene) {
	g := s.group("g")
	target := func(name string) error {
		return g.Engine.Configure(g.ctx, g.ref(), duly.QueueConfig{Group: duly.GroupConfig{Target: name}})
	}
	s.publish(duly.Message{Topic: "other", Body: []byte("a")})
	for _, topic := range []string{theTopic, "other"} {
		s.names("a target that is the topic "+topic, target(topic), duly.CodeInvalid, "target")
	}

	// The refused change has set no target.
	config, err := g.Engine.Config(g.ctx, g.ref())
	s.must("config", err)
	same(s, "the target", config.Group.Target, duly.NoTarget)

	s.on("jobs").push(duly.Job{})
	s.must("a target that is a queue", target("jobs"))
	s.must("destroy", s.log().DestroyTopic(s.ctx, duly.Q("other")))
	s.must("a target that was a topic", target("other"))
}

func topicReserveTarget(s *scene) {
	g, other := s.group("g"), s.group("h")
	s.send("a", "b")
	reserve := func(target string, queues ...string) ([]duly.Delivery, error) {
		return s.Engine.Reserve(s.ctx, duly.ReserveParams{Queues: queues, Max: 1, Target: target})
	}
	s.must("configure", g.Engine.Configure(g.ctx, g.ref(), duly.QueueConfig{Group: duly.GroupConfig{Target: "jobs"}}))
	// A call without the group's target is refused, also together with another group.
	for _, queues := range [][]string{{g.queue}, {other.queue, g.queue}} {
		for _, target := range []string{"", "other"} {
			_, err := reserve(target, queues...)
			same(s, "the code of a call that names "+target, duly.CodeOf(err), duly.CodeConflict)
		}
	}

	_, err := reserve("jobs", other.queue)
	same(s, "the code for a group without a target", duly.CodeOf(err), duly.CodeConflict)
	same(s, "the lag of the other group", other.groupStats().Lag, 2)

	ds, err := reserve("jobs", g.queue)
	s.must("reserve", err)
	s.sameIDs("the bridge", bodiesOf(ds), []string{"a"})
	s.must("configure", g.Engine.Configure(g.ctx, g.ref(),
		duly.QueueConfig{Group: duly.GroupConfig{Target: duly.NoTarget}}))
	g.delivers("b")
}

func topicReserveDelivery(s *scene) {
	g := s.group("g")
	r := s.publish(duly.Message{ID: "own", Key: "k", Body: []byte("body"), Headers: map[string]string{"H": "v"}})[0]
	entered := s.now()
	s.Advance(time.Minute)
	d := g.take()
	same(s, "the ID", d.ID, r.Position.String())
	same(s, "the namespace", d.Namespace, duly.DefaultNamespace)
	same(s, "the queue", d.Queue, "events@g")
	same(s, "the order key", d.OrderKey, "k")
	same(s, "the body", string(d.Body), "body")
	same(s, "the header", d.Headers["h"], "v")
	sameTime(s, "the push time", d.PushedAt, entered)
	sameTime(s, "the due time", d.Due, entered)
	sameTime(s, "now", d.Now, s.now())
	sameTime(s, "the lease end", d.LeaseEnd, s.now().Add(30*time.Second))
	same(s, "the attempt", d.Attempt, 1)

	p := g.parts(d)
	same(s, "the queue of the receipt", p.Queue, "events@g")
	same(s, "the shard of the receipt", p.Shard, 0)
	same(s, "the number of the receipt", p.Number, r.Position)
	if p.Delivery == 0 || p.Delivery > 1<<63-1 {
		s.Errorf("the token %d is not between 1 and 2^63-1", p.Delivery)
	}

	info := g.get(d.ID)
	same(s, "the state", info.State, duly.StateLeased)
	same(s, "the size", info.Size, 4)
	same(s, "the body of Get", string(info.Body), "body")

	g.nack(d, "broken")
	g.Advance(2 * time.Second)
	again := g.take()
	same(s, "the failures", again.Failures, 1)
	same(s, "the attempt", again.Attempt, 2)
	sameTime(s, "the due time of the second delivery", again.Due, entered)
	same(s, "the error", g.get(d.ID).LastError, "broken")
	g.stall(again)
	third := g.take()
	same(s, "the stalls", third.Stalls, 1)
}

func topicReserveReady(s *scene) {
	g := s.group("g")
	s.send("a", "b", "c")
	ds := g.delivers("a", "b", "c")
	// Released in another order, delivered by position.
	for _, i := range []int{2, 0, 1} {
		g.release(ds[i])
	}
	g.delivers("a", "b", "c")
}

func topicReserveHalf(s *scene) {
	g := s.group("g")
	for _, c := range []struct {
		ready, fresh, max int
		want              string
	}{
		{6, 6, 6, "r0 r1 r2 n0 n1 n2"}, {6, 6, 5, "r0 r1 r2 n0 n1"}, {6, 1, 5, "r0 r1 r2 n0 r3"},
		{1, 6, 4, "r0 n0 n1 n2"},
		{3, 0, 3, "r0 r1 r2"}, {2, 2, 1, "r0"},
	} {
		s.send(numberedBodies("r", c.ready)...)
		// Make the first messages ready by a release. The new messages stay beyond the cursor.
		for _, d := range g.takeAll() {
			g.release(d)
		}
		s.send(numberedBodies("n", c.fresh)...)

		got := fmt.Sprint(bodiesOf(g.reserve(c.max)))
		same(s, fmt.Sprintf("a call of %d with %d ready and %d new messages", c.max, c.ready, c.fresh), got,
			"["+c.want+"]")
		// Remove all messages before the next case.
		g.takeAll()
		g.purge(duly.StateLeased)
	}
}

func numberedBodies(prefix string, n int) []string {
	bodies := make([]string, n)
	for i := range bodies {
		bodies[i] = fmt.Sprint(prefix, i)
	}
	return bodies
}

// purge deletes all jobs of a state and returns their number.
func (s *scene) purge(state duly.State) int {
	s.Helper()
	n, err := s.Engine.Purge(s.ctx, s.ref(), state, 0)
	s.must("purge", err)
	return n
}

func topicReserveBytes(s *scene) {
	g := s.group("g")
	for range 10 {
		s.publish(duly.Message{Body: make([]byte, 1<<20)})
	}
	same(s, "the messages of one call", len(g.reserve(100)), 8)
	// The log keeps the rest beyond the cursor.
	same(s, "the lag", g.groupStats().Lag, 2)
	same(s, "the messages of the next call", len(g.reserve(100)), 2)
}

// topicReserveOnce runs consumers that reserve concurrently. No message may be delivered twice.
func topicReserveOnce(s *scene) {
	const messages, consumers = 300, 8
	g := s.group("g")
	for range 3 {
		s.send(numberedBodies("m", messages/3)...)
	}

	taken := make(chan []string, consumers)
	for i := range consumers {
		go func() {
			var ids []string
			for {
				ds, err := s.Engine.Reserve(s.ctx,
					duly.ReserveParams{Queues: []string{g.queue}, Max: 7, Consumer: fmt.Sprint("c", i)})
				if err != nil || len(ds) == 0 {
					taken <- ids
					return
				}
				ids = append(ids, idsTaken(ds)...)
			}
		}()
	}

	seen := map[string]bool{}
	for range consumers {
		for _, id := range <-taken {
			if seen[id] {
				s.Errorf("message %s was delivered twice, want once", id)
			}
			seen[id] = true
		}
	}
	same(s, "the number of delivered messages", len(seen), messages)
}

// stallTwice publishes messages that then stall twice.
func stallTwice(g *scene, bodies ...string) {
	g.Helper()
	g.send(bodies...)
	for range 2 {
		ds := g.delivers(bodies...)
		g.stall(ds[0])
	}
}

func topicReservePoison(s *scene) {
	g := s.group("g")
	stallTwice(g, "p")
	s.send("a", "b")
	s.sameIDs("the first call", bodiesOf(g.reserve(10)), []string{"p"})
	ds := g.reserve(10)
	s.sameIDs("the next call", bodiesOf(ds), []string{"a", "b"})
	for _, d := range ds {
		g.release(d)
	}
	g.stall(ds[0]) // this lease was released, so only the message that crashes its consumer stalls again
	s.sameIDs("the call after another stall", bodiesOf(g.reserve(10)), []string{"p"})
}

// topicReserveLastTry lowers the tries of a group to the number that a message has used. The next
// stall of the message makes it dead.
func topicReserveLastTry(s *scene) {
	g := s.group("g")
	s.send("p")
	g.nackFor(g.reserve(1)[0], 0)
	// The message has failed once and stalled once.
	g.stall(g.reserve(1)[0])
	s.send("a")
	g.configure(duly.QueueConfig{Defaults: duly.Defaults{Tries: 1}})
	s.sameIDs("the call", bodiesOf(g.reserve(10)), []string{"p"})
}

func topicPoisonDies(s *scene) {
	g := s.group("g")
	g.configure(duly.QueueConfig{Defaults: duly.Defaults{MaxStalls: 3}})
	// One of 20 messages crashes its consumer.
	bodies := numberedBodies("m", 20)
	bodies[7] = "poison"
	s.send(bodies...)
	deliveries := 0
	for range 100 {
		ds := g.reserve(100)
		if len(ds) == 0 {
			break
		}
		crash := false
		for _, d := range ds {
			if string(d.Body) == "poison" {
				deliveries++
				crash = true
			}
		}
		if !crash {
			g.ackAll(ds)
			continue
		}
		// The consumer has crashed, so all of its leases end.
		g.stall(ds[0])
	}

	same(s, "the deliveries of the poison", deliveries, 4)
	s.sameIDs("the dead", listedBodies(g.listWithBodies(duly.StateDead)), []string{"poison"})
	same(s, "the number of other messages acked", g.stats().Counters.Acked, 19)
}

// listWithBodies returns the first page of a list with bodies.
func (s *scene) listWithBodies(state duly.State) []duly.JobInfo {
	s.Helper()
	page, err := s.Engine.List(s.ctx, s.ref(), duly.ListParams{State: state, Bodies: true})
	s.must("list", err)
	return page.Jobs
}

// topicWaiters starts three waiters in each of two groups and publishes one message. Each waiter
// that wakes reserves it, because otherwise the ready message would wake further waiters.
func topicWaiters(s *scene) {
	g, h := s.group("g"), s.group("h")
	woken := make(chan string, 6)
	for _, group := range []*scene{g, g, g, h, h, h} {
		go func() {
			ready, err := s.Engine.Wait(s.ctx, duly.WaitParams{Queues: []string{group.queue}, Timeout: time.Second})
			if err != nil || !ready {
				woken <- ""
				return
			}
			taken, err := s.Engine.Reserve(s.ctx, duly.ReserveParams{Queues: []string{group.queue}, Max: 1})
			if err != nil || len(taken) != 1 {
				s.Errorf("a woken waiter of %s reserved %d messages, want 1: %v", group.queue, len(taken), err)
			}
			woken <- group.queue
		}()
	}

	s.Quiet()
	s.send("a")
	s.Quiet()
	first := []string{<-woken, <-woken}
	if first[0] == first[1] || first[0] == "" || first[1] == "" {
		s.Errorf("one message woke waiters of %q, want one per group", first)
	}

	// The other waiters time out.
	s.Advance(time.Second)
	for range 4 {
		same(s, "a waiter without a message", <-woken, "")
	}
}

func topicWaitDelayed(s *scene) {
	g := s.group("g")
	s.publish(duly.Message{Body: []byte("a"), Delay: 5 * time.Second})
	woken := make(chan bool, 1)
	go func() {
		ready, err := s.Engine.Wait(s.ctx, duly.WaitParams{Queues: []string{g.queue}, Timeout: time.Minute})
		woken <- ready && err == nil
	}()
	s.Quiet()
	s.Advance(5*time.Second - time.Millisecond)
	same(s, "waiters that returned early", len(woken), 0)
	s.Advance(time.Millisecond)
	same(s, "a wait for a delayed message", <-woken, true)
	g.delivers("a")
}
