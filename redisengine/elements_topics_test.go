package redisengine_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/redisengine"
)

func (c *counting) useTopics() {
	useTopics(c.T, c.at, func() { c.fake.Advance(time.Hour) })
}

// useTopics calls every script of topics with as much as it may be asked for. advance
// lets an hour pass, if the engine goes by a test's clock.
func useTopics(t *testing.T, e *redisengine.Engine, advance func()) {
	t.Helper()
	ctx, topic, group := t.Context(), duly.Q("log"), duly.Q("log@g")
	must(t, e.ConfigureTopic(ctx, topic, duly.TopicConfig{Dedupe: time.Minute}))
	_, err := e.CreateGroup(ctx, group, duly.FromStart)
	must(t, err)
	must(t, e.Configure(ctx, group, duly.QueueConfig{Defaults: duly.Defaults{Tries: 1}}))
	publish := func(delay time.Duration) {
		messages := make([]duly.Message, mostAtOnce)
		for i := range messages {
			messages[i] = duly.Message{Topic: "log", ID: strconv.FormatInt(time.Now().UnixNano(), 36) + "-" + strconv.Itoa(i), Delay: delay}
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
			t.Fatalf("a Reserve has %d messages, want %d", len(got), mostAtOnce)
		}
		return receipts
	}
	settle := func(receipts []duly.Receipt, as duly.Settlement) {
		outcomes := make([]duly.Outcome, len(receipts))
		for i, r := range receipts {
			outcomes[i] = duly.Outcome{Receipt: r, As: as}
		}
		_, err := e.Settle(ctx, "", outcomes)
		must(t, err)
	}

	publish(0)
	_, err = e.Read(ctx, topic, duly.ReadParams{Limit: mostAtOnce})
	must(t, err)
	held := reserve()
	_, err = e.Extend(ctx, "", held[:mostAtOnce/2], time.Minute)
	must(t, err)
	for _, state := range []duly.State{duly.StateLeased, duly.StateReady} {
		_, err = e.List(ctx, group, duly.ListParams{PageParams: duly.PageParams{Limit: mostAtOnce}, State: state})
		must(t, err)
	}
	_, err = e.Check(ctx, duly.CheckParams{})
	must(t, err)
	info, err := e.GetByReceipt(ctx, "", held[0])
	must(t, err)
	must(t, e.Delete(ctx, group, info.ID))
	settle(held[1:], duly.Nack) // dead at once
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
	page, err := e.Delayed(ctx, topic, duly.DelayedParams{PageParams: duly.PageParams{Limit: mostAtOnce}})
	must(t, err)
	_, err = e.Check(ctx, duly.CheckParams{})
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
