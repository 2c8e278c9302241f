package native

import (
	"context"
	"net/http"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/wire"
	"github.com/dulymq/duly/server/auth"
	"github.com/dulymq/duly/server/poll"
	"github.com/dulymq/duly/server/route"
)

// topicHandler serves a route of a topic.
type topicHandler func(c *route.Call, topics contract.Topics, topic duly.QueueRef) error

// onTopic returns a handler for the topic that the path names. An engine without
// topics is unsupported.
func (a *API) onTopic(h topicHandler) route.Handler {
	return func(c *route.Call) error {
		// The routes exist for every engine, so that the error names the reason.
		if a.cfg.Topics == nil {
			return contract.Errorf(duly.CodeUnsupported,
				"the engine of this server has no topics; use a queue, or a server whose engine has topics")
		}
		return h(c, a.cfg.Topics, duly.QueueRef{Namespace: c.Namespace, Name: c.PathValue("topic")})
	}
}

// group returns the group of a topic that the path names.
func group(c *route.Call, topic duly.QueueRef) duly.QueueRef {
	return duly.QueueRef{Namespace: topic.Namespace, Name: duly.GroupName(topic.Name, c.PathValue("group"))}
}

func (a *API) publish(c *route.Call, topics contract.Topics, topic duly.QueueRef) error {
	text, err := c.Body()
	if err != nil {
		return err
	}
	messages, err := wire.ReadPublish(text, topic)
	if err != nil {
		return err
	}

	results, err := callWithGood(&messages, func(good []duly.Message) ([]duly.PublishResult, error) {
		return topics.Publish(c.Context(), good)
	}, func(err error) duly.PublishResult { return duly.PublishResult{Err: err} })
	if err != nil {
		return err
	}
	return c.Reply(http.StatusOK, wire.PublishedForm.Append(c.Out(), results))
}

func (a *API) read(c *route.Call, topics contract.Topics, topic duly.QueueRef) error {
	page, err := c.Page()
	if err != nil {
		return err
	}
	p := contract.ReadParams{From: duly.From(c.Query("from")), Limit: page.Limit}
	if text := c.Query("wait"); text != "" {
		if p.Wait, err = duly.ParseDuration(text); err != nil {
			return contract.Invalid("wait", "is not a duration; write it like 30s")
		}
	}
	// A call with a fault must not wait for a message first.
	if err := p.Validate(topic); err != nil {
		return err
	}

	read, err := a.readAndWait(c, topics, topic, p)
	if err != nil {
		return err
	}

	// The engine's page may be smaller or larger than the bound, so its real size counts now.
	bodies := 0
	for i := range read.Entries {
		bodies += len(read.Entries[i].Body)
	}
	size := wire.SizeOfEntries(read)
	if err := c.ReserveMemory(int64(bodies + size)); err != nil {
		return err
	}
	return c.Reply(http.StatusOK, wire.EntriesForm.Append(c.Room(size), read))
}

// readAndWait reads a page and waits for its first message. It first waits for a single message, so
// that a waiting call uses no memory for a page.
func (a *API) readAndWait(
	c *route.Call, topics contract.Topics, topic duly.QueueRef, p contract.ReadParams,
) (contract.ReadPage, error) {
	begin := a.cfg.Clock.Mono()
	wait := p.Wait
	var gap int64
	for {
		if err := c.ReserveMemory(a.poll.Bodies(p.Limit)); err != nil {
			return contract.ReadPage{}, err
		}
		// Waiting happens below, without memory.
		p.Wait = 0
		page, err := topics.Read(c.Context(), topic, p)
		if err != nil {
			return page, err
		}

		// A retention may delete messages between two reads. The caller gets the sum of all gaps.
		gap += page.Gap
		page.Gap = gap
		left := wait - (a.cfg.Clock.Mono() - begin)
		if len(page.Entries) > 0 || left <= 0 {
			return page, nil
		}

		c.ReleaseMemory()
		p.From = page.Next
		over, err := a.awaitMessage(c, topics, topic, p.From, left)
		if err != nil || over {
			return page, err
		}
	}
}

// awaitMessage waits until there is a message at a position, or until the wait time has passed.
// over reports whether the caller must not wait any longer.
func (a *API) awaitMessage(
	c *route.Call, topics contract.Topics, topic duly.QueueRef, from duly.From, left time.Duration,
) (over bool, err error) {
	a.cfg.Polling(1)
	defer a.cfg.Polling(-1)
	return poll.Until(c, func(ctx context.Context) error {
		// One message is enough to end the wait. Reading it needs no memory for a page.
		_, err := topics.Read(ctx, topic, contract.ReadParams{From: from, Limit: 1, Wait: left})
		return err
	})
}

