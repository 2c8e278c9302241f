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

// publishers has the batchers of the topics with calls in flight. A request carries
// messages of one topic, which its path names.
type publishers struct {
	mu  sync.Mutex
	all map[string]*publisher // by the topic's name
}

type publisher struct {
	batcher[duly.PublishResult]
	users int // calls in flight
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
	p.users++

	return p, func() {
		e.publishers.mu.Lock()
		defer e.publishers.mu.Unlock()
		if p.users--; p.users == 0 {
			delete(e.publishers.all, topic)
		}
	}
}

// Publish implements contract.Topics. It is sent once: without [duly.TopicConfig.Dedupe]
// a message whose answer was lost may be in the log, and another try would add it
// again. Messages of several topics are several requests, one after the other.
func (e *Engine) Publish(ctx context.Context, messages []duly.Message) ([]duly.PublishResult, error) {
	if err := e.enter(""); err != nil {
		return nil, err
	}
	defer e.calls.Done()
	if err := contract.CheckBatch(len(messages), contract.MessageBytes(messages)); err != nil {
		return nil, err
	}
	return each(messages, e.judgeMessage, func(messages []duly.Message) ([]duly.PublishResult, error) {
		return e.publish(ctx, messages)
	}, refusedMessage)
}

func refusedMessage(m *duly.Message, err error) duly.PublishResult {
	return duly.PublishResult{ID: m.ID, Err: err}
}

// judgeMessage returns an error for a message that cannot be sent: of another namespace,
// of a topic that no path can name, or with a text or time that the wire cannot carry.
func (e *Engine) judgeMessage(m *duly.Message) error {
	if m.Namespace != "" && m.Namespace != e.link.namespace {
		return e.foreign(m.Namespace)
	}
	topic := duly.QueueRef{Namespace: m.Namespace, Name: m.Topic}
	if contract.ValidateTopic(topic) == nil && !m.Due.After(duly.MaxTime) && carried(m.Headers, m.ID, m.Key) {
		return nil
	}
	return contract.ValidateMessage(m, duly.MaxMaxBody)
}

// publish sends the messages of each topic together, in the order of the topics'
// first messages. A failure of the first request is that of the call, because
// nothing else was sent.
func (e *Engine) publish(ctx context.Context, messages []duly.Message) ([]duly.PublishResult, error) {
	var topics []string
	places := map[string][]int{}
	for i := range messages {
		name := messages[i].Topic
		if places[name] == nil {
			topics = append(topics, name)
		}
		places[name] = append(places[name], i)
	}
	if len(topics) == 1 {
		return e.publishTo(ctx, topics[0], messages)
	}

	results := make([]duly.PublishResult, len(messages))
	for k, topic := range topics {
		some := make([]duly.Message, len(places[topic]))
		for n, i := range places[topic] {
			some[n] = messages[i]
		}
		answers, err := e.publishTo(ctx, topic, some)
		if err != nil && k == 0 {
			return nil, err
		}
		for n, i := range places[topic] {
			if err != nil {
				results[i] = refusedMessage(&messages[i], partly(err))
			} else {
				results[i] = answers[n]
			}
		}
	}
	return results, nil
}

func (e *Engine) publishTo(ctx context.Context, topic string, messages []duly.Message) ([]duly.PublishResult, error) {
	p, done := e.publisherOf(topic)
	defer done()
	results, err := p.do(ctx, wire.AppendPublish(nil, messages), len(messages), contract.MessageBytes(messages))
	if errors.Is(err, duly.ErrTooLarge) {
		return halves(messages, err, func(messages []duly.Message) ([]duly.PublishResult, error) {
			return e.publishTo(ctx, topic, messages)
		}, refusedMessage)
	}
	return results, err
}

// enterTopic is enter for a call about one topic. It returns the topic with its
// namespace filled in, which positions depend on.
func (e *Engine) enterTopic(topic duly.QueueRef) (duly.QueueRef, error) {
	if err := e.enter(topic.Namespace); err != nil {
		return topic, err
	}
	if err := contract.ValidateTopic(topic); err != nil {
		e.calls.Done()
		return topic, err
	}
	topic.Namespace = e.link.namespace
	return topic, nil
}

