package enginetest

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// TopicModel runs random operations on topics and groups against the engine and the reference
// model, as [Suite.Model] does for queues. It skips an engine without topics. The scripts use
// topics with one shard.
func (s Suite) TopicModel(t *testing.T) {
	skipScripts(t)
	if !s.hasTopics(t) {
		t.Skip("the engine has no topics, or the suite uses sharded queues")
	}

	var seen topicCoverage
	asked := s.runScripts(t, topicScripts, seen.all, func(ctx context.Context, h *Harness, sc script) error {
		covered, err := playTopics(ctx, h, sc)
		seen.add(covered)
		return err
	})

	t.Logf("%+v", seen)
	if asked.rare() && !seen.all() {
		t.Errorf("the scripts did not reach every situation: %+v", seen)
	}
}

// runScripts plays each script on a new engine, as [Suite.Model] does. If the scripts have not
// reached every situation by then, it continues for some time. It returns the number of scripts and
// operations.
func (s Suite) runScripts(t *testing.T, generate func(steps int) *rapid.Generator[script], reachedAll func() bool,
	play func(ctx context.Context, h *Harness, sc script) error) runSize {
	t.Helper()
	asked := modelSize(t, s.Sequences)
	seed := fromEnv(t, "DULY_MODEL_SEED", int(rand.Int32N(1<<30)))
	sequences := 0
	for ; sequences < asked.sequences || asked.rare() && !reachedAll() && sequences < luck*asked.sequences; seed++ {
		try(t, generate(asked.steps).Example(seed), seed, asked.steps, func(sc script) (err error) {
			s.onEngine(t, func(ctx context.Context, h *Harness) { err = play(ctx, h, sc) })
			return err
		})
		sequences++
	}
	t.Logf("%d sequences", sequences)
	return asked
}

// topicCoverage counts how often the scripts reached each situation.
type topicCoverage struct {
	Delivered, Stalled, Dead, Requeued, Filtered, Skipped, Replayed, Missed, Parked int64
	Exists, Canceled, Trimmed, Dropped, Slowed, Probing                             int64
}

func (v *topicCoverage) counts() []*int64 {
	return []*int64{
		&v.Delivered, &v.Stalled, &v.Dead, &v.Requeued, &v.Filtered, &v.Skipped, &v.Replayed, &v.Missed, &v.Parked,
		&v.Exists, &v.Canceled, &v.Trimmed, &v.Dropped, &v.Slowed, &v.Probing,
	}
}

func (v *topicCoverage) add(o topicCoverage) {
	for i, n := range o.counts() {
		*v.counts()[i] += *n
	}
}

func (v *topicCoverage) all() bool {
	return !slices.ContainsFunc(v.counts(), func(n *int64) bool { return *n == 0 })
}

// playTopics runs a script and returns the first difference.
func playTopics(ctx context.Context, h *Harness, sc script) (v topicCoverage, err error) {
	p, m := newPair(ctx, h)
	err = p.playAll(sc, lookTopicsOp{})
	if err != nil {
		return v, err
	}

	// The statistics of the model say which situations the script reached.
	for _, at := range scriptTopics {
		info, err := m.Topic(ctx, at)
		if err != nil {
			continue
		}
		v.Exists += info.Stats.Exists
		v.Canceled += info.Stats.Canceled
		v.Trimmed += info.Stats.Trimmed
		v.Dropped += info.Stats.Dropped
		for _, name := range scriptGroups {
			if st, err := m.Stats(ctx, groupOf(at, name)); err == nil {
				v.addGroup(st)
			}
		}
	}
	return v, nil
}

func (v *topicCoverage) addGroup(st duly.Stats) {
	v.Delivered += st.Counters.Delivered
	v.Stalled += st.Counters.Stalled
	v.Dead += st.Counters.Dead
	v.Requeued += st.Counters.Requeued
	v.Filtered += st.Group.Filtered
	v.Skipped += st.Group.Skipped
	v.Replayed += st.Group.Replayed
	v.Missed += st.Group.Missed
	v.Slowed += st.Counters.Slowed
	v.Probing += int64(st.Probing)
	if st.Group.Parked {
		v.Parked++
	}
}