func (a *API) delayed(c *route.Call, topics contract.Topics, topic duly.QueueRef) error {
	page, err := c.Page()
	if err != nil {
		return err
	}
	p := contract.DelayedParams{PageParams: page}
	if p.Bodies, err = boolParam(c, "bodies"); err != nil {
		return err
	}
	if p.Bodies { // reading bodies always needs this right
		if err := c.Require(auth.Consume); err != nil {
			return err
		}
	}
	// The engine holds the page in memory, so its bound is reserved before the call.
	if err := c.ReserveMemory(a.pageSize(duly.ListParams{PageParams: page, Bodies: p.Bodies})); err != nil {
		return err
	}

	list, err := topics.Delayed(c.Context(), topic, p)
	if err != nil {
		return err
	}

	bodies := 0
	for i := range list.Messages {
		bodies += len(list.Messages[i].Body)
	}
	size := wire.SizeOfDelayed(list, p.Bodies)
	if err := c.ReserveMemory(int64(bodies + size)); err != nil {
		return err
	}
	return c.Reply(http.StatusOK, wire.AppendDelayed(c.Room(size), list, p.Bodies))
}

func (a *API) delayedMessage(c *route.Call, topics contract.Topics, topic duly.QueueRef) error {
	if err := c.ReserveMemory(a.poll.Bodies(1)); err != nil {
		return err
	}
	m, err := topics.DelayedMessage(c.Context(), topic, c.Query("key"), c.PathValue("id"))
	if err != nil {
		return err
	}
	// A message is at most as large as a list with only this message.
	size := wire.SizeOfDelayed(contract.DelayedPage{Messages: []duly.Message{m}}, true)
	if err := c.ReserveMemory(int64(len(m.Body) + size)); err != nil {
		return err
	}
	return c.Reply(http.StatusOK, wire.DelayedMessageForm.Append(c.Room(size), m))
}

func (a *API) cancelDelayed(c *route.Call, topics contract.Topics, topic duly.QueueRef) error {
	if err := empty(c); err != nil {
		return err
	}
	if err := topics.CancelDelayed(c.Context(), topic, c.Query("key"), c.PathValue("id")); err != nil {
		return err
	}
	return c.Empty()
}

func (a *API) listTopics(c *route.Call, topics contract.Topics, _ duly.QueueRef) error {
	p, err := c.Page()
	if err != nil {
		return err
	}
	names, err := topics.Topics(c.Context(), c.Namespace, p)
	if err != nil {
		return err
	}
	return c.Reply(http.StatusOK, wire.AppendNames(c.Out(), "topics", names))
}

func (a *API) groups(c *route.Call, topics contract.Topics, topic duly.QueueRef) error {
	p, err := c.Page()
	if err != nil {
		return err
	}
	names, err := topics.Groups(c.Context(), topic, p)
	if err != nil {
		return err
	}
	return c.Reply(http.StatusOK, wire.AppendNames(c.Out(), "groups", names))
}

func (a *API) topic(c *route.Call, topics contract.Topics, topic duly.QueueRef) error {
	info, err := topics.Topic(c.Context(), topic)
	if err != nil {
		return err
	}
	return c.Reply(http.StatusOK, wire.TopicForm.Append(c.Out(), wire.Topic{Name: topic.Name, TopicInfo: info}))
}

func (a *API) configureTopic(c *route.Call, topics contract.Topics, topic duly.QueueRef) error {
	patch, err := route.Read(c, wire.TopicConfigForm.ReadRequest)
	if err != nil {
		return err
	}
	if err := topics.ConfigureTopic(c.Context(), topic, patch); err != nil {
		return err
	}
	return c.Empty()
}

func (a *API) destroyTopic(c *route.Call, topics contract.Topics, topic duly.QueueRef) error {
	if err := empty(c); err != nil {
		return err
	}
	if err := topics.DestroyTopic(c.Context(), topic); err != nil {
		return err
	}
	return c.Empty()
}

func (a *API) createGroup(c *route.Call, topics contract.Topics, topic duly.QueueRef) error {
	from, err := route.Read(c, wire.ReadFrom)
	if err != nil {
		return err
	}
	existed, err := topics.CreateGroup(c.Context(), group(c, topic), from)
	if err != nil {
		return err
	}
	return c.Reply(http.StatusOK, wire.GroupCreatedForm.Append(c.Out(), existed))
}

func (a *API) seek(c *route.Call, topics contract.Topics, topic duly.QueueRef) error {
	to, err := route.Read(c, wire.ReadFrom)
	if err != nil {
		return err
	}
	if to == "" { // without this check, a missing field would replay the whole log
		return contract.Invalid("from",
			"is missing, must be start, end, a time like 2026-01-31T08:00:00Z, or a position of the topic")
	}
	result, err := topics.Seek(c.Context(), group(c, topic), to)
	if err != nil {
		return err
	}
	return c.Reply(http.StatusOK, wire.SeekedForm.Append(c.Out(), result))
}

// trim makes one step of the topic, which deletes a limited number of messages.
func (a *API) trim(c *route.Call, topics contract.Topics, topic duly.QueueRef) error {
	if err := empty(c); err != nil {
		return err
	}
	if a.cfg.Stepper == nil {
		return contract.Errorf(duly.CodeUnsupported, "this server does not own its engine's storage, which trims topics by itself")
	}

	// Step does nothing if the topic is unknown, so a mistyped name must be noticed here.
	if _, err := topics.Topic(c.Context(), topic); err != nil {
		return err
	}
	more, err := a.cfg.Stepper.Step(c.Context(), topic)
	if err != nil {
		return err
	}
	return c.Reply(http.StatusOK, wire.TrimmedForm.Append(c.Out(), more))
}
