package contract_test

import (
	"errors"
	"hash/crc32"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

func TestPositionsKeepTheirParts(t *testing.T) {
	t.Parallel()
	topic := duly.QueueRef{Namespace: "shop", Name: "events"}
	for _, p := range []contract.PositionParts{
		{Millis: 1, Ordinal: 1},
		{Millis: 1<<48 - 1, Ordinal: contract.MaxOrdinal, Shard: 255, Topic: math.MaxUint32},
		{Millis: 1_700_000_000_123, Ordinal: 0x01_0000_0000, Shard: 7, Topic: contract.TopicChecksum(topic)},
		{Millis: 1_700_000_000_123, Ordinal: 0xffff_ffff, Shard: 7, Topic: 5},
	} {
		n := p.Position()
		if got := contract.PositionPartsOf(n); got != p {
			t.Errorf("%+v became %+v", p, got)
		}
		if back, ok := duly.ParseNumber(n.String()); ok != (p.Millis < 1<<48) || ok && back != n {
			t.Errorf("%s cannot be read again", n)
		}
	}
}

func TestPositionsOfAShardRiseWithTheirOrdinals(t *testing.T) {
	t.Parallel()
	last := ""
	for _, o := range []uint64{1, 2, 255, 256, 1<<32 - 1, 1 << 32, contract.MaxOrdinal} {
		text := contract.PositionParts{Millis: 9, Ordinal: o, Shard: 3, Topic: math.MaxUint32}.Position().String()
		if text <= last {
			t.Errorf("the position of ordinal %d, %s, is not above %s", o, text, last)
		}
		last = text
	}
}

// C12.28: the shard of a message follows from its key, as that of a job follows from its order key.
func TestMessageAndJobOfAKeyShareAShard(t *testing.T) {
	t.Parallel()
	made, _ := duly.ParseNumber(duly.MakeID(&duly.Job{OrderKey: "account-7"}))
	if got, want := contract.KeyShard("account-7", 256), contract.ShardOf(made.String(), 256); got != want {
		t.Errorf("a message lies in shard %d, a job of the same key in %d", got, want)
	}
}

func TestTopicChecksumIsTheCRC32OfTheTopic(t *testing.T) {
	t.Parallel()
	for _, topic := range []duly.QueueRef{duly.Q("events"), {Name: "events"}, {Namespace: "shop", Name: "a.b_c-1"}} {
		if got, want := contract.TopicChecksum(topic), crc32.ChecksumIEEE([]byte(topic.String())); got != want {
			t.Errorf("the checksum of %s is %x instead of %x", topic, got, want)
		}
	}
}

func TestParseFromIn(t *testing.T) {
	t.Parallel()
	topic := duly.Q("events")
	own := contract.PositionParts{Millis: 5, Ordinal: 1, Topic: contract.TopicChecksum(topic)}.Position()
	moment := time.Date(2026, 1, 31, 8, 0, 0, 5e6, time.UTC)
	for _, c := range []struct {
		from duly.From
		want contract.FromParts
	}{
		{"", contract.FromParts{Kind: contract.KindStart}},
		{duly.FromStart, contract.FromParts{Kind: contract.KindStart}},
		{duly.FromEnd, contract.FromParts{Kind: contract.KindEnd}},
		{duly.FromTime(moment), contract.FromParts{Kind: contract.KindTime, Time: moment}},
		{duly.FromPosition(own), contract.FromParts{Kind: contract.KindPosition, Position: own}},
		{"next:abc", contract.FromParts{Kind: contract.KindNext, Next: "abc"}},
	} {
		if got, err := contract.ParseFromIn(c.from, topic, true); err != nil || got != c.want {
			t.Errorf("%q: %+v, %v", c.from, got, err)
		}
	}

	for _, bad := range []duly.From{"begin", "2026-01-31", "Start", "next:abc",
		duly.FromPosition(contract.PositionParts{Ordinal: 1, Topic: 1}.Position())} {
		if _, err := contract.ParseFromIn(bad, topic, false); !errors.Is(err, duly.ErrInvalid) {
			t.Errorf("%q: %v, want invalid", bad, err)
		}
	}
}

func TestFilterMatchesKeyAndHeaders(t *testing.T) {
	t.Parallel()
	f := duly.FilterOf(duly.Condition{Name: "Type", Value: "order & more"},
		duly.Condition{Name: duly.FilterKey, Value: "a=b"})
	conditions, err := contract.FilterConditions(f)
	if err != nil || len(conditions) != 2 || conditions[0] != (duly.Condition{Name: "type", Value: "order & more"}) ||
		conditions[1].Value != "a=b" {
		t.Fatalf("%q: %v, %v", f, conditions, err)
	}

	headers := map[string]string{"type": "order & more"}
	for _, c := range []struct {
		key     string
		headers map[string]string
		want    bool
	}{{"a=b", headers, true}, {"a", headers, false}, {"", headers, false}, {"a=b", nil, false}} {
		if got := contract.Matches(conditions, c.key, c.headers); got != c.want {
			t.Errorf("key %q, headers %v: %t", c.key, c.headers, got)
		}
	}

	for _, none := range []duly.Filter{"", duly.NoFilter, duly.FilterOf()} {
		if c, err := contract.FilterConditions(none); c != nil || err != nil {
			t.Errorf("%q: %v, %v", none, c, err)
		}
	}

	for _, bad := range []duly.Filter{
		"type", "=x", "a b=1", "@id=1", "a=%zz", "a=1&", duly.Filter(strings.Repeat("a=1&", 8) + "a=1"),
		duly.Filter("a=" + strings.Repeat("x", 9<<10)),
	} {
		if err := contract.ValidateFilter(bad); !errors.Is(err, duly.ErrInvalid) {
			t.Errorf("%q: %v, want invalid", bad, err)
		}
	}
}

func TestGroupNamesAreValidated(t *testing.T) {
	t.Parallel()
	g := duly.Q(duly.GroupName("events", "mailer"))
	if topic, group, ok := g.Group(); !ok || topic != duly.Q("events") || group != "mailer" || !g.IsGroup() ||
		contract.ValidateQueue(g) != nil || contract.ValidateGroup(g) != nil {
		t.Errorf("%v: %v %s %t", g, topic, group, ok)
	}

	for _, bad := range []string{"a@b@c", "@g", "t@", "@", "t@.g", "t@g h"} {
		if err := contract.ValidateQueue(duly.Q(bad)); !errors.Is(err, duly.ErrInvalid) {
			t.Errorf("%q: %v, want invalid", bad, err)
		}
	}
	for _, bad := range []string{"a@b@c", "@g", "t@", "events"} {
		if err := contract.ValidateGroup(duly.Q(bad)); err == nil || !strings.Contains(err.Error(), strconv.Quote(bad)+", must be TOPIC@GROUP") {
			t.Errorf("the error of %q: %v", bad, err)
		}
	}
	if err := contract.ValidateGroup(duly.Q("events")); !errors.Is(err, duly.ErrInvalid) {
		t.Errorf("a queue as a group: %v", err)
	}
	if err := contract.ValidateTopic(g); !errors.Is(err, duly.ErrInvalid) {
		t.Errorf("a group as a topic: %v", err)
	}
	if err := contract.ValidateJob(&duly.Job{Queue: g.Name}, 0); !errors.Is(err, duly.ErrInvalid) ||
		!strings.Contains(err.Error(), "publish a message to its topic") {
		t.Errorf("a push into a group: %v", err)
	}

	r := contract.ReceiptParts{Queue: g.Name, Shard: 3, Number: duly.NewNumber(), Delivery: math.MaxInt64}
	if got, ok := contract.ParseReceipt(r.Receipt()); !ok || got != r {
		t.Errorf("%s was read as %+v", r.Receipt(), got)
	}
}

func TestSettingsOfGroupsAndTopicsAreValidated(t *testing.T) {
	t.Parallel()
	queue, group := duly.Q("q"), duly.Q("t@g")
	for _, c := range []struct {
		patch duly.QueueConfig
		ref   duly.QueueRef
		field string // field that the error names; "" if the filter is valid
	}{
		{duly.QueueConfig{MaxLeased: 5}, group, ""},
		{duly.QueueConfig{Group: duly.GroupConfig{Order: duly.OrderKeys, MaxHeld: 1, Filter: "a=1", Idle: time.Hour,
			Target: "q"}}, group, ""},
		{duly.QueueConfig{Group: duly.GroupConfig{Filter: duly.NoFilter, Idle: duly.None, Target: duly.NoTarget}},
			group, ""},
		{duly.QueueConfig{Group: duly.GroupConfig{Order: duly.OrderKeys}}, queue, "order is set, but \"q\" is a queue"},
		{duly.QueueConfig{Group: duly.GroupConfig{MaxHeld: 1}}, queue, "max_held is set"},
		{duly.QueueConfig{Group: duly.GroupConfig{Filter: duly.NoFilter}}, queue, "filter is set"},
		{duly.QueueConfig{Group: duly.GroupConfig{Idle: duly.None}}, queue, "idle is set"},
		{duly.QueueConfig{Group: duly.GroupConfig{Target: "p"}}, queue, "target is set"},
		{duly.QueueConfig{Shards: 2}, group, "shards"},
		{duly.QueueConfig{MaxJobs: 2}, group, "max_jobs"},
		{duly.QueueConfig{Defaults: duly.Defaults{TTL: duly.None}}, group, "defaults.ttl"},
		{duly.QueueConfig{Defaults: duly.Defaults{Retain: time.Hour}}, group, "defaults.retain"},
		{duly.QueueConfig{Group: duly.GroupConfig{Order: "log"}}, group, "order"},
		{duly.QueueConfig{Group: duly.GroupConfig{MaxHeld: duly.None}}, group, "max_held"},
		{duly.QueueConfig{Group: duly.GroupConfig{Idle: time.Minute}}, group, "idle"},
		{duly.QueueConfig{Group: duly.GroupConfig{Target: "a@b"}}, group, "target"},
		{duly.QueueConfig{Group: duly.GroupConfig{Filter: "x"}}, group, "filter"},
	} {
		err := contract.ValidateConfigFor(c.patch, c.ref)
		if c.field == "" && err != nil || c.field != "" &&
			(!errors.Is(err, duly.ErrInvalid) || !strings.Contains(err.Error(), c.field)) {
			t.Errorf("%+v of %s: %v, want %q", c.patch, c.ref, err, c.field)
		}
	}

	for _, c := range []struct {
		patch duly.TopicConfig
		field string
	}{
		{duly.TopicConfig{Shards: 8, Dedupe: time.Second, Keep: time.Hour, MaxAge: time.Millisecond, MaxCount: 8,
			MaxBytes: 8, Overflow: duly.OverflowDrop}, ""},
		{contract.DefaultTopicConfig(), ""},
		{duly.TopicConfig{Shards: 3}, "shards"},
		{duly.TopicConfig{Dedupe: time.Millisecond}, "dedupe"},
		{duly.TopicConfig{Dedupe: 25 * time.Hour}, "dedupe"},
		{duly.TopicConfig{Keep: 1}, "keep"},
		{duly.TopicConfig{MaxAge: -2}, "max_age"},
		{duly.TopicConfig{MaxCount: -2}, "max_count"},
		{duly.TopicConfig{MaxBytes: -2}, "max_bytes"},
		{duly.TopicConfig{Overflow: "keep"}, "overflow"},
	} {
		err := contract.ValidateTopicConfig(c.patch)
		if c.field == "" && err != nil || c.field != "" &&
			(!errors.Is(err, duly.ErrInvalid) || !strings.Contains(err.Error(), c.field)) {
			t.Errorf("%+v: %v, want %q", c.patch, err, c.field)
		}
	}

	if err := contract.CheckTopicConfig(duly.TopicConfig{Shards: 8, MaxCount: 7, MaxBytes: 7}); err == nil ||
		!strings.Contains(err.Error(), "max_count") || !strings.Contains(err.Error(), "max_bytes") {
		t.Errorf("bounds below the number of shards: %v", err)
	}
}
