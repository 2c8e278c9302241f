package contract_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// C12.28, C12.29, C12.30: the key, the ID and dedupe decide the shard of a message.
func TestKeyAndIDDecideTheShardOfAMessage(t *testing.T) {
	t.Parallel()
	plain := duly.TopicConfig{Shards: 8, Dedupe: duly.None}
	dedupe := duly.TopicConfig{Shards: 8, Dedupe: time.Hour}
	number := duly.NewNumberIn(5).String()
	for _, c := range []struct {
		message duly.Message
		config  duly.TopicConfig
		delayed bool
		want    int
		fixed   bool
	}{
		{duly.Message{Key: "k", ID: "a"}, plain, false, contract.KeyShard("k", 8), true},
		{duly.Message{Key: "k", ID: "a"}, dedupe, true, contract.KeyShard("k", 8), true},
		{duly.Message{ID: "a"}, plain, false, 0, false},
		{duly.Message{ID: "a"}, dedupe, false, contract.KeyShard("a", 8), true},
		{duly.Message{ID: number}, dedupe, true, contract.KeyShard(number, 8), true},
		{duly.Message{ID: number}, plain, true, 5, true},
		{duly.Message{}, dedupe, true, 0, false},
		{duly.Message{ID: "a"}, duly.TopicConfig{Shards: 1}, false, 0, true},
	} {
		if shard, fixed := contract.MessageShard(&c.message, c.config, c.delayed); shard != c.want || fixed != c.fixed {
			t.Errorf("%+v in %+v: shard %d, %t; want %d, %t", c.message, c.config, shard, fixed, c.want, c.fixed)
		}
		if shard, fixed := contract.MessageShard(&c.message, c.config, c.delayed); c.delayed && fixed &&
			!slices.Contains(contract.DelayedShards(c.message.Key, c.message.ID, 8), shard) {
			t.Errorf("%+v is not looked for in shard %d", c.message, shard)
		}
	}
}

// C12.16: PlanMessage returns the message in the form in which it is read later.
func TestMessageIsPlanned(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 31, 8, 0, 0, 500_000, time.UTC)
	m, due, err := contract.PlanMessage(duly.Message{Topic: "t", Headers: map[string]string{"Type": "a"}, Delay: time.Second}, now)
	if err != nil || due != now.UnixMilli()+1001 || m.Delay != 0 || m.Headers["type"] != "a" ||
		m.Namespace != "default" {
		t.Errorf("a delay gives %+v at %d, %v", m, due, err)
	}
	if _, due, err := contract.PlanMessage(duly.Message{Due: now.Add(-time.Hour)}, now); err != nil || due != now.UnixMilli() {
		t.Errorf("a due moment in the past gives %d, %v", due, err)
	}
	if _, _, err := contract.PlanMessage(duly.Message{Delay: 2 * time.Hour}, duly.MaxTime.Add(-time.Hour)); !errors.Is(err,
		duly.ErrInvalid) {
		t.Errorf("a delay beyond the last moment: %v", err)
	}
}

func TestRequeueOfAGroupTakesNoValues(t *testing.T) {
	t.Parallel()
	p := duly.RequeueParams{N: 1, Tries: 2, TTL: time.Hour}
	var e *duly.Error
	if !errors.As(contract.ValidateRequeueFor(&p, duly.Q("t@g")), &e) || len(e.Fields) != 2 {
		t.Errorf("of a group: %v", contract.ValidateRequeueFor(&p, duly.Q("t@g")))
	}
	if err := contract.ValidateRequeueFor(&p, duly.Q("q")); err != nil {
		t.Errorf("of a queue: %v", err)
	}
}
