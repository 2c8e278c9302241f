package httpengine

import (
	"context"
	"errors"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/wire"
)

var _ contract.Topics = (*Engine)(nil)

// publishers has the batchers of the topics with calls in flight. Each request has messages of only
// one topic, because the topic is in the path.
type publishers struct {
	mu  sync.Mutex
	all map[string]*publisher // publishers by the name of the topic
}

type publisher struct {
	batcher[duly.PublishResult]
	users int // number of calls in flight
}

// publisherOf returns the batcher of a topic, until done is called.
func (e *Engine) publisherOf(topic string) (p *publisher, done func()) {
	e.publishers.mu.Lock()
	defer e.publishers.mu.Unlock()

	p = e.publishers.all[topic]
	if p == nil {
		p = &publisher{}
		p.start(e.spawn, func(ctx context.Context, body []byte) ([]duly.PublishResult, error) {
			return postBatch(ctx, e, "/topics/"+topic+"/messages", body, wire.PublishedForm.ReadAnswer)
		})
		if e.publishers.all == nil {
			e.publishers.all = map[string]*publisher{}
		}
		e.publishers.all[topic] = p
	}
	// The count keeps the batcher in the map while a call uses it.
	p.users++

	return p, func() {
		e.publishers.mu.Lock()
		defer e.publishers.mu.Unlock()
		// Idle batchers are dropped, so that the map does not keep every topic ever used.
		if p.users--; p.users == 0 {
			delete(e.publishers.all, topic)
		}
	}
}

// Publish implements contract.Topics. It is never repeated: without [duly.TopicConfig.Dedupe], a
// repeat after a lost answer could add the messages twice. For messages of several topics it makes
// several requests, one after the other.
func (e *Engine) Publish(ctx context.Context, messages []duly.Message) ([]duly.PublishResult, error) {
	if err := e.begin(""); err != nil {
		return nil, err
	}
	defer e.calls.Done()
	if err := contract.CheckBatch(len(messages), contract.MessageBytes(messages)); err != nil {
		return nil, err
	}
	return sendValid(messages, e.validateMessage, func(messages []duly.Message) ([]duly.PublishResult, error) {
		return e.publish(ctx, messages)
	}, refusedMessage)
}

func refusedMessage(m *duly.Message, err error) duly.PublishResult {
	return duly.PublishResult{ID: m.ID, Err: err}
}

// validateMessage returns an error for a message that must not be sent: a message of another
// namespace, of a topic whose name no path can contain, or with a text or time that JSON cannot
// carry.
func (e *Engine) validateMessage(m *duly.Message) error {
	if m.Namespace != "" && m.Namespace != e.link.namespace {
		return e.foreignNamespace(m.Namespace)
	}
	topic := duly.QueueRef{Namespace: m.Namespace, Name: m.Topic}
	if contract.ValidateTopic(topic) == nil && !m.Due.After(duly.MaxTime) && isUTF8(m.Headers, m.ID, m.Key) {
		return nil
	}
	return contract.ValidateMessage(m, duly.MaxMaxBody)
}

// publish sends the messages of each topic together, in the order of the topics' first messages. If
// the first request fails, the call fails, because nothing else was sent.
func (e *Engine) publish(ctx context.Context, messages []duly.Message) ([]duly.PublishResult, error) {
	var topics []string
	indexes := map[string][]int{}
	for i := range messages {
		name := messages[i].Topic
		if indexes[name] == nil {
			topics = append(topics, name)
		}
		indexes[name] = append(indexes[name], i)
	}
	// The usual call needs no copies.
	if len(topics) == 1 {
		return e.publishTo(ctx, topics[0], messages)
	}

	results := make([]duly.PublishResult, len(messages))
	for k, topic := range topics {
		own := make([]duly.Message, len(indexes[topic]))
		for n, i := range indexes[topic] {
			own[n] = messages[i]
		}
		answers, err := e.publishTo(ctx, topic, own)
		// If a later request fails, only its own messages get the error, because earlier messages
		// are stored.
		if err != nil && k == 0 {
			return nil, err
		}
		for n, i := range indexes[topic] {
			if err != nil {
				results[i] = refusedMessage(&messages[i], partly(err))
			} else {
				results[i] = answers[n]
			}
		}
	}
	return results, nil
}

func (e *Engine) publishTo(
	ctx context.Context, topic string, messages []duly.Message,
) ([]duly.PublishResult, error) {
	p, done := e.publisherOf(topic)
	defer done()
	results, err := p.do(ctx, wire.AppendPublish(nil, messages), len(messages), contract.MessageBytes(messages))
	if errors.Is(err, duly.ErrTooLarge) {
		return sendHalves(messages, err, func(messages []duly.Message) ([]duly.PublishResult, error) {
			return e.publishTo(ctx, topic, messages)
		}, refusedMessage)
	}
	return results, err
}