// scriptTopics are the topics of the scripts. The namespace has room for only two of them.
var scriptTopics = [...]duly.QueueRef{
	{Namespace: duly.DefaultNamespace, Name: "t"}, {Namespace: duly.DefaultNamespace, Name: "u"},
	{Namespace: duly.DefaultNamespace, Name: "v"},
}

var scriptGroups = [...]string{"g", "h"}

func groupOf(topic duly.QueueRef, group string) duly.QueueRef {
	return duly.QueueRef{Namespace: topic.Namespace, Name: duly.GroupName(topic.Name, group)}
}

// topicSpec and groupSpec select a topic or a group of the scripts.
type topicSpec int

func (o topicSpec) ref() duly.QueueRef { return scriptTopics[o] }

// String returns the topic's name.
func (o topicSpec) String() string { return o.ref().Name }

type groupSpec struct {
	Topic topicSpec
	Group int
}

func (o groupSpec) ref() duly.QueueRef { return groupOf(o.Topic.ref(), scriptGroups[o.Group]) }

// String returns the group's name.
func (o groupSpec) String() string { return o.ref().Name }

func drawTopic(t *rapid.T) topicSpec {
	return of(t, []topicSpec{0, 0, 0, 0, 0, 0, 0, 0, 1, 2})
}

func drawGroup(t *rapid.T) groupSpec {
	return groupSpec{drawTopic(t), of(t, []int{0, 0, 1})}
}

// topicScripts generates scripts. A script has an opening, followed by the given number of random
// operations.
func topicScripts(steps int) *rapid.Generator[script] {
	return rapid.Custom(func(t *rapid.T) script {
		opening := of(t, topicOpenings)
		return append(slices.Clone(opening), rapid.SliceOfN(rapid.Custom(drawTopicOperation), steps, steps).Draw(t,
			"operations")...)
	})
}

// topicOpenings create groups. They never change a dedupe window, because engines differ in how
// that affects stored IDs.
var topicOpenings = []script{
	{createGroupOp{At: groupSpec{0, 0}}, createGroupOp{At: groupSpec{0, 1}}},
	{configureTopicOp{Patch: duly.TopicConfig{Keep: time.Minute}}, createGroupOp{At: groupSpec{0, 0}},
		createGroupOp{At: groupSpec{0, 1}}},
	{configureTopicOp{Patch: duly.TopicConfig{Dedupe: 5 * time.Second}}, createGroupOp{At: groupSpec{0, 0}},
		createGroupOp{At: groupSpec{0, 1}}},
	{
		configureTopicOp{Patch: duly.TopicConfig{Keep: time.Minute}}, createGroupOp{At: groupSpec{0, 0}},
		configureGroupOp{Patch: duly.QueueConfig{Group: duly.GroupConfig{Order: duly.OrderKeys},
			Defaults: duly.Defaults{Backoff: "fixed:0s", Tries: 2}}},
	},
	{
		createGroupOp{At: groupSpec{0, 0}},
		configureGroupOp{Patch: duly.QueueConfig{Group: duly.GroupConfig{Idle: time.Hour, Filter: "h=x"},
			Defaults: duly.Defaults{MaxStalls: 1}}},
		createGroupOp{At: groupSpec{0, 1}},
	},
	// A group with a lowered factor.
	append(adaptiveGroup(), topicReserveOp{At: []groupSpec{{0, 0}}, Max: 4},
		settleOp{[]outcomeSpec{{As: duly.Release, Delay: -1, Slow: true}}}, topicClockOp{By: time.Second}),
	// A group whose next delivery is a probe.
	probingGroup(topicClockOp{By: time.Second}),
	// A group whose probe is leased.
	probingGroup(topicClockOp{By: time.Second}, topicReserveOp{At: []groupSpec{{0, 0}}, Max: 1}),
}

// adaptiveGroup is the opening of a group with an adaptive limit and five messages, which survive any
// number of failures.
func adaptiveGroup() script {
	return script{
		configureTopicOp{Patch: duly.TopicConfig{Keep: time.Minute}}, createGroupOp{At: groupSpec{0, 0}},
		configureGroupOp{Patch: duly.QueueConfig{MaxLeased: 5, Adapt: duly.Adapt{Floor: 0.1},
			Defaults: duly.Defaults{Tries: duly.MaxTries, Backoff: "fixed:0s"}}},
		publishOp{[]messageSpec{{Key: "k"}, {Key: "l"}, {}, {}, {Header: "x"}}},
	}
}

