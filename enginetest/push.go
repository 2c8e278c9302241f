package enginetest

import (
	"time"

	"github.com/dulymq/duly"
)

func pushTests() []test {
	return []test{
		{"StoresTheJobAndItsIndexEntries", []string{"C4.8", "C3.1", "C3.8"}, Options{}, pushStores},
		{"FutureJobIsDelayedAndDueJobIsReady", []string{"C3.1", "C3.2", "C2.10"}, Options{}, pushStates},
		{"RepeatedPushStoresTheJobOnce", []string{"C2.2", "C3.14", "C2.35"}, Options{}, pushRepeated},
		{"RepeatAfterTheEndCreatesANewJob", []string{"C2.3"}, Options{}, pushRepeatedAfterEnd},
		{"RepeatReturnsExistsWhileTheJobIsRetained", []string{"C2.3", "C2.30"}, Options{}, pushRepeatedRetained},
		{"OwnIDIsUniqueInEveryState", []string{"C2.4", "C3.14", "C2.35", "C4.60"}, Options{}, pushOwnID},
		{"ExistsChangesNothing", []string{"C3.14", "C2.2"}, Options{OneShard: true}, pushExistsChangesNothing},
		{"JobsWithoutAnIDAreDistinct", []string{"C2.1"}, Options{OneShard: true}, pushWithoutID},
		{"MadeIDThatIsNotAULIDIsAnOwnID", []string{"C2.4", "C2.1"}, Options{OneShard: true}, pushMadeNonsense},
		{"NamespaceDefaultsToDefault", []string{"C2.5", "C1.1"}, Options{}, pushNamespace},
		{"TwoQueuesMayHaveTheSameID", []string{"C1.3", "C2.4"}, Options{}, pushTwoQueues},
		{"ChecksInvalidThenExistsThenMergedThenFull", []string{"C2.36"}, Options{OneShard: true}, pushOrderOfChecks},
		{"KeepsTheTraceContext", []string{"C2.9"}, Options{}, pushTrace},
	}
}

// made returns the job as duly's client pushes it for the first time.
func made(j duly.Job) duly.Job {
	j.ID, j.Made = duly.MakeID(&j), true
	return j
}

func pushStores(s *scene) {
	j := made(duly.Job{Body: []byte("hello"), Headers: map[string]string{"a": "b"}, Priority: 7})
	same(s, "the ID", s.push(j), j.ID)
	s.sizes(duly.Sizes{Ready: 1})
	s.counted(duly.Counters{Pushed: 1})

	got := s.get(j.ID)
	s.sameContent("the stored job", got.Job, j)
	same(s, "its priority", got.Priority, 7)
	same(s, "its size", got.Size, 5)
	same(s, "its state", got.State, duly.StateReady)
	same(s, "its attempt", got.Attempt, 1)
	sameTime(s, "its push", got.PushedAt, s.now())

	d := s.take()
	same(s, "the ID delivered", d.ID, j.ID)
	s.sameContent("the delivery", d.Job, j)
	s.sizes(duly.Sizes{Leased: 1})
	s.ack(d)
	s.gone(j.ID)
	s.counted(duly.Counters{Pushed: 1, Delivered: 1, Acked: 1})
}

func pushStates(s *scene) {
	s.push(duly.Job{ID: "now"})
	s.push(duly.Job{ID: "later", Delay: time.Minute})
	s.push(duly.Job{ID: "at", Due: s.now().Add(2 * time.Minute)})
	s.is("now", duly.StateReady)
	s.is("later", duly.StateDelayed)
	s.is("at", duly.StateDelayed)
	s.sizes(duly.Sizes{Ready: 1, Delayed: 2})

	s.ack(s.takes("now")[0])
	s.Advance(time.Minute)
	s.ack(s.takes("later")[0])
	s.Advance(time.Minute)
	s.takes("at")
}

func pushRepeated(s *scene) {
	j := made(duly.Job{Body: []byte("first")})
	s.push(j)
	j.Made = false // this repeats the push after a lost reply
	s.exists(j, duly.StateReady)
	d := s.take()
	s.exists(j, duly.StateLeased)
	s.counted(duly.Counters{Pushed: 1, Delivered: 1})
	s.ack(d)
	s.nothing("the job was pushed once")
}

func pushRepeatedAfterEnd(s *scene) {
	j := made(duly.Job{})
	s.push(j)
	first := s.take()
	s.ack(first)
	j.Made = false
	s.push(j)
	// The receipt belongs to the first job, so it must not settle the second one with the same
	// ID.
	s.unchanged("the first delivery's receipt", func() {
		s.lost("ack by it", s.settle(duly.SettleRequest{Receipt: first.Receipt, As: duly.Ack}))
	})
	second := s.take()
	same(s, "the second job's ID", second.ID, j.ID)
	s.lost("ack by the first receipt", s.settle(duly.SettleRequest{Receipt: first.Receipt, As: duly.Ack}))
	s.ack(second)
}

