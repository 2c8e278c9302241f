package redisengine_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/redisengine"
)

func (c *counting) useTopics() {
	useTopics(c.T, c.at, func() { c.fake.Advance(time.Hour) })
}

// useTopics calls every script of topics with as many elements as allowed. advance advances the
// clock by an hour, if the engine uses a test's clock.
func useTopics(t *testing.T, e *redisengine.Engine, advance func()) {
	t.Helper()
	ctx, topic, group := t.Context(), duly.Q("log"), duly.Q("log@g")
	must(t, e.ConfigureTopic(ctx, topic, duly.TopicConfig{Dedupe: time.Minute}))
	_, err := e.CreateGroup(ctx, group, duly.FromStart)
	must(t, err)
	must(t, e.Configure(ctx, group, duly.QueueConfig{Defaults: duly.Defaults{Tries: 1}, Reopen: true}))
	publish := func(delay time.Duration) {
		messages := make([]duly.Message, mostAtOnce)
		for i := range messages {
			messages[i] = duly.Message{Topic: "log", ID: strconv.FormatInt(time.Now().UnixNano(), 36) + "-" + strconv.Itoa(i),
				Delay: delay}
		}
		_, err := e.Publish(ctx, messages)
		must(t, err)
	}
	reserve := func() []duly.Receipt {
		got, err := e.Reserve(ctx, duly.ReserveParams{Queues: []string{"log@g"}, Max: mostAtOnce})
		must(t, err)
		receipts := make([]duly.Receipt, len(got))
		for i, d := range got {
			receipts[i] = d.Receipt
		}
		if len(got) != mostAtOnce {
			t.Fatalf("Reserve returned %d messages, want %d", len(got), mostAtOnce)
		}
		return receipts
	}
	settle := func(receipts []duly.Receipt, as duly.Settlement) {
		outcomes := make([]duly.SettleRequest, len(receipts))
		for i, r := range receipts {
			outcomes[i] = duly.SettleRequest{Receipt: r, As: as}
		}
		_, err := e.Settle(ctx, "", outcomes)
		must(t, err)
	}

	publish(0)
	_, err = e.Read(ctx, topic, contract.ReadParams{Limit: mostAtOnce})
	must(t, err)
	held := reserve()
	_, err = e.Extend(ctx, "", held[:mostAtOnce/2], time.Minute)
	must(t, err)
	for _, state := range []duly.State{duly.StateLeased, duly.StateReady} {
		_, err = e.List(ctx, group, duly.ListParams{PageParams: duly.PageParams{Limit: mostAtOnce}, State: state})
		must(t, err)
	}
	_, err = e.Check(ctx, contract.CheckParams{})
	must(t, err)
	info, err := e.GetByReceipt(ctx, "", held[0])
	must(t, err)
	must(t, e.Delete(ctx, group, info.ID))
	// These messages become dead letters at once.
	settle(held[1:], duly.Nack)
	_, err = e.Requeue(ctx, group, duly.RequeueParams{N: mostAtOnce})
	must(t, err)
	publish(0)
	settle(reserve(), duly.Release)
	_, err = e.Stats(ctx, group)
	must(t, err)
	_, err = e.Purge(ctx, group, duly.StateReady, mostAtOnce)
	must(t, err)
	_, err = e.Wait(ctx, duly.WaitParams{Queues: []string{"log@g"}})
	must(t, err)

	publish(0)
	reserve()
	publish(time.Minute)
	page, err := e.Delayed(ctx, topic, contract.DelayedParams{PageParams: duly.PageParams{Limit: mostAtOnce}})
	must(t, err)
	_, err = e.Check(ctx, contract.CheckParams{})
	must(t, err)
	_, err = e.DelayedMessage(ctx, topic, "", page.Messages[0].ID)
	must(t, err)
	must(t, e.CancelDelayed(ctx, topic, "", page.Messages[0].ID))
	advance()
	_, err = e.Step(ctx, topic)
	must(t, err)
	_, err = e.Topic(ctx, topic)
	must(t, err)
	_, err = e.Seek(ctx, group, duly.FromStart)
	must(t, err)
	must(t, e.DestroyTopic(ctx, topic))
}

// TestTrimReadsFewBytesPerScript checks that a script reads at most 8 MiB of messages for their
// sizes, which max_bytes needs. It trims the messages that it has read, and the next step
// continues. The size stays exact.
func TestTrimReadsFewBytesPerScript(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	c := clock.NewFake()
	e, _ := tidyEngine(t, redistest.Single(t).URL(), c)
	topic, group := duly.Q("log"), duly.Q("log@g")
	must(t, e.ConfigureTopic(ctx, topic, duly.TopicConfig{MaxBytes: 1 << 30}))
	_, err := e.CreateGroup(ctx, group, duly.FromStart)
	must(t, err)
	for i := range 31 {
		body := make([]byte, 1<<20)
		if i == 30 {
			body = nil
		}
		_, err := e.Publish(ctx, []duly.Message{{Topic: topic.Name, Body: body}})
		must(t, err)
	}
	var outcomes []duly.SettleRequest
	for len(outcomes) < 30 {
		ds, err := e.Reserve(ctx, duly.ReserveParams{Queues: []string{group.Name}, Max: 30 - len(outcomes)})
		must(t, err)
		for _, d := range ds {
			outcomes = append(outcomes, duly.SettleRequest{Receipt: d.Receipt, As: duly.Ack})
		}
	}

	before := int64(31)
	look := func() duly.TopicStats {
		t.Helper()
		info, err := e.Topic(ctx, topic)
		must(t, err)
		st := info.Stats
		if n := before - st.Messages; n > 9 {
			t.Errorf("a script trimmed %d MiB, want at most 9", n)
		}
		if want := (st.Messages - 1) << 20; st.Bytes < want || st.Bytes > want+31*100 {
			t.Errorf("%d messages have %d bytes, want about %d", st.Messages, st.Bytes, want)
		}
		before = st.Messages
		return st
	}
	_, err = e.Settle(ctx, "", outcomes)
	must(t, err)
	look()
	for more := true; more; look() {
		more, err = e.Step(ctx, topic)
		must(t, err)
	}
	if st := look(); st.Messages != 1 || st.Trimmed != 30 {
		t.Errorf("%d messages are left and %d were trimmed, want 1 and 30", st.Messages, st.Trimmed)
	}
}