// probingGroup is the opening of a group in probing, and then some operations.
func probingGroup(then ...operation) script {
	sc := adaptiveGroup()
	failures := make([]outcomeSpec, 5)
	for i := range failures {
		failures[i] = outcomeSpec{Which: i, As: duly.Nack, Delay: -1}
	}
	for range 4 { // 20 failures in a row
		sc = append(sc, topicReserveOp{At: []groupSpec{{0, 0}}, Max: 5}, settleOp{failures})
	}
	return append(sc, then...)
}

var topicDrawn = func() (all []func(t *rapid.T) operation) {
	add := func(weight int, draw func(t *rapid.T) operation) {
		for range weight {
			all = append(all, draw)
		}
	}
	add(11, drawPublish)
	add(10, drawTopicReserve)
	add(8, drawSettle)
	add(5, func(t *rapid.T) operation { return topicClockOp{By: of(t, someAdvances[:len(someAdvances)-1])} })
	add(2, func(*rapid.T) operation { return lookTopicsOp{} })
	add(2, func(t *rapid.T) operation { return seekOp{drawGroup(t), drawFrom(t)} })
	add(2, drawExtend)
	add(2, func(t *rapid.T) operation { return stepTopicOp{drawTopic(t)} })
	add(2, drawConfigureGroup)
	add(2, drawConfigureTopic)
	add(3, func(t *rapid.T) operation { return createGroupOp{drawGroup(t), drawFrom(t)} })
	add(2, func(t *rapid.T) operation {
		return topicJobOp{drawGroup(t), drawBack(t), of(t, []string{"delete", "delete dead", "delete ready", "requeue",
			"get", "get all"})}
	})
	add(3, func(t *rapid.T) operation {
		return topicRequeueOp{drawGroup(t), rapid.IntRange(1, 3).Draw(t, "n")}
	})
	add(1, func(t *rapid.T) operation {
		return topicPurgeOp{drawGroup(t), of(t, duly.States[:]), rapid.IntRange(0, 2).Draw(t, "n")}
	})
	add(1, func(t *rapid.T) operation { return topicClockOp{By: of(t, someSteps), Set: true} })
	add(1, func(t *rapid.T) operation {
		return cancelDelayedOp{drawTopic(t), of(t, someKeys), of(t, someMessageIDs)}
	})
	add(1, func(t *rapid.T) operation {
		return readOp{drawTopic(t), drawFrom(t), rapid.IntRange(1, 4).Draw(t, "limit")}
	})
	add(1, func(t *rapid.T) operation { return topicPauseOp{drawGroup(t), rapid.Bool().Draw(t, "resume")} })
	add(1, func(t *rapid.T) operation {
		switch {
		case rarely(t, 3):
			return topicClockOp{By: 3 * time.Hour}
		case rarely(t, 4):
			return destroyTopicOp{drawTopic(t)}
		case rarely(t, 2):
			return lookTopicsOp{}
		}
		return destroyGroupOp{drawGroup(t)}
	})
	return all
}()

func drawTopicOperation(t *rapid.T) operation { return of(t, topicDrawn)(t) }

var (
	someKeys       = []string{"", "", "k", "k", "l"}
	someMessageIDs = []string{"", "", "a", "b"}
)

// drawPublish draws messages and groups them by topic. An engine may publish to the topics of a
// call in any order (C12.23), and the order decides which topic exceeds the bound of the
// namespace.
func drawPublish(t *rapid.T) operation {
	drawn := rapid.SliceOfN(rapid.Custom(drawMessage), 1, 4).Draw(t, "messages")
	var messages []messageSpec
	// Append all messages of a topic at the place of its first message.
	for _, first := range drawn {
		if slices.ContainsFunc(messages, func(m messageSpec) bool { return m.At == first.At }) {
			continue
		}
		for _, m := range drawn {
			if m.At == first.At {
				messages = append(messages, m)
			}
		}
	}
	return publishOp{messages}
}

