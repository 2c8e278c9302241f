package enginetest

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/dulymq/duly"
)

func topicFenceTests() []test {
	tests := []test{
		{"TwoConsumersNeverHoldOneMessage", []string{"C12.80", "C12.83", "C12.109"}, Options{}, fenceTwoConsumers},
		{"CreationMissesNothingThatIsPublishedLater", []string{"C12.71", "C12.72", "C12.73", "C12.68"}, Options{}, fenceCreation},
	}
	for _, e := range fenceEvents() {
		tests = append(tests, test{
			"ReceiptIsRefusedAfter" + e.name, []string{"C12.81", "C12.82", "C12.97", "C12.33"}, Options{},
			func(s *scene) { fenceAfter(s, e.happen) },
		})
	}
	return tests
}

// fenceEvent is an event that ends the delivery of message a of group g.
type fenceEvent struct {
	name   string
	happen func(g *scene, d duly.Delivery)
}

func fenceEvents() []fenceEvent {
	back := func(g *scene, d duly.Delivery) { g.seek(duly.From(d.ID)) }
	forward := func(g *scene, _ duly.Delivery) { g.seek(duly.FromEnd) }
	requeue := func(g *scene, d duly.Delivery) { g.bury(d, "no"); g.must("requeue", g.requeue(d.ID).Err) }
	group := func(g *scene, _ duly.Delivery) {
		g.must("destroy", g.Engine.Destroy(g.ctx, g.ref()))
		g.group("g")
	}
	topic := func(g *scene, _ duly.Delivery) {
		g.must("destroy", g.log().DestroyTopic(g.ctx, g.topic()))
		fenceStage(g) // at the same moment, so that the positions are the same
	}
	running := func(happen func(g *scene, d duly.Delivery)) func(g *scene, d duly.Delivery) {
		return func(g *scene, d duly.Delivery) {
			happen(g, d)
			same(g, "the message that runs", g.take().ID, d.ID)
		}
	}
	return []fenceEvent{
		{"ALeaseThatRanOut", func(g *scene, d duly.Delivery) { g.stall(d) }},
		{"ATakeover", running(func(g *scene, d duly.Delivery) { g.stall(d) })},
		{"ANack", func(g *scene, d duly.Delivery) { g.nack(d, "no") }},
		{"ANackAndAnotherDelivery", running(func(g *scene, d duly.Delivery) { g.nackFor(d, 0) })},
		{"ARelease", func(g *scene, d duly.Delivery) { g.release(d) }},
		{"AReleaseAndAnotherDelivery", running(func(g *scene, d duly.Delivery) { g.release(d) })},
		{"ABury", func(g *scene, d duly.Delivery) { g.bury(d, "no") }},
		{"AnAck", func(g *scene, d duly.Delivery) { g.ack(d) }},
		{"ASeekBack", back},
		{"ASeekBackAndAnotherDelivery", running(back)},
		{"ASeekForward", forward},
		{"ASeekForwardAndBackAndAnotherDelivery", running(func(g *scene, d duly.Delivery) { forward(g, d); back(g, d) })},
		{"ARequeue", requeue},
		{"ARequeueAndAnotherDelivery", running(requeue)},
		{"ADelete", func(g *scene, d duly.Delivery) { g.must("delete", g.Engine.Delete(g.ctx, g.ref(), d.ID)) }},
		{"APurge", func(g *scene, _ duly.Delivery) { g.purge(duly.StateLeased) }},
		{"ADestroyedGroup", func(g *scene, _ duly.Delivery) { g.must("destroy", g.Engine.Destroy(g.ctx, g.ref())) }},
		{"AGroupThatWasMadeAgain", group},
		{"AGroupThatWasMadeAgainAndAnotherDelivery", running(group)},
		{"ADestroyedTopic", func(g *scene, _ duly.Delivery) { g.must("destroy", g.log().DestroyTopic(g.ctx, g.topic())) }},
		{"ATopicThatWasMadeAgain", topic},
		{"ATopicThatWasMadeAgainAndAnotherDelivery", running(topic)},
		{"ADrop", func(g *scene, _ duly.Delivery) {
			g.configureTopic(duly.TopicConfig{MaxCount: 1, Overflow: duly.OverflowDrop})
			g.stepTopic()
		}},
	}
}

// fenceStage makes a topic that keeps everything, a group and two messages.
func fenceStage(s *scene) *scene {
	s.Helper()
	s.configureTopic(duly.TopicConfig{Keep: 1000 * time.Hour})
	g := s.group("g")
	g.configure(duly.QueueConfig{Defaults: duly.Defaults{Backoff: "fixed:1m"}})
	s.send("a", "b")
	return g
}

// fenceAfter takes a message, causes an event, and then sends every operation with the old
// receipt: each is refused and changes no visible state.
func fenceAfter(s *scene, happen func(g *scene, d duly.Delivery)) {
	g := fenceStage(s)
	d := g.take()
	happen(g, d)
	s.topicUnchanged("a receipt of before", func() { g.refusesReceipt(d.Receipt) })
}

// StaleReceipts checks that no operation accepts a receipt from before an event that the
// public operations cannot cause, such as a flush of the store, a restored backup or a
// failover that lost the last writes. event returns the harness of the engine after it.
// before runs before the message is handed out, so a copy made there lacks the delivery.
// It may be nil.
func (s Suite) StaleReceipts(t *testing.T, before func(t testing.TB, h *Harness), event func(t testing.TB, h *Harness) *Harness) {
	if !s.hasTopics(t) {
		t.Skip("the engine has no topics, or the suite plays on sharded queues")
	}
	for _, running := range []bool{false, true} {
		t.Run(fmt.Sprintf("Running=%t", running), func(t *testing.T) {
			s.run(t, Options{}, func(t *testing.T, h *Harness) {
				play(t, h, func(s *scene) {
					g := fenceStage(s)
					if before != nil {
						before(t, h)
					}
					d := g.take()
					quiet := h.Quiet
					*h = *event(t, h)
					if h.Quiet == nil {
						h.Quiet = quiet
					}
					if len(s.topics()) == 0 { // all is lost: it is published again
						fenceStage(s)
					}
					if running {
						same(s, "the message that runs", string(g.take().Body), "a")
					}
					s.topicUnchanged("a receipt of before", func() { g.refusesReceipt(d.Receipt) })
				})
			})
		})
	}
}