// beginTopic is like begin, for a call about one topic. It returns the topic with its namespace,
// which positions depend on.
func (e *Engine) beginTopic(topic duly.QueueRef) (duly.QueueRef, error) {
	if err := e.begin(topic.Namespace); err != nil {
		return topic, err
	}
	if err := contract.ValidateTopic(topic); err != nil {
		e.calls.Done()
		return topic, err
	}
	// The checksum in a position includes the namespace.
	topic.Namespace = e.link.namespace
	return topic, nil
}

// beginGroup is like begin, for a call about one group. It returns the path of the group.
func (e *Engine) beginGroup(group duly.QueueRef) (path string, err error) {
	if err := e.begin(group.Namespace); err != nil {
		return "", err
	}
	if err := contract.ValidateGroup(group); err != nil {
		e.calls.Done()
		return "", err
	}
	topic, name, _ := group.Group()
	return e.topicPath(topic) + "/groups/" + name, nil
}

func (e *Engine) topicPath(topic duly.QueueRef) string { return e.base + "/topics/" + topic.Name }

// Read implements contract.Topics. Like Wait, it makes requests of at most [Config.Poll].
func (e *Engine) Read(ctx context.Context, topic duly.QueueRef, p contract.ReadParams) (contract.ReadPage, error) {
	topic, err := e.beginTopic(topic)
	if err != nil {
		return contract.ReadPage{}, err
	}
	defer e.calls.Done()
	if err := p.Validate(topic); err != nil {
		return contract.ReadPage{}, err
	}

	page := contract.ReadPage{}
	err = e.untilClosed(ctx, func(open context.Context) error {
		return e.pollFor(open, p.Wait, func(timeout time.Duration) (bool, error) {
			p.Wait = timeout
			next, err := e.readOnce(open, topic, p)
			if err != nil {
				return false, err
			}
			// A poll without messages may have passed a gap, which the caller must still see.
			next.Gap += page.Gap
			page, p.From = next, next.Next
			return len(page.Entries) > 0, nil
		})
	})
	if err != nil {
		return contract.ReadPage{}, err
	}
	return page, nil
}

func (e *Engine) readOnce(ctx context.Context, topic duly.QueueRef, p contract.ReadParams) (contract.ReadPage, error) {
	query := url.Values{"limit": {strconv.Itoa(p.Limit)}}
	if p.From != "" {
		query.Set("from", string(p.From))
	}
	if p.Wait > 0 {
		query.Set("wait", duly.FormatDuration(p.Wait))
	}

	r := request{
		method: "GET", path: e.topicPath(topic) + "/messages", query: query, max: maxJobs, wait: p.Wait,
	}
	return fetch(ctx, e.link, r, func(text string) (contract.ReadPage, error) { return wire.ReadEntries(text, topic) })
}

// Delayed implements contract.Topics.
func (e *Engine) Delayed(ctx context.Context, topic duly.QueueRef, p contract.DelayedParams) (contract.DelayedPage, error) {
	topic, err := e.beginTopic(topic)
	if err != nil {
		return contract.DelayedPage{}, err
	}
	defer e.calls.Done()
	if err := contract.ValidatePage(&p.PageParams); err != nil {
		return contract.DelayedPage{}, err
	}
	query, err := page(p.PageParams)
	if err != nil {
		return contract.DelayedPage{}, err
	}
	if p.Bodies {
		query.Set("bodies", "true")
	}

	r := request{method: "GET", path: e.topicPath(topic) + "/delayed", query: query, max: maxJobs}
	return fetch(ctx, e.link, r, func(text string) (contract.DelayedPage, error) { return wire.ReadDelayed(text, topic) })
}

// DelayedMessage implements contract.Topics.
func (e *Engine) DelayedMessage(ctx context.Context, topic duly.QueueRef, key, id string) (duly.Message, error) {
	r, topic, err := e.beginDelayed(topic, key, id)
	if err != nil {
		return duly.Message{}, err
	}
	defer e.calls.Done()
	r.method, r.max = "GET", maxJobs
	return fetch(ctx, e.link, r, func(text string) (duly.Message, error) {
		return wire.ReadDelayedMessage(text, topic)
	})
}

// CancelDelayed implements contract.Topics.
func (e *Engine) CancelDelayed(ctx context.Context, topic duly.QueueRef, key, id string) error {
	r, _, err := e.beginDelayed(topic, key, id)
	if err != nil {
		return err
	}
	defer e.calls.Done()
	r.method = "DELETE"
	return e.changeOnly(ctx, r)
}

