package metrics

import (
	"context"
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// TopicStats is the name of a topic and its statistics.
type TopicStats struct {
	Topic duly.QueueRef
	Stats duly.TopicStats
}

// readTopics reads the first topics of a namespace, up to a maximum. It reports whether it could
// read all of these topics.
func readTopics(
	ctx context.Context, topics contract.Topics, namespace string, maximum int,
) (all []TopicStats, complete bool) {
	for p := (duly.PageParams{Limit: duly.MaxBatch}); ; {
		var names duly.NamePage
		err := protect(func() (err error) {
			names, err = topics.Topics(ctx, namespace, p)
			return err
		})
		if err != nil {
			// An engine without topics has no incomplete list.
			return all, errors.Is(err, duly.ErrUnsupported)
		}

		for _, name := range names.Names {
			if len(all) == maximum {
				return all, true
			}
			t := TopicStats{Topic: duly.QueueRef{Namespace: namespace, Name: name}}
			err := protect(func() error {
				info, err := topics.Topic(ctx, t.Topic)
				t.Stats = info.Stats
				return err
			})
			switch {
			case errors.Is(err, duly.ErrNotFound): // the topic was destroyed since
			case err != nil:
				return all, false
			default:
				all = append(all, t)
			}
		}

		if p.Cursor = names.Next; p.Cursor == "" {
			return all, true
		}
	}
}

func collectGroup(ch chan<- prometheus.Metric, q duly.QueueRef, g *duly.GroupStats) {
	gaugeValue(ch, groupLag, float64(g.Lag), q.Namespace, q.Name)
	gaugeValue(ch, groupOldest, g.OldestNeeded.Seconds(), q.Namespace, q.Name)
	gaugeValue(ch, groupAtBound, boolValue(g.AtMaxHeld), q.Namespace, q.Name)
	for _, c := range groupCounters {
		counterValue(ch, c.definition, c.of(g), q.Namespace, q.Name)
	}
}

func collectTopic(ch chan<- prometheus.Metric, t *TopicStats) {
	gaugeValue(ch, topicMessages, float64(t.Stats.Messages), t.Topic.Namespace, t.Topic.Name)
	gaugeValue(ch, topicBytes, float64(t.Stats.Bytes), t.Topic.Namespace, t.Topic.Name)
	gaugeValue(ch, topicDelayed, float64(t.Stats.Delayed), t.Topic.Namespace, t.Topic.Name)
	for _, c := range topicCounters {
		counterValue(ch, c.definition, c.of(&t.Stats), t.Topic.Namespace, t.Topic.Name)
	}
}

// Topics returns topics that count their publishes. For nil it returns nil.
func (m *Metrics) Topics(t contract.Topics) contract.Topics {
	if t == nil {
		return nil
	}
	return &countingTopics{t, m}
}

// topicMethods is embedded: contract.Topics would hide its own method Topics.
type topicMethods = contract.Topics

type countingTopics struct {
	topicMethods
	m *Metrics
}

// Publish implements contract.Topics.
func (c *countingTopics) Publish(ctx context.Context, messages []duly.Message) ([]duly.PublishResult, error) {
	results, err := c.topicMethods.Publish(ctx, messages)
	for i := range results {
		if r := &results[i]; r.Err != nil || r.Status > duly.Exists {
			c.m.publishRefused.add(duly.CodeOf(r.Err))
			continue
		}
		ref := duly.QueueRef{Namespace: contract.NamespaceOr(messages[i].Namespace), Name: messages[i].Topic}
		c.m.queues.get(ref).published[results[i].Status].Add(1)
	}
	return results, err
}

// DestroyTopic implements contract.TopicOperator.
func (c *countingTopics) DestroyTopic(ctx context.Context, topic duly.QueueRef) error {
	err := c.topicMethods.DestroyTopic(ctx, topic)
	if err == nil {
		c.m.queues.remove(topic.Normal())
	}
	return err
}