func drawMessage(t *rapid.T) messageSpec {
	m := messageSpec{At: drawTopic(t)}
	m.Key, m.ID = of(t, someKeys), of(t, someMessageIDs)
	m.Body = of(t, []string{"", "x", "y"})
	m.Header = of(t, []string{"", "x", "x", "y"})
	if rarely(t, 4) {
		m.Delay = of(t, someDelays)
	}
	if rarely(t, 20) {
		// The bound of a body is lower in the scripts.
		m.Body = "far too long"
	}
	if rarely(t, 20) {
		// A control character makes the key invalid (C1.13).
		m.Key = "\x00"
	}
	return m
}

func drawTopicReserve(t *rapid.T) operation {
	o := topicReserveOp{At: []groupSpec{drawGroup(t)}, Max: rapid.IntRange(1, 4).Draw(t, "max"),
		Lease: of(t, someLeases), Wait: rarely(t, 5)}
	if rarely(t, 5) {
		o.At = append(o.At, drawGroup(t))
	}
	return o
}

// fromSpec describes a position of the log. It is resolved when the operation runs.
type fromSpec struct {
	Kind contract.FromKind
	Back int           // counted back from the last position
	Ago  time.Duration // how long ago the time is
}

func drawFrom(t *rapid.T) fromSpec {
	f := fromSpec{Kind: of(t, []contract.FromKind{contract.KindStart, contract.KindEnd, contract.KindTime,
		contract.KindTime,
		contract.KindPosition, contract.KindPosition})}
	switch f.Kind {
	case contract.KindTime:
		f.Ago = of(t, []time.Duration{0, time.Millisecond, time.Second, 2 * time.Second, 5 * time.Second, time.Hour,
			-time.Second})
	case contract.KindPosition:
		f.Back = rapid.IntRange(0, scriptBack).Draw(t, "back")
	}
	return f
}

func drawConfigureGroup(t *rapid.T) operation {
	o := configureGroupOp{At: drawGroup(t)}
	c := &o.Patch
	switch rapid.IntRange(0, 12).Draw(t, "setting") {
	case 0, 1:
		c.Group.Order = of(t, []duly.GroupOrder{duly.OrderNone, duly.OrderKeys})
	case 2:
		c.Group.MaxHeld = of(t, []int{1, 2, 3, 100})
	case 3:
		// The last filter is invalid, so both sides must refuse it.
		c.Group.Filter = of(t, []duly.Filter{duly.NoFilter, duly.NoFilter, "h=x", "h=y", "@key=k", "a b"})
	case 4:
		c.Defaults.Tries = of(t, []int{1, 2})
		c.Defaults.Backoff = of(t, someBackoffs)
	case 5:
		c.Defaults.MaxStalls = of(t, []int{1, duly.None})
		c.Defaults.Lease = of(t, someLeases)
	case 6:
		c.DeadCount = of(t, []int{duly.None, 1, 2})
		c.DeadAge = of(t, []time.Duration{duly.None, time.Second, 5 * time.Second})
	case 7:
		c.MaxLeased = of(t, []int{duly.None, 1, 2})
	case 8:
		c.Group.Idle = of(t, []time.Duration{duly.None, time.Hour, time.Minute})
	case 9:
		c.Rate.PerSecond = of(t, []float64{duly.None, 1, 0.5, -2})
		c.Rate.Burst = rapid.IntRange(0, 2).Draw(t, "burst")
	case 10:
		c.Reopen = true
	case 11, 12:
		c.Adapt.Floor = of(t, []float64{duly.None, 0.1, 0.5, 1, 1.5})
		c.MaxLeased = of(t, []int{0, 1, 4})
		c.Rate.PerSecond = of(t, []float64{0, 0, 2, 20})
	}
	return o
}

func drawConfigureTopic(t *rapid.T) operation {
	o := configureTopicOp{At: drawTopic(t)}
	switch rapid.IntRange(0, 4).Draw(t, "setting") {
	case 0:
		o.Patch.Keep = of(t, []time.Duration{duly.None, time.Second, time.Minute})
	case 1:
		o.Patch.MaxAge = of(t, []time.Duration{duly.None, duly.None, duly.None, 5 * time.Second})
	case 2, 3:
		o.Patch.MaxCount = of(t, []int{duly.None, 4, 8})
	case 4:
		o.Patch.Overflow = of(t, []duly.Overflow{duly.OverflowRefuse, duly.OverflowDrop, "?"})
	}
	return o
}