// beginDelayed is like beginTopic, for a call about one delayed message. It returns the request
// without a method.
func (e *Engine) beginDelayed(topic duly.QueueRef, key, id string) (request, duly.QueueRef, error) {
	topic, err := e.beginTopic(topic)
	if err != nil {
		return request{}, topic, err
	}
	if err := contract.ValidateID(id); err != nil {
		e.calls.Done()
		return request{}, topic, err
	}
	r := request{path: e.topicPath(topic) + "/delayed/" + id}
	if key != "" {
		r.query = url.Values{"key": {key}}
	}
	return r, topic, nil
}

// Topics implements contract.TopicOperator.
func (e *Engine) Topics(ctx context.Context, namespace string, p duly.PageParams) (duly.NamePage, error) {
	if err := e.begin(namespace); err != nil {
		return duly.NamePage{}, err
	}
	defer e.calls.Done()
	return e.link.names(ctx, e.base+"/topics", "topics", p)
}

// Topic implements contract.TopicOperator.
func (e *Engine) Topic(ctx context.Context, topic duly.QueueRef) (duly.TopicInfo, error) {
	topic, err := e.beginTopic(topic)
	if err != nil {
		return duly.TopicInfo{}, err
	}
	defer e.calls.Done()
	t, err := fetch(ctx, e.link, request{method: "GET", path: e.topicPath(topic)}, wire.TopicForm.ReadAnswer)
	return t.TopicInfo, err
}

// ConfigureTopic implements contract.TopicOperator.
func (e *Engine) ConfigureTopic(ctx context.Context, topic duly.QueueRef, patch duly.TopicConfig) error {
	if err := contract.ValidateTopicConfig(patch); err != nil {
		return err
	}
	return e.onTopic(ctx, topic, request{method: "PATCH", body: wire.TopicConfigForm.Append(nil, patch)})
}

// DestroyTopic implements contract.TopicOperator.
func (e *Engine) DestroyTopic(ctx context.Context, topic duly.QueueRef) error {
	return e.onTopic(ctx, topic, request{method: "DELETE"})
}

// onTopic makes a request about a topic. The request has no result.
func (e *Engine) onTopic(ctx context.Context, topic duly.QueueRef, r request) error {
	topic, err := e.beginTopic(topic)
	if err != nil {
		return err
	}
	defer e.calls.Done()
	r.path = e.topicPath(topic)
	return e.changeOnly(ctx, r)
}

// Trim makes one step of the trim that the server also does in the background. A step deletes a
// limited number of messages. It deletes no message that a group needs. more reports that another
// call has more to trim.
func (e *Engine) Trim(ctx context.Context, topic duly.QueueRef) (more bool, err error) {
	topic, err = e.beginTopic(topic)
	if err != nil {
		return false, err
	}
	defer e.calls.Done()
	r := request{method: "POST", path: e.topicPath(topic) + "/trim"}
	return change(ctx, e, r, wire.TrimmedForm.ReadAnswer)
}

// Groups implements contract.TopicOperator.
func (e *Engine) Groups(ctx context.Context, topic duly.QueueRef, p duly.PageParams) (duly.NamePage, error) {
	topic, err := e.beginTopic(topic)
	if err != nil {
		return duly.NamePage{}, err
	}
	defer e.calls.Done()
	return e.link.names(ctx, e.topicPath(topic)+"/groups", "groups", p)
}

// CreateGroup implements contract.TopicOperator. It is safe to repeat: after a lost answer, existed is
// true.
func (e *Engine) CreateGroup(ctx context.Context, group duly.QueueRef, from duly.From) (existed bool, err error) {
	path, err := e.beginGroup(group)
	if err != nil {
		return false, err
	}
	defer e.calls.Done()
	r := request{method: "PUT", path: path, body: wire.FromForm.Append(nil, from)}
	return change(ctx, e, r, wire.GroupCreatedForm.ReadAnswer)
}

// Seek implements contract.TopicOperator.
func (e *Engine) Seek(ctx context.Context, group duly.QueueRef, to duly.From) (contract.SeekResult, error) {
	if to == "" {
		to = duly.FromStart
	}
	path, err := e.beginGroup(group)
	if err != nil {
		return contract.SeekResult{}, err
	}
	defer e.calls.Done()
	r := request{method: "POST", path: path + "/seek", body: wire.FromForm.Append(nil, to)}
	return change(ctx, e, r, wire.SeekedForm.ReadAnswer)
}
