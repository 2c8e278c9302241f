package wire

import (
	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// fromDoc describes the values of a From, which names a place in a log.
const fromDoc = "start: the oldest stored message. end: the next message that enters. " +
	"A time: the first message from then on. A position: that message."

// message declares a message of a publish.
func (f *fields) message(m *duly.Message) {
	f.request("Message")
	f.sentBytes("body", &m.Body, always, bodyDoc, base64Doc)
	f.name("id", &m.ID, optional, idBounds, "The message's own ID. A topic with dedupe accepts it once. "+
		"A delayed message is found by its ID. Default: none, or a ULID for a delayed message.")
	f.name("key", &m.Key, optional, keyBounds,
		"Messages of one key go to one shard. Groups with order key handle them one at a time.")
	f.headers(&m.Headers, optional, maxHeaders, "Names and values that travel with the message. "+
		"Names become lower case. Bound: 64 headers, 8 KiB together.")
	f.schedule(&m.Delay, &m.Due, "The message enters the log this long after the server receives it. "+
		"Not together with due. Default: 0s.",
		"The message enters the log at this time. A time in the past means now.")
}

func (f *fields) publish(messages *Items[duly.Message]) {
	f.request("Publish")
	items(f, "messages", messages, "The messages to append.", (*fields).message)
}

// AppendPublish writes the request of a publish. The path names the topic of the messages.
func AppendPublish(dst []byte, messages []duly.Message) []byte {
	return PublishForm.Append(dst, Items[duly.Message]{Values: messages})
}

// ReadPublish reads the request of a publish. The error of a bad message names every bad
// field.
func ReadPublish(text string, topic duly.QueueRef) (messages Items[duly.Message], err error) {
	messages, err = PublishForm.ReadRequest(text)

	// The topic is set before the validation, because the validation includes it.
	setTopic(messages.Values, topic)
	messages.validate(func(m *duly.Message) error { return contract.ValidateMessage(m, duly.MaxMaxBody) })
	return messages, messages.given("messages", err)
}

// setTopic sets the messages' namespace and topic, which are in the path of a request.
func setTopic(messages []duly.Message, topic duly.QueueRef) {
	for i := range messages {
		messages[i].Namespace, messages[i].Topic = topic.Namespace, topic.Name
	}
}

func (f *fields) published(results *[]duly.PublishResult) {
	f.answer("Published")
	list(f, "results", results, required, "One result per message, in order.", (*fields).publishResult)
}

func (f *fields) publishResult(p *duly.PublishResult) {
	f.answer("PublishResult")
	enum(f, "outcome", &p.Status, optional, `enum:"created,exists"`,
		"created stored the message. exists: the topic has seen its ID within dedupe.")
	f.position("position", &p.Position, optional,
		"The place in the log; absent for a message that is still delayed.")
	f.text("id", &p.ID, optional, "",
		"The message's own ID, or the ID that the engine made for a delayed message.")
	f.error(&p.Err, "Instead of an outcome: the error of this message alone.")
}

// position declares a place in a log. A writer omits the zero position.
func (f *fields) position(name string, v *duly.Position, p presence, doc string) {
	switch f.task {
	case writing:
		// The zero value means that there is no position, as for a delayed message.
		if *v != (duly.Position{}) {
			f.write(name)
			f.dst = appendString(f.dst, v.String())
		}
	case reading:
		if f.at(name) {
			*v = f.r.position(name)
			f.next()
		}
	default:
		f.describe(name, Text, p, "", doc)
	}
}

func (r *reader) position(field string) duly.Position {
	if r.null() {
		return duly.Position{}
	}
	p, ok := duly.ParseNumber(r.string(field))
	if !ok {
		r.bad(field, "is not a position")
	}
	return p
}

// storedMessage has the fields that messages in the log and delayed messages share.
func (f *fields) storedMessage(m *duly.Message) {
	f.text("key", &m.Key, optional, "", "The message's key.")
	f.headers(&m.Headers, optional, "", "The message's headers, names in lower case.")
}

func (f *fields) entry(e *contract.Entry) {
	f.answer("Entry")
	f.position("position", &e.Position, required, "The place in the log.")
	f.time("entered_at", &e.EnteredAt, required, "When the message entered the log.")
	f.text("id", &e.ID, optional, "", "The message's own ID.")
	f.storedMessage(&e.Message)
	f.storedBody(&e.Body, true)
}

func (f *fields) entries(p *contract.ReadPage) {
	f.answer("Entries")
	list(f, "messages", &p.Entries, required, "The messages of this page: each shard in order, "+
		"merged by position as far as they were read.", (*fields).entry)
	f.text("next", (*string)(&p.Next), required, "", "Where to continue: pass it as from. It is never empty.")
	f.integer("gap", &p.Gap, "The number of messages between from and the oldest stored message that are gone.")
}

// ReadEntries reads a page of a log.
func ReadEntries(text string, topic duly.QueueRef) (p contract.ReadPage, err error) {
	p, err = EntriesForm.ReadAnswer(text)
	for i := range p.Entries {
		p.Entries[i].Namespace, p.Entries[i].Topic = topic.Namespace, topic.Name
	}
	return p, err
}

// delayedMessage declares a delayed message, with its body if body is set.
func (f *fields) delayedMessage(m *duly.Message, body bool) {
	f.answer("DelayedMessage")
	f.text("id", &m.ID, required, "", "The message's own ID, or the ID that the engine made.")
	f.storedMessage(m)
	f.time("due", &m.Due, required, "When the message enters the log.")
	f.storedBody(&m.Body, body)
}

func (f *fields) delayed(p *contract.DelayedPage, bodies bool) {
	f.answer("Delayed")
	list(f, "messages", &p.Messages, required,
		"The messages of this page, by due time. They have bodies only with bodies=true.",
		func(f *fields, m *duly.Message) { f.delayedMessage(m, bodies) })
	f.cursor(&p.Next)
}

// AppendDelayed writes a page of delayed messages, with their bodies if bodies is set.
func AppendDelayed(dst []byte, p contract.DelayedPage, bodies bool) []byte {
	f := writer(dst)
	f.delayed(&p, bodies)
	return f.end()
}

// ReadDelayed reads a page of delayed messages. The bodies are nil if the answer has none.
func ReadDelayed(text string, topic duly.QueueRef) (p contract.DelayedPage, err error) {
	p, err = DelayedForm.ReadAnswer(text)
	setTopic(p.Messages, topic)
	return p, err
}

// ReadDelayedMessage reads one delayed message.
func ReadDelayedMessage(text string, topic duly.QueueRef) (m duly.Message, err error) {
	m, err = DelayedMessageForm.ReadAnswer(text)
	m.Namespace, m.Topic = topic.Namespace, topic.Name
	return m, err
}

// from declares the place in the log where a new group starts.
func (f *fields) from(from *duly.From) {
	f.request("From")
	f.name("from", (*string)(from), optional, "", fromDoc+" Default: start.")
}

// seek declares the position in the log that a group moves to.
func (f *fields) seek(from *duly.From) {
	f.request("Seek")
	f.name("from", (*string)(from), required, "", fromDoc)
}

// ReadFrom reads the request that creates or moves a group.
func ReadFrom(text string) (from duly.From, err error) {
	// The body may be empty. In that case the group starts at the default place.
	if text == "" {
		return from, nil
	}
	return FromForm.ReadRequest(text)
}

func (f *fields) groupCreated(existed *bool) {
	f.answer("GroupCreated")
	// The field has one of two words, but the value is a bool.
	outcome := duly.Created
	if *existed {
		outcome = duly.Exists
	}
	enum(f, "outcome", &outcome, required, `enum:"created,exists"`,
		"exists: the group existed, and nothing has changed.")
	if f.task == reading {
		*existed = outcome == duly.Exists
	}
}

func (f *fields) seeked(s *contract.SeekResult) {
	f.answer("Seeked")
	f.bool("clipped", &s.Clipped, required, "Whether the place is before the oldest stored message of some shard. "+
		"The group continues at that message there.")
	f.integer("skipped", &s.Skipped, "How many messages the cursors passed over, forward.")
	f.integer("replayed", &s.Replayed, "How many messages the cursors passed over, back.")
}

func (f *fields) trimmed(more *bool) {
	f.answer("Trimmed")
	f.bool("more", more, required, "Whether the step ended at its bound and there is more to trim.")
}
