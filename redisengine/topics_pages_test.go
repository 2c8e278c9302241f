package redisengine

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/redisengine/internal/store"
)

// heldRig is a group whose held messages are stored in pages, because they are in no range.
type heldRig struct {
	*testing.T
	e     *Engine
	clock *clock.Fake
	tag   string
}

func newHeldRig(t *testing.T, cfg duly.QueueConfig) *heldRig {
	server, prefix := redistest.Shared(t)
	r := &heldRig{T: t, clock: clock.NewFake(), tag: prefix + ":{default/t/0}:"}
	r.e = openOn(t, server.URL()+"?prefix="+prefix, r.clock)
	_, err := r.e.CreateGroup(t.Context(), duly.Q("t@g"), duly.FromStart)
	r.must(err)
	r.must(r.e.Configure(t.Context(), duly.Q("t@g"), cfg))
	return r
}

func (r *heldRig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

func (r *heldRig) publish(n, keys int) {
	messages := make([]duly.Message, n)
	for i := range messages {
		messages[i] = duly.Message{Topic: "t", Body: []byte{1}}
		if keys > 0 {
			messages[i].Key = strconv.Itoa(rand.IntN(keys))
		}
	}
	_, err := r.e.Publish(r.Context(), messages)
	r.must(err)
}

func (r *heldRig) reserve(most int) []duly.Delivery {
	got, err := r.e.Reserve(r.Context(), duly.ReserveParams{Queues: []string{"t@g"}, Max: most})
	r.must(err)
	return got
}

func (r *heldRig) settle(outcomes []duly.SettleRequest) {
	_, err := r.e.Settle(r.Context(), "", outcomes)
	r.must(err)
}

// memory returns the bytes of keys of the group.
func (r *heldRig) memory(keys ...string) (bytes int) {
	for _, key := range keys {
		n, _ := strconv.Atoi(r.e.command(r.T, "MEMORY", "USAGE", r.tag+"@g:"+key, "SAMPLES", "0")[0])
		bytes += n
	}
	if bytes == 0 {
		r.Fatal("the group has no keys")
	}
	return bytes
}

// TestHeldMessageUsesLittleMemory checks that a waiting message of a group uses at most 200 bytes. If most
// messages around it are acked, its state uses at most 100 bytes. Redis shrinks the table of a set
// only some time after the set, so the second check ignores the sets.
func TestHeldMessageUsesLittleMemory(t *testing.T) {
	t.Parallel()
	const messages = 8000
	r := newHeldRig(t, duly.QueueConfig{})
	for range messages / 1000 {
		r.publish(1000, 0)
	}
	settle := func(as duly.Settlement, delay func(i int) time.Duration) {
		for range messages / 1000 {
			var outcomes []duly.SettleRequest
			for i, d := range r.reserve(1000) {
				o := duly.SettleRequest{Receipt: d.Receipt, As: as}
				if delay != nil {
					wait := delay(i)
					o.Delay = &wait
				}
				outcomes = append(outcomes, o)
			}
			r.settle(outcomes)
		}
	}
	wants := func(held, most int64, keys ...string) {
		t.Helper()
		stats, err := r.e.Stats(t.Context(), duly.Q("t@g"))
		r.must(err)
		if n, each := stats.Sizes.Delayed, int64(r.memory(keys...))/held; n != held || each > most {
			t.Errorf("%d messages use %d bytes each, want %d messages and at most %d bytes", n, each, held, most)
		}
	}

	settle(duly.Nack, func(i int) time.Duration {
		if i%12 == 0 {
			return time.Hour
		}
		return time.Minute
	})
	wants(messages, 200, store.GroupKeys...)
	r.clock.Advance(2 * time.Minute)
	settle(duly.Ack, nil)
	wants(messages/1000*84, 100, "held", "run")
}

// TestStatesOfHeldMessagesMatchTheirSets checks that the states of a group's messages agree with the sets that
// contain them, and that none is lost, after random operations.
func TestStatesOfHeldMessagesMatchTheirSets(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]duly.QueueConfig{
		"NoOrder": {Defaults: duly.Defaults{Tries: 3}},
		"Keyed":   {Defaults: duly.Defaults{Tries: 3}, Group: duly.GroupConfig{Order: duly.OrderKeys}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newHeldRig(t, cfg)
			r.publish(600, 40)
			for range 20 {
				r.disturb()
			}
			r.drain(600)
		})
	}
}

// disturb applies an operation to a few messages, and checks the group.
func (r *heldRig) disturb() {
	var outcomes []duly.SettleRequest
	for _, d := range r.reserve(1 + rand.IntN(60)) {
		delay := time.Duration(rand.IntN(3)) * time.Second
		o := duly.SettleRequest{Receipt: d.Receipt, Delay: &delay}
		switch rand.IntN(8) {
		case 0:
			// This message's lease ends.
			continue
		case 1:
			_, err := r.e.Extend(r.Context(), "", []duly.Receipt{d.Receipt}, time.Minute)
			r.must(err)
			continue
		case 2:
			o.As, o.Delay = duly.Bury, nil
		case 3:
			o.As = duly.Release
		default:
			o.As, o.Error = duly.Nack, fmt.Sprintf("%*d", rand.IntN(200), 1)
		}
		outcomes = append(outcomes, o)
	}
	rand.Shuffle(len(outcomes), func(i, j int) { outcomes[i], outcomes[j] = outcomes[j], outcomes[i] })
	if len(outcomes) > 0 {
		r.settle(outcomes)
	}
	_, err := r.e.Requeue(r.Context(), duly.Q("t@g"), duly.RequeueParams{N: 1 + rand.IntN(20)})
	r.must(err)
	r.clock.Advance(time.Duration(rand.IntN(5000)) * time.Millisecond)
	r.sound()
}

func (r *heldRig) sound() {
	r.Helper()
	report, err := r.e.Check(r.Context(), contract.CheckParams{})
	r.must(err)
	if len(report.Faults) > 0 {
		r.Fatalf("Check found %+v", report.Faults)
	}
}

// drain acks every message that is left, and counts the acked messages.
func (r *heldRig) drain(messages int) {
	for range 100 {
		r.clock.Advance(2 * time.Minute)
		_, err := r.e.Requeue(r.Context(), duly.Q("t@g"), duly.RequeueParams{N: 1000})
		r.must(err)
		var outcomes []duly.SettleRequest
		for _, d := range r.reserve(1000) {
			outcomes = append(outcomes, duly.SettleRequest{Receipt: d.Receipt, As: duly.Ack})
		}
		if len(outcomes) == 0 {
			break
		}
		r.settle(outcomes)
		r.sound()
	}
	stats, err := r.e.Stats(r.Context(), duly.Q("t@g"))
	r.must(err)
	if stats.Counters.Acked != int64(messages) {
		r.Errorf("%d of %d messages were acked", stats.Counters.Acked, messages)
	}
	for _, key := range []string{"held", "run", "ready", "waiting", "leased", "blocked", "busy"} {
		if n := r.e.command(r.T, "EXISTS", r.tag+"@g:"+key)[0]; n != "0" {
			r.Errorf("the drained group has the key %s", key)
		}
	}
}