// fenceTwoConsumers has consumers reserve and release a few messages concurrently. No
// message may be handed out while another consumer has it.
func fenceTwoConsumers(s *scene) {
	attempts := 1000
	if long() {
		attempts = 100_000
	}
	const consumers = 4
	g := s.group("g")
	s.send("a", "b", "c")
	held := &holders{of: map[string]string{}}
	done := make(chan error, consumers)
	for c := range consumers {
		go func() { done <- s.holdAndRelease(g, held, fmt.Sprint("c", c), attempts/consumers) }()
	}
	for range consumers {
		s.must("consume", <-done)
	}
}

// holdAndRelease reserves and releases that many times.
func (s *scene) holdAndRelease(g *scene, held *holders, name string, attempts int) error {
	for range attempts {
		ds, err := s.Engine.Reserve(s.ctx, duly.ReserveParams{Queues: []string{g.queue}, Max: 2, Consumer: name})
		if err == nil {
			err = held.take(name, ds)
		}
		if err != nil {
			return err
		}
		if len(ds) == 0 {
			continue
		}
		runtime.Gosched()
		outcomes := make([]duly.SettleRequest, len(ds))
		for i, d := range ds {
			outcomes[i] = duly.SettleRequest{Receipt: d.Receipt, As: duly.Release}
		}
		held.drop(ds) // the release may be over before its answer is here
		errs, err := s.Engine.Settle(s.ctx, "", outcomes)
		if err := errors.Join(append(errs, err)...); err != nil {
			return err
		}
	}
	return nil
}

// holders records which consumer holds each message.
type holders struct {
	mu sync.Mutex
	of map[string]string
}

func (h *holders) take(name string, ds []duly.Delivery) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, d := range ds {
		if other, held := h.of[d.ID]; held {
			return fmt.Errorf("message %s was handed to %s while %s holds it", d.ID, name, other)
		}
		h.of[d.ID] = name
	}
	return nil
}

func (h *holders) drop(ds []duly.Delivery) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, d := range ds {
		delete(h.of, d.ID)
	}
}

// fenceCreation creates groups at the end while others publish. Each group sees every
// message published after its creation returned, and no message whose Publish returned
// before the creation was called.
func fenceCreation(s *scene) {
	creations, publishers := 20, 3
	if long() {
		creations = 1000
	}
	if s.Sharded {
		s.configureTopic(duly.TopicConfig{Shards: manyShards})
	}
	s.keepAll()
	var l ledger
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for p := range publishers {
		wg.Go(func() {
			for n := range 20 * creations {
				select {
				case <-stop:
					return
				default:
				}
				messages := []duly.Message{{Key: fmt.Sprint("k", n%11)}, {Key: fmt.Sprint("l", n%7)}, {Body: fmt.Append(nil, p)}}
				begun := l.tick()
				results, err := s.published(messages...)
				if err != nil {
					s.Errorf("publish: %v", err)
					return
				}
				l.note(results, begun)
				runtime.Gosched()
			}
		})
	}
	type made struct {
		group         *scene
		begun, ending int64
	}
	var groups []made
	for i := range creations {
		g := made{begun: l.tick()}
		g.group = s.groupFrom(fmt.Sprintf("g%d", i), duly.FromEnd)
		g.ending = l.tick()
		g.group.configure(duly.QueueConfig{Group: duly.GroupConfig{MaxHeld: 2_000_000}}) // check acks nothing, and shards divide it
		s.send("between")
		if groups = append(groups, g); len(groups) == 50 || i == creations-1 {
			if i == creations-1 {
				close(stop)
				wg.Wait()
			}
			for _, g := range groups {
				l.check(g.group, g.begun, g.ending)
				s.must("destroy", s.Engine.Destroy(s.ctx, g.group.ref()))
			}
			groups = nil
		}
	}
}

// ledger records the calls of publishers, by a counter as the clock.
type ledger struct {
	mu      sync.Mutex
	now     int64
	entries []ledgerEntry
}

type ledgerEntry struct {
	position      string
	begun, answer int64
}

func (l *ledger) tick() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now++
	return l.now
}

func (l *ledger) note(results []duly.PublishResult, begun int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now++
	for _, r := range results {
		l.entries = append(l.entries, ledgerEntry{r.Position.String(), begun, l.now})
	}
}

// check takes all messages of a group that was created between two times of the ledger.
func (l *ledger) check(g *scene, begun, made int64) {
	g.Helper()
	l.mu.Lock()
	entries := slices.Clone(l.entries)
	l.mu.Unlock()
	seen := map[string]bool{}
	for {
		ds := g.reserve(duly.MaxBatch)
		if len(ds) == 0 {
			break
		}
		for _, d := range ds {
			seen[d.ID] = true
		}
	}
	for _, e := range entries {
		switch {
		case e.begun > made && !seen[e.position]:
			g.Fatalf("%s misses message %s, which was published after the group was made", g.queue, e.position)
		case e.answer < begun && seen[e.position]:
			g.Fatalf("%s sees message %s, which was published before the group was made", g.queue, e.position)
		}
	}
}
