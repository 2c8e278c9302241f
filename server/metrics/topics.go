package metrics

import (
	"context"
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dulymq/duly"
)

// TopicStats is the name and the state of one topic.
type TopicStats struct {
	Topic duly.QueueRef
	Stats duly.TopicStats
}

// topicsOf reads the first topics of a namespace, up to most. whole reports whether it met
// no error.
func topicsOf(ctx context.Context, topics duly.Topics, namespace string, most int) (all []TopicStats, whole bool) {
	for p := (duly.PageParams{Limit: duly.MaxBatch}); ; {
		var names duly.NamePage
		err := protect(func() (err error) {
			names, err = topics.Topics(ctx, namespace, p)
			return err
		})

		if err != nil {
			return all, errors.Is(err, duly.ErrUnsupported)
		}

		for _, name := range names.Names {
			if len(all) == most {
				return all, true
			}
			t := TopicStats{Topic: duly.QueueRef{Namespace: namespace, Name: name}}
			err := protect(func() error {
				info, err := topics.Topic(ctx, t.Topic)
				t.Stats = info.Stats
				return err
			})
			switch {
			case errors.Is(err, duly.ErrNotFound): // destroyed meanwhile
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

func tellGroup(ch chan<- prometheus.Metric, q duly.QueueRef, g *duly.GroupStats) {
	measure(ch, groupLag, float64(g.Lag), q.Namespace, q.Name)
	measure(ch, groupOldest, g.OldestNeeded.Seconds(), q.Namespace, q.Name)
	measure(ch, groupAtBound, number(g.AtMaxHeld), q.Namespace, q.Name)
	for _, c := range groupCounters {
		count(ch, c.defined, c.of(g), q.Namespace, q.Name)
	}
}

func tellTopic(ch chan<- prometheus.Metric, t *TopicStats) {
	measure(ch, topicMessages, float64(t.Stats.Messages), t.Topic.Namespace, t.Topic.Name)
	measure(ch, topicBytes, float64(t.Stats.Bytes), t.Topic.Namespace, t.Topic.Name)
	measure(ch, topicDelayed, float64(t.Stats.Delayed), t.Topic.Namespace, t.Topic.Name)
	for _, c := range topicCounters {
		count(ch, c.defined, c.of(&t.Stats), t.Topic.Namespace, t.Topic.Name)
	}
}

// Topics returns topics that count their publishes. It returns nil for nil.
func (m *Metrics) Topics(t duly.Topics) duly.Topics {
	if t == nil {
		return nil
	}
	return &countedTopics{t, m}
}

// topicMethods is embedded: duly.Topics would hide its own method Topics.
type topicMethods = duly.Topics

type countedTopics struct {
	topicMethods
	m *Metrics
}

// Publish implements duly.Topics.
func (c *countedTopics) Publish(ctx context.Context, messages []duly.Message) ([]duly.PublishResult, error) {
	results, err := c.topicMethods.Publish(ctx, messages)
	for i := range results {
		if r := &results[i]; r.Err != nil || r.Outcome > duly.Exists {
			c.m.publishRefused.add(duly.CodeOf(r.Err))
			continue
		}
		ref := duly.QueueRef{Namespace: duly.NamespaceOr(messages[i].Namespace), Name: messages[i].Topic}
		c.m.tallies.of(ref).published[results[i].Outcome].Add(1)
	}
	return results, err
}

// DestroyTopic implements duly.TopicOperator.
func (c *countedTopics) DestroyTopic(ctx context.Context, topic duly.QueueRef) error {
	err := c.topicMethods.DestroyTopic(ctx, topic)
	if err == nil {
		c.m.tallies.forget(topic.Normal())
	}
	return err
}
