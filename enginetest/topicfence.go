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
		{"MessageIsNeverLeasedTwice", []string{"C12.80", "C12.83", "C12.109"}, Options{}, fenceTwoConsumers},
		{"NewGroupMissesNoLaterMessage", []string{"C12.71", "C12.72", "C12.73", "C12.68"}, Options{}, fenceCreation},
	}
	for _, e := range fenceEvents() {
		tests = append(tests, test{
			"ReceiptIsRefusedAfter" + e.name, []string{"C12.81", "C12.82", "C12.97", "C12.33"}, Options{},
			func(s *scene) { fenceAfter(s, e.happen) },
		})
	}
	return tests
}

// fenceEvent ends the delivery of message a to group g.
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
		fenceStage(g) // at the same time, so that the positions are equal
	}
	running := func(happen func(g *scene, d duly.Delivery)) func(g *scene, d duly.Delivery) {
		return func(g *scene, d duly.Delivery) {
			happen(g, d)
			same(g, "the message in flight", g.take().ID, d.ID)
		}
	}
	return []fenceEvent{
		{"AnExpiredLease", func(g *scene, d duly.Delivery) { g.stall(d) }},
		{"AnExpiredLeaseAndAnotherDelivery", running(func(g *scene, d duly.Delivery) { g.stall(d) })},
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
		{"ARecreatedGroup", group},
		{"ARecreatedGroupAndAnotherDelivery", running(group)},
		{"ADestroyedTopic", func(g *scene, _ duly.Delivery) { g.must("destroy", g.log().DestroyTopic(g.ctx, g.topic())) }},
		{"ARecreatedTopic", topic},
		{"ARecreatedTopicAndAnotherDelivery", running(topic)},
		{"ADrop", func(g *scene, _ duly.Delivery) {
			g.configureTopic(duly.TopicConfig{MaxCount: 1, Overflow: duly.OverflowDrop})
			g.stepTopic()
		}},
	}
}

// fenceStage creates a topic that keeps all messages, a group and two messages.
func fenceStage(s *scene) *scene {
	s.Helper()
	s.configureTopic(duly.TopicConfig{Keep: 1000 * time.Hour})
	g := s.group("g")
	g.configure(duly.QueueConfig{Defaults: duly.Defaults{Backoff: "fixed:1m"}})
	s.send("a", "b")
	return g
}

// fenceAfter reserves a message and causes an event. Then every operation with the old receipt
// must be refused and change nothing.
func fenceAfter(s *scene, happen func(g *scene, d duly.Delivery)) {
	g := fenceStage(s)
	d := g.take()
	happen(g, d)
	s.topicUnchanged("an old receipt", func() { g.refusesReceipt(d.Receipt) })
}

// StaleReceipts checks receipts from before an event that public operations can't cause: a flush of
// the store, a restored backup, or a failover that lost the last writes. No operation may accept
// these receipts. The event returns the harness of the engine after it. before may be nil. It runs
// before the message is reserved, so a copy of the store that it makes lacks the delivery.
func (s Suite) StaleReceipts(t *testing.T, before func(t testing.TB, h *Harness),
	event func(t testing.TB, h *Harness) *Harness) {
	if !s.hasTopics(t) {
		t.Skip("the engine has no topics, or the suite uses sharded queues")
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
					// All data is lost, so publish the messages again.
					if len(s.topics()) == 0 {
						fenceStage(s)
					}
					if running {
						same(s, "the message in flight", string(g.take().Body), "a")
					}
					s.topicUnchanged("an old receipt", func() { g.refusesReceipt(d.Receipt) })
				})
			})
		})
	}
}

// fenceTwoConsumers reserves and releases a few messages concurrently. No message may be
// delivered while another consumer holds it.
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
	// Wait for all consumers. The first error ends the test.
	for range consumers {
		s.must("consume", <-done)
	}
}

// holdAndRelease reserves and releases messages this many times.
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
		// The other consumers get a chance to receive a message that is held.
		runtime.Gosched()
		outcomes := make([]duly.SettleRequest, len(ds))
		for i, d := range ds {
			outcomes[i] = duly.SettleRequest{Receipt: d.Receipt, As: duly.Release}
		}
		// Another consumer may receive the messages before Settle returns.
		held.drop(ds)
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
			return fmt.Errorf("message %s was delivered to %s while %s holds it", d.ID, name, other)
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

// fenceCreation creates groups at the end of a topic while publishers run. Each group receives
// every message that was published after the creation returned. It receives no message whose
// Publish returned before the creation was called.
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
			// The number of messages is limited, because the topic keeps all of them.
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
					s.Errorf("publish returns %v, want no error", err)
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
		// The check acks no message, and each shard has only a part of max_leased.
		g.group.configure(duly.QueueConfig{Group: duly.GroupConfig{MaxHeld: 2_000_000}})
		s.send("between")
		// Check the groups in sets of 50, because each keeps all of its messages.
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

// ledger records the calls of publishers. A counter serves as its clock.
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

// check reserves all messages of a group that was created between two times of the ledger.
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
			g.Fatalf("%s misses message %s, which was published after the group was created", g.queue, e.position)
		case e.answer < begun && seen[e.position]:
			g.Fatalf("%s received message %s, which was published before the group was created", g.queue, e.position)
		}
	}
}
