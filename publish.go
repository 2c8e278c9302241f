package duly

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// Publish publishes one message. See [Client.PublishMany].
func (c *Client) Publish(ctx context.Context, m Message) (PublishResult, error) {
	results, err := c.PublishMany(ctx, []Message{m})
	if err != nil {
		return PublishResult{}, err
	}
	return results[0], results[0].Err
}

// PublishMany publishes up to [MaxBatch] messages in one call. It returns a result for each, in
// order. In topics with [TopicConfig.Dedupe] it fills in missing IDs, and it repeats messages whose
// answer was lost, like Push. It sends any other message once: the log may already have the
// message, and a repeat would add it twice. The returned error applies to the whole call, for
// example [ErrUnsupported] if the engine has no topics.
func (c *Client) PublishMany(ctx context.Context, messages []Message) ([]PublishResult, error) {
	topics, ok := c.engine.(publisher)
	if !ok {
		return nil, &Error{Code: CodeUnsupported, Message: "this engine has no topics; use SQLite, Redis, or a server on one of them"}
	}
	for i := range messages {
		if messages[i].Namespace == "" {
			messages[i].Namespace = c.cfg.Namespace
		}
	}

	// Only where the topic compares IDs can a repeat be recognized.
	windows, err := c.windows(ctx, topics, messages)
	if err != nil {
		return nil, err
	}
	for i := range messages {
		if m := &messages[i]; m.ID == "" && windows[m.ref()] > 0 {
			m.ID = NewNumber().String()
		}
	}

	// The window counts from the first try, which may have stored the IDs.
	begin := c.cfg.Clock.Mono()
	results, err := topics.Publish(ctx, messages)
	pause := c.cfg.Pause
	for range c.cfg.Repeats {
		again := lostMessages(results, err, len(messages))
		if len(again) == 0 || sleep(ctx, c.cfg.Clock, pause) != nil {
			break
		}
		pause *= 2

		// After the pause it may be too late to repeat some of the messages.
		again = c.safeToRepeat(ctx, topics, messages, again, c.cfg.Clock.Mono()-begin)
		if len(again) == 0 || err != nil && len(again) < len(messages) {
			break
		}

		if err != nil {
			results, err = topics.Publish(ctx, messages)
		} else {
			publishSome(ctx, topics, messages, results, again)
		}
	}
	return results, err
}

// lostMessages returns the indexes of the messages whose answers were lost.
func lostMessages(results []PublishResult, err error, n int) (indexes []int) {
	for i := range n {
		if worthRepeat(err) || err == nil && worthRepeat(results[i].Err) {
			indexes = append(indexes, i)
		}
	}
	return indexes
}

// safeToRepeat returns the indexes of the messages that are safe to repeat: because the topic still
// compares IDs and remembers those of the first try, which began `since` ago. Half of the window is
// reserved for the repeat to arrive.
func (c *Client) safeToRepeat(
	ctx context.Context, topics publisher, messages []Message, indexes []int, since time.Duration,
) []int {
	// The cached window may be older than a change of the topic.
	for _, i := range indexes {
		c.dedupe.forget(messages[i].ref())
	}
	windows, err := c.windows(ctx, topics, messages)
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(indexes, func(i int) bool { return since >= windows[messages[i].ref()]/2 })
}

// publishSome publishes the messages at the given indexes again, and stores their results.
func publishSome(ctx context.Context, topics publisher, messages []Message, results []PublishResult, indexes []int) {
	some := make([]Message, len(indexes))
	for k, i := range indexes {
		some[k] = messages[i]
	}

	again, err := topics.Publish(ctx, some)
	for k, i := range indexes {
		if err != nil {
			results[i].Err = err
			continue
		}
		results[i] = again[k]
	}
}

// publisher is implemented by engines that have topics.
type publisher interface {
	Publish(ctx context.Context, messages []Message) ([]PublishResult, error)
	Topic(ctx context.Context, topic QueueRef) (TopicInfo, error)
}

func (m *Message) ref() QueueRef { return QueueRef{m.Namespace, m.Topic} }

// windows returns the dedupe windows of the messages' topics. The window is 0 for a topic
// without Dedupe, and for a topic that does not exist yet.
func (c *Client) windows(ctx context.Context, topics publisher, messages []Message) (map[QueueRef]time.Duration, error) {
	windows := map[QueueRef]time.Duration{}
	for i := range messages {
		ref := messages[i].ref()
		if _, known := windows[ref]; known {
			continue
		}
		window, err := c.dedupe.of(ctx, topics, ref, c.cfg.Clock)
		if err != nil {
			return nil, err
		}
		windows[ref] = window
	}
	return windows, nil
}

// windowAge is how long a Client caches a topic's Dedupe. A Client notices a new Dedupe
// after at most this time.
const windowAge = time.Minute

// windowCache remembers the Dedupe of topics.
type windowCache struct {
	mu    sync.Mutex
	known map[QueueRef]window
}

// window is the Dedupe of a topic, read at the monotonic time at.
type window struct {
	length, at time.Duration
}

// forget removes a topic, so that the next call of of asks the engine.
func (w *windowCache) forget(topic QueueRef) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.known, topic)
}

// of returns the dedupe window of a topic.
func (w *windowCache) of(ctx context.Context, topics publisher, topic QueueRef, c Clock) (time.Duration, error) {
	w.mu.Lock()
	known, ok := w.known[topic]
	w.mu.Unlock()
	now := c.Mono()
	if ok && now-known.at < windowAge {
		return known.length, nil
	}

	info, err := topics.Topic(ctx, topic)
	switch {
	case errors.Is(err, ErrNotFound) || errors.Is(err, ErrConflict) || errors.Is(err, ErrInvalid):
		// Publish makes the topic, or returns the error.
		return 0, nil
	case err != nil:
		return 0, err
	}

	w.mu.Lock()
	defer w.mu.Unlock()
	// Programs publish to a few topics. Dropping everything only bounds the memory.
	if w.known == nil || len(w.known) >= MaxBatch {
		w.known = map[QueueRef]window{}
	}
	w.known[topic] = window{max(0, info.Config.Dedupe), now}
	return w.known[topic].length, nil
}
