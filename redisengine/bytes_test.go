package redisengine_test

import (
	"testing"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/redisengine/internal/store"
)

// TestBytesOfATopicAreEstimatedForMixedSizes checks that the estimate for max_bytes is within 15 % of the
// log's memory, even if small messages replace large ones or the other way round.
//
// C12.130
func TestBytesOfATopicAreEstimatedForMixedSizes(t *testing.T) {
	t.Parallel()
	server, prefix := redistest.Shared(t)
	e := open(t, withPrefix(server.URL(), prefix))
	for topic, sizes := range map[string][2]int{"falls": {5000, 200}, "rises": {200, 5000}, "even": {1000, 1000}} {
		ref, group := duly.Q(topic), duly.Q(topic+"@g")
		must(t, e.ConfigureTopic(t.Context(), ref, duly.TopicConfig{MaxBytes: 1 << 30}))
		_, err := e.CreateGroup(t.Context(), group, duly.FromStart)
		must(t, err)
		for _, size := range sizes {
			for range 3 {
				messages := make([]duly.Message, 1000)
				for i := range messages {
					messages[i] = duly.Message{Topic: topic, Body: make([]byte, size)}
				}
				results, err := e.Publish(t.Context(), messages)
				must(t, err)
				for _, r := range results {
					must(t, r.Err)
				}
			}
		}
		for range 3 { // the first half of the messages is published
			ds, err := e.Reserve(t.Context(), duly.ReserveParams{Queues: []string{topic + "@g"}, Max: 1000})
			must(t, err)
			outcomes := make([]duly.SettleRequest, len(ds))
			for i, d := range ds {
				outcomes[i] = duly.SettleRequest{Receipt: d.Receipt, As: duly.Ack}
			}
			_, err = e.Settle(t.Context(), "", outcomes)
			must(t, err)
		}
		_, err = e.Step(t.Context(), ref)
		must(t, err)

		info, err := e.Topic(t.Context(), ref)
		must(t, err)
		memory := server.Must("MEMORY", "USAGE", store.ShardTag(prefix, ref, 0)+"log", "SAMPLES", 0).(int64)
		if diff := info.Stats.Bytes - memory; 100*max(diff, -diff) > 15*memory {
			t.Errorf("topic %s: %d messages have an estimate of %d bytes, and use %d", topic, info.Stats.Messages,
				info.Stats.Bytes, memory)
		}
	}
}