// enterGroup is enterTopic for a call about one group. It returns the path of it.
func (e *Engine) enterGroup(group duly.QueueRef) (path string, err error) {
	if err := e.enter(group.Namespace); err != nil {
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

// Read implements contract.Topics. Like Wait, it asks in slices of [Config.Poll].
func (e *Engine) Read(ctx context.Context, topic duly.QueueRef, p contract.ReadParams) (contract.ReadPage, error) {
	topic, err := e.enterTopic(topic)
	if err != nil {
		return contract.ReadPage{}, err
	}
	defer e.calls.Done()
	if err := p.Validate(topic); err != nil {
		return contract.ReadPage{}, err
	}

	page := contract.ReadPage{}
	err = e.whileOpen(ctx, func(open context.Context) error {
		return e.inSlices(open, p.Wait, func(slice time.Duration) (bool, error) {
			p.Wait = slice
			next, err := e.readOnce(open, topic, p)
			if err != nil {
				return false, err
			}
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
	text, err := e.link.call(ctx, request{method: "GET", path: e.topicPath(topic) + "/messages", query: query,
		most: mostJobs, hold: p.Wait})
	if err != nil {
		return contract.ReadPage{}, err
	}
	return answer(e.link, text, func(text string) (contract.ReadPage, error) { return wire.ReadEntries(text, topic) })
}

// Delayed implements contract.Topics.
func (e *Engine) Delayed(ctx context.Context, topic duly.QueueRef, p contract.DelayedParams) (contract.DelayedPage, error) {
	topic, err := e.enterTopic(topic)
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

	text, err := e.link.call(ctx, request{method: "GET", path: e.topicPath(topic) + "/delayed", query: query,
		most: mostJobs})
	if err != nil {
		return contract.DelayedPage{}, err
	}
	return answer(e.link, text, func(text string) (contract.DelayedPage, error) { return wire.ReadDelayed(text, topic) })
}

// DelayedMessage implements contract.Topics.
func (e *Engine) DelayedMessage(ctx context.Context, topic duly.QueueRef, key, id string) (duly.Message, error) {
	r, topic, err := e.enterDelayed(topic, key, id)
	if err != nil {
		return duly.Message{}, err
	}
	defer e.calls.Done()
	r.method, r.most = "GET", mostJobs
	text, err := e.link.call(ctx, r)
	if err != nil {
		return duly.Message{}, err
	}
	return answer(e.link, text, func(text string) (duly.Message, error) { return wire.ReadDelayedMessage(text, topic) })
}

// CancelDelayed implements contract.Topics.
func (e *Engine) CancelDelayed(ctx context.Context, topic duly.QueueRef, key, id string) error {
	r, _, err := e.enterDelayed(topic, key, id)
	if err != nil {
		return err
	}
	defer e.calls.Done()
	r.method = "DELETE"
	_, err = e.change(ctx, r)
	return err
}

// enterDelayed is enterTopic for a call about one delayed message. It returns the
// request without its method.
func (e *Engine) enterDelayed(topic duly.QueueRef, key, id string) (request, duly.QueueRef, error) {
	topic, err := e.enterTopic(topic)
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
	if err := e.enter(namespace); err != nil {
		return duly.NamePage{}, err
	}
	defer e.calls.Done()
	return e.link.names(ctx, e.base+"/topics", "topics", p)
}

// Topic implements contract.TopicOperator.
func (e *Engine) Topic(ctx context.Context, topic duly.QueueRef) (duly.TopicInfo, error) {
	topic, err := e.enterTopic(topic)
	if err != nil {
		return duly.TopicInfo{}, err
	}
	defer e.calls.Done()
	text, err := e.link.call(ctx, request{method: "GET", path: e.topicPath(topic)})
	if err != nil {
		return duly.TopicInfo{}, err
	}
	t, err := answer(e.link, text, wire.TopicForm.ReadAnswer)
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

// onTopic makes a request about a topic that has no answer.
func (e *Engine) onTopic(ctx context.Context, topic duly.QueueRef, r request) error {
	topic, err := e.enterTopic(topic)
	if err != nil {
		return err
	}
	defer e.calls.Done()
	r.path = e.topicPath(topic)
	_, err = e.change(ctx, r)
	return err
}

// Trim makes one bounded step of a topic, as the server does by itself. It deletes no
// message that a group needs. more reports that another call has more to trim.
func (e *Engine) Trim(ctx context.Context, topic duly.QueueRef) (more bool, err error) {
	topic, err = e.enterTopic(topic)
	if err != nil {
		return false, err
	}
	defer e.calls.Done()
	text, err := e.change(ctx, request{method: "POST", path: e.topicPath(topic) + "/trim"})
	if err != nil {
		return false, err
	}
	return answer(e.link, text, wire.TrimmedForm.ReadAnswer)
}

// Groups implements contract.TopicOperator.
func (e *Engine) Groups(ctx context.Context, topic duly.QueueRef, p duly.PageParams) (duly.NamePage, error) {
	topic, err := e.enterTopic(topic)
	if err != nil {
		return duly.NamePage{}, err
	}
	defer e.calls.Done()
	return e.link.names(ctx, e.topicPath(topic)+"/groups", "groups", p)
}

// CreateGroup implements contract.TopicOperator. It is safe to repeat: a group that was
// made by a call whose answer was lost has existed then.
func (e *Engine) CreateGroup(ctx context.Context, group duly.QueueRef, from duly.From) (existed bool, err error) {
	text, err := e.onGroup(ctx, group, "PUT", "", from)
	if err != nil {
		return false, err
	}
	return answer(e.link, text, wire.GroupCreatedForm.ReadAnswer)
}

// Seek implements contract.TopicOperator.
func (e *Engine) Seek(ctx context.Context, group duly.QueueRef, to duly.From) (contract.SeekResult, error) {
	if to == "" {
		to = duly.FromStart
	}
	text, err := e.onGroup(ctx, group, "POST", "/seek", to)
	if err != nil {
		return contract.SeekResult{}, err
	}
	return answer(e.link, text, wire.SeekedForm.ReadAnswer)
}

func (e *Engine) onGroup(ctx context.Context, group duly.QueueRef, method, path string, from duly.From) (string, error) {
	base, err := e.enterGroup(group)
	if err != nil {
		return "", err
	}
	defer e.calls.Done()
	return e.change(ctx, request{method: method, path: base + path, body: wire.FromForm.Append(nil, from)})
}