func pushRepeatedRetained(s *scene) {
	j := made(duly.Job{Retain: time.Hour})
	s.push(j)
	s.ack(s.take())
	j.Made = false
	s.exists(j, duly.StateDone)
	// The ID is free again after the retention.
	s.Advance(time.Hour + time.Second)
	s.step()
	s.push(j)
}

func pushOwnID(s *scene) {
	j := duly.Job{ID: "order-1", Delay: time.Minute, Retain: time.Hour}
	s.push(j)
	s.exists(j, duly.StateDelayed)
	s.Advance(time.Minute)
	// No step has moved the job yet, but the job is due.
	s.exists(j, duly.StateReady)
	d := s.take()
	s.exists(j, duly.StateLeased)
	s.bury(d, "no")
	s.exists(j, duly.StateDead)
	s.requeue(j.ID)
	s.exists(j, duly.StateReady)
	// A requeued job is ready, and is done with its ID still in use.
	s.ack(s.take())
	s.exists(j, duly.StateDone)

	s.push(duly.Job{ID: "head", OrderKey: "k"})
	blocked := duly.Job{ID: "blocked", OrderKey: "k"}
	s.push(blocked)
	s.exists(blocked, duly.StateBlocked)
}

func pushExistsChangesNothing(s *scene) {
	s.push(duly.Job{ID: "x", Body: []byte("first"), Delay: time.Hour, Priority: 3})
	// Neither the fields nor the merge key of the repeated push have an effect.
	s.unchanged("a push of the same ID", func() {
		s.exists(duly.Job{ID: "x", Body: []byte("second"), Priority: 9, TTL: time.Second}, duly.StateDelayed)
		s.exists(duly.Job{ID: "x", Merge: duly.Merge{Key: "m"}}, duly.StateDelayed)
	})
}

func pushWithoutID(s *scene) {
	first, second := s.push(duly.Job{}), s.push(duly.Job{})
	if first == second {
		s.Errorf("two jobs without an ID both have the ID %q, want different IDs", first)
	}
	s.takes(first, second)
}

func pushMadeNonsense(s *scene) {
	same(s, "the ID", s.push(duly.Job{ID: "not-a-ulid", Made: true}), "not-a-ulid")
	s.exists(duly.Job{ID: "not-a-ulid"}, duly.StateReady)
	j := made(duly.Job{})
	s.push(j)
	s.exists(j, duly.StateReady) // Made says that the ID is new, but the ID exists
	s.takes("not-a-ulid", j.ID)
}

func pushNamespace(s *scene) {
	id := s.push(duly.Job{})
	same(s, "the namespace", s.get(id).Namespace, duly.DefaultNamespace)
	info, err := s.Engine.Get(s.ctx, duly.QueueRef{Namespace: duly.DefaultNamespace, Name: s.queue}, id)
	s.must("get by the namespace's name", err)
	same(s, "the queue", info.Queue, s.queue)
	s.in("other").gone(id)
	s.in("other").nothing("the job is in another namespace")
	same(s, "the namespace of the delivery", s.take().Namespace, duly.DefaultNamespace)
}

func pushTwoQueues(s *scene) {
	s.on("a").push(duly.Job{ID: "x", Body: []byte("a")})
	s.on("b").push(duly.Job{ID: "x", Body: []byte("b")})
	d := s.on("b").take()
	same(s, "the body", string(d.Body), "b")
	s.ack(d)
	s.on("b").gone("x")
	s.on("a").is("x", duly.StateReady)
}

func pushOrderOfChecks(s *scene) {
	s.configure(duly.QueueConfig{MaxJobs: 2})
	key := duly.Merge{Key: "k"}
	s.pushAll(duly.Job{ID: "a"}, duly.Job{ID: "b", Merge: key})
	// Each push has several faults. The first one in the contract's order decides the error.
	s.refused("a bad job with an ID in use", s.try(duly.Job{ID: "a", Priority: 5000}).Err, duly.CodeInvalid)
	s.exists(duly.Job{ID: "a", Merge: key}, duly.StateReady)
	s.merges(duly.Job{ID: "c", Merge: key}, "b")
	s.refused("one more job", s.try(duly.Job{ID: "d"}).Err, duly.CodeFull)
	s.gone("c")
	s.gone("d")
	s.sizes(duly.Sizes{Ready: 2})
}

func pushTrace(s *scene) {
	trace := map[string]string{
		"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
		"tracestate":  "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE",
	}
	id := s.push(duly.Job{Headers: trace})
	s.sameContent("the delivery", s.take().Job, duly.Job{Headers: trace})
	s.sameContent("the job", s.get(id).Job, duly.Job{Headers: trace})
}
