package duly_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
)

// topicMethods is embedded: contract.Topics would hide its own method Topics.
type topicMethods = contract.Topics

// publishes is an engine that records the published messages, and loses its first answers.
type publishes struct {
	contract.Engine
	topicMethods
	dedupe  map[string]time.Duration // dedupe windows by topic; a missing topic does not exist
	calls   [][]duly.Message
	lost    int              // number of calls at the beginning that end as unavailable
	lostOne map[string]error // errors of single messages in the first call, by body
	looks   int
	took    time.Duration // duration of a call whose answer is lost
}

func (p *publishes) Topic(_ context.Context, topic duly.QueueRef) (duly.TopicInfo, error) {
	p.looks++
	window, ok := p.dedupe[topic.Name]
	if !ok {
		return duly.TopicInfo{}, contract.NoTopic(topic)
	}
	return duly.TopicInfo{Config: duly.TopicConfig{Dedupe: window}}, nil
}

func (p *publishes) Publish(ctx context.Context, messages []duly.Message) ([]duly.PublishResult, error) {
	p.calls = append(p.calls, slices.Clone(messages))
	if len(p.calls) <= p.lost {
		_ = clock.Sleep(ctx, clock.System(), p.took)
		return nil, contract.Errorf(duly.CodeUnavailable, "the answer was lost")
	}
	results := make([]duly.PublishResult, len(messages))
	for i, m := range messages {
		results[i] = duly.PublishResult{Status: duly.Created, ID: m.ID}
		if err := p.lostOne[string(m.Body)]; err != nil && len(p.calls) == 1 {
			results[i] = duly.PublishResult{Err: err}
		}
	}
	return results, nil
}

// C12.62: a message of a topic with dedupe has an ID before the first try. A message of a topic
// without dedupe has no ID.
func TestClientMakesIDsOfMessages(t *testing.T) {
	t.Parallel()
	e := &publishes{dedupe: map[string]time.Duration{"once": time.Hour, "plain": duly.None}}
	c := duly.NewClient(e, duly.ClientConfig{})
	if _, err := c.PublishMany(t.Context(), []duly.Message{{Topic: "once"}, {Topic: "once", ID: "own"},
		{Topic: "plain"}, {Topic: "new"}, {Topic: "once"}}); err != nil {
		t.Fatal(err)
	}
	sent := e.calls[0]
	for _, i := range []int{0, 4} {
		if _, ok := duly.ParseNumber(sent[i].ID); !ok {
			t.Errorf("message %d was sent with the ID %q", i, sent[i].ID)
		}
	}
	if sent[0].ID == sent[4].ID || sent[1].ID != "own" || sent[2].ID != "" || sent[3].ID != "" {
		t.Errorf("sent %+v", sent)
	}
	if sent[0].Namespace != duly.DefaultNamespace {
		t.Errorf("sent to the namespace %q", sent[0].Namespace)
	}
}

// C12.64: without dedupe a message is never sent again.
func TestClientSendsAMessageOnceWithoutDedupe(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		for _, topic := range []string{"plain", "new"} {
			e := &publishes{dedupe: map[string]time.Duration{"plain": duly.None}, lost: 1}
			_, err := duly.NewClient(e, duly.ClientConfig{}).Publish(t.Context(), duly.Message{Topic: topic, ID: "own"})
			if !errors.Is(err, duly.ErrUnavailable) || len(e.calls) != 1 {
				t.Errorf("%s: %v after %d calls", topic, err, len(e.calls))
			}
		}
	})
}

// C12.56, C12.62: with dedupe the client repeats a publish after a lost answer, with the same IDs.
func TestClientRepeatsAPublishWithDedupe(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		e := &publishes{dedupe: map[string]time.Duration{"once": time.Minute}, lost: 3}
		result, err := duly.NewClient(e, duly.ClientConfig{}).Publish(t.Context(),
			duly.Message{Topic: "once", Body: []byte("x")})
		if err != nil || result.Status != duly.Created || len(e.calls) != 4 {
			t.Fatalf("%+v, %v after %d calls", result, err, len(e.calls))
		}
		for _, call := range e.calls {
			if call[0].ID != e.calls[0][0].ID || call[0].ID == "" {
				t.Errorf("sent under %q and %q", e.calls[0][0].ID, call[0].ID)
			}
		}
	})
}

// The client repeats only the messages of topics with dedupe.
func TestClientRepeatsSingleMessages(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		gone := contract.Errorf(duly.CodeUnavailable, "a shard did not answer")
		e := &publishes{dedupe: map[string]time.Duration{"once": time.Minute, "plain": duly.None},
			lostOne: map[string]error{"a": gone, "b": gone, "d": contract.Invalid("key", "is bad")}}
		results, err := duly.NewClient(e, duly.ClientConfig{}).PublishMany(t.Context(), []duly.Message{
			{Topic: "once", Body: []byte("a")}, {Topic: "plain", Body: []byte("b")},
			{Topic: "once", Body: []byte("c")}, {Topic: "once", Body: []byte("d")}})
		if err != nil || len(e.calls) != 2 || len(e.calls[1]) != 1 || string(e.calls[1][0].Body) != "a" {
			t.Fatalf("%v, sent %+v", err, e.calls)
		}
		for i, want := range []error{nil, duly.ErrUnavailable, nil, duly.ErrInvalid} {
			if !errors.Is(results[i].Err, want) {
				t.Errorf("message %d: %v, want %v", i, results[i].Err, want)
			}
		}
	})
}

// The client sends no repeat that may arrive after the dedupe window, and no repeat after dedupe
// was removed.
func TestClientDoesNotRepeatBeyondTheWindow(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		late := &publishes{dedupe: map[string]time.Duration{"once": 10 * time.Second}, lost: 1, took: 5 * time.Second}
		_, err := duly.NewClient(late, duly.ClientConfig{}).Publish(t.Context(), duly.Message{Topic: "once"})
		if !errors.Is(err, duly.ErrUnavailable) || len(late.calls) != 1 {
			t.Errorf("half of the window has passed: %v after %d calls", err, len(late.calls))
		}

		off := &publishes{dedupe: map[string]time.Duration{"once": time.Hour}}
		c := duly.NewClient(off, duly.ClientConfig{})
		for range 10 {
			if _, err := c.Publish(t.Context(), duly.Message{Topic: "once"}); err != nil {
				t.Fatal(err)
			}
		}
		if off.looks != 1 {
			t.Errorf("the topic was looked at %d times", off.looks)
		}
		off.dedupe["once"], off.lost = duly.None, len(off.calls)+1
		_, err = c.Publish(t.Context(), duly.Message{Topic: "once"})
		if !errors.Is(err, duly.ErrUnavailable) || len(off.calls) != 11 {
			t.Errorf("dedupe was taken away: %v after %d calls", err, len(off.calls))
		}
	})
}

func TestClientWithoutTopics(t *testing.T) {
	t.Parallel()
	if _, err := duly.NewClient(&pushes{}, duly.ClientConfig{}).Publish(t.Context(),
		duly.Message{Topic: "t"}); !errors.Is(err, duly.ErrUnsupported) {
		t.Errorf("%v", err)
	}
}
