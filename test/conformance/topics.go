package conformance

import (
	"context"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// topicMethods is embedded under another name, because the type contract.Topics would hide its
// method Topics.
type topicMethods = contract.Topics

// nearTopics is near for an engine with topics.
type nearTopics struct {
	near
	topicMethods
}

// nearAll is near for an engine with topics and schedules.
type nearAll struct {
	nearTopics
	duly.Scheduler
}

// nearOf returns a client. It has topics and schedules if the engine behind the server has them.
func nearOf(client interface {
	contract.Engine
	contract.Topics
	duly.Scheduler
}, store contract.Engine, r *rest) contract.Engine {
	n := near{client, r}
	if _, ok := store.(contract.Topics); !ok {
		return n
	}
	if _, ok := store.(duly.Scheduler); !ok {
		return nearTopics{n, client}
	}
	return nearAll{nearTopics{n, client}, client}
}

// Read implements contract.Topics.
func (n nearTopics) Read(ctx context.Context, topic duly.QueueRef, p contract.ReadParams) (page contract.ReadPage,
	err error) {
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

// farAll is far for an engine with topics and schedules.
type farAll struct {
	farTopics
	duly.Scheduler
}

// farOf returns the server's engine, with topics and schedules if it has them.
func farOf(store contract.Engine, r *rest) contract.Engine {
	f := far{store, r}
	topics, ok := store.(contract.Topics)
	if !ok {
		return f
	}
	if schedules, ok := store.(duly.Scheduler); ok {
		return farAll{farTopics{f, topics}, schedules}
	}
	return farTopics{f, topics}
}

// Read implements contract.Topics.
func (f farTopics) Read(ctx context.Context, topic duly.QueueRef, p contract.ReadParams) (contract.ReadPage, error) {
	if p.Wait > 0 {
		defer f.rest.parks(ctx)()
	}
	return f.topicMethods.Read(ctx, topic, p)
}
