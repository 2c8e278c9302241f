package conformance

import (
	"context"

	"github.com/dulymq/duly"
)

// topicMethods is embedded: duly.Topics would hide its own method Topics.
type topicMethods = duly.Topics

// nearTopics is near for an engine with topics.
type nearTopics struct {
	near
	topicMethods
}

// nearOf returns a client. It has topics if the engine behind the server has them.
func nearOf(client interface {
	duly.Contract
	duly.Topics
}, topics bool, r *rest) duly.Contract {
	n := near{client, r}
	if !topics {
		return n
	}
	return nearTopics{n, client}
}

// Read implements duly.Topics.
func (n nearTopics) Read(ctx context.Context, topic duly.QueueRef, p duly.ReadParams) (page duly.ReadPage, err error) {
	if p.Wait == 0 {
		return n.topicMethods.Read(ctx, topic, p)
	}
	err = n.rest.waits(ctx, func(ctx context.Context) error {
		page, err = n.topicMethods.Read(ctx, topic, p)
		return err
	})
	return page, err
}

// farTopics is far for an engine with topics.
type farTopics struct {
	far
	topicMethods
}

// farOf returns the server's engine, with topics if it has them.
func farOf(store duly.Contract, r *rest) duly.Contract {
	f := far{store, r}
	if topics, ok := store.(duly.Topics); ok {
		return farTopics{f, topics}
	}
	return f
}

// Read implements duly.Topics.
func (f farTopics) Read(ctx context.Context, topic duly.QueueRef, p duly.ReadParams) (duly.ReadPage, error) {
	if p.Wait > 0 {
		defer f.rest.parks(ctx)()
	}
	return f.topicMethods.Read(ctx, topic, p)
}
