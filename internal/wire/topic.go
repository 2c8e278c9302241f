package wire

import (
	"github.com/dulymq/duly"
)

// ReadPublish reads the request of a publish to a topic. Like ReadPush, it validates a
// message with a fault completely, so that its error names every bad field.
func ReadPublish(text string, topic duly.QueueRef, mode Mode) (messages Items[duly.Message], err error) {
	given := false
	err = parse(text, mode, func(r *reader) {
		for key := range r.object {
			if key != "messages" {
				r.unknown(key)
				continue
			}
			given = true
			readItems(r, key, &messages, func(m *duly.Message) {
				m.Namespace, m.Topic = topic.Namespace, topic.Name
				r.published(m)
			})
		}
	})
	if err == nil && !given {
		err = missing("messages")
	}

	for i, fault := range messages.Errs {
		if fault != nil {
			messages.Errs[i] = withFaults(fault, messages.Values[i].Validate(duly.MaxMaxBody))
		}
	}
	return messages, err
}

// published reads a message of a publish.
func (r *reader) published(m *duly.Message) {
	var delayed bool
	for key := range r.object {
		switch key {
		case "delay":
			m.Delay, delayed = r.duration(key)
		case "due":
			m.Due = r.time(key)
		default:
			if !r.messageField(m, key) {
				r.unknown(key)
			}
		}
	}
	r.oneSchedule(delayed && m.Delay == 0, m.Due)
}

// messageField reads one field of a message, or leaves the key.
func (r *reader) messageField(m *duly.Message, key string) (known bool) {
	switch key {
	case "id":
		m.ID = r.name(key)
	case "key":
		m.Key = r.name(key)
	case "body", "body_base64":
		m.Body = r.either("body", key, m.Body)
	case "headers":
		m.Headers = r.headers()
	default:
		return false
	}

	return true
}

// message writes the fields that every form of a message has.
func (o *object) message(m *duly.Message) {
	o.text("id", m.ID)
	o.text("key", m.Key)
	if len(m.Headers) > 0 {
		o.headers("headers", m.Headers)
	}
}

// AppendPublish writes the request of a publish. The messages are of one topic,
// which the path names.
func AppendPublish(dst []byte, messages []duly.Message) []byte {
	o := begin(dst)
	list(&o, "messages", messages, func(dst []byte, m *duly.Message) []byte {
		o := begin(dst)
		o.sent("body", m.Body)
		o.message(m)
		if m.Delay != 0 {
			o.duration("delay", m.Delay)
		}
		o.due(m.Due)
		return o.end()
	})
	return o.end()
}

// AppendPublishResults writes the answer to a publish.
func AppendPublishResults(dst []byte, results []duly.PublishResult) []byte {
	o := begin(dst)
	list(&o, "results", results, func(dst []byte, p *duly.PublishResult) []byte {
		o := begin(dst)
		if p.Err == nil {
			o.string("outcome", p.Outcome.String())
		}
		o.position("position", p.Position)
		o.text("id", p.ID)
		if p.Err != nil {
			o.error(p.Err)
		}
		return o.end()
	})
	return o.end()
}

// ReadPublishResults reads the answer to a publish.
func ReadPublishResults(text string) (results []duly.PublishResult, err error) {
	err = readResults(text, func(r *reader) {
		var p duly.PublishResult
		for key := range r.object {
			switch key {
			case "outcome":
				unmarshal(r, key, &p.Outcome)
			case "position":
				p.Position = r.position(key)
			case "id":
				p.ID = r.string(key)
			case "error":
				p.Err = r.errorValue()
			default:
				r.unknown(key)
			}
		}
		results = append(results, p)
	})

	return results, err
}

// position writes a position unless it is zero.
func (o *object) position(name string, p duly.Position) {
	if p != (duly.Position{}) {
		o.string(name, p.String())
	}
}

func (r *reader) position(field string) duly.Position {
	if r.null() {
		return duly.Position{}
	}
	text := r.string(field)
	p, ok := duly.ParseNumber(text)
	if !ok {
		r.bad(field, "is not a position")
	}
	return p
}

// AppendEntries writes a page of a log.
func AppendEntries(dst []byte, p duly.ReadPage) []byte {
	o := begin(dst)
	list(&o, "messages", p.Entries, func(dst []byte, e *duly.Entry) []byte {
		o := begin(dst)
		o.position("position", e.Position)
		o.time("entered_at", e.EnteredAt)
		o.message(&e.Message)
		o.bytes("body", e.Body)
		return o.end()
	})
	o.string("next", string(p.Next))
	o.int("gap", p.Gap)
	return o.end()
}

// ReadEntries reads a page of a log.
func ReadEntries(text string, topic duly.QueueRef) (p duly.ReadPage, err error) {
	err = readList(text, "messages", func(r *reader) {
		e := duly.Entry{Message: duly.Message{Namespace: topic.Namespace, Topic: topic.Name}}
		for key := range r.object {
			switch key {
			case "position":
				e.Position = r.position(key)
			case "entered_at":
				e.EnteredAt = r.time(key)
			default:
				if !r.messageField(&e.Message, key) {
					r.unknown(key)
				}
			}
		}
		p.Entries = append(p.Entries, e)
	}, func(r *reader, key string) bool {
		switch key {
		case "next":
			p.Next = duly.From(r.string(key))
		case "gap":
			p.Gap = r.int(key)
		default:
			return false
		}
		return true
	})

	return p, err
}

// AppendDelayed writes a page of delayed messages, with their bodies if bodies is set.
func AppendDelayed(dst []byte, p duly.DelayedPage, bodies bool) []byte {
	o := begin(dst)
	list(&o, "messages", p.Messages, func(dst []byte, m *duly.Message) []byte { return appendDelayed(dst, m, bodies) })
	o.string("next", p.Next)
	return o.end()
}

// AppendDelayedMessage writes one delayed message with its body.
func AppendDelayedMessage(dst []byte, m *duly.Message) []byte { return appendDelayed(dst, m, true) }

func appendDelayed(dst []byte, m *duly.Message, body bool) []byte {
	o := begin(dst)
	o.message(m)
	o.time("due", m.Due)
	if body {
		o.bytes("body", m.Body)
	}
	return o.end()
}

// ReadDelayed reads a page of delayed messages. Without bodies, Body is nil.
func ReadDelayed(text string, topic duly.QueueRef) (p duly.DelayedPage, err error) {
	err = readList(text, "messages", func(r *reader) {
		p.Messages = append(p.Messages, r.delayed(topic))
	}, next(&p.Next))
	return p, err
}

// ReadDelayedMessage reads one delayed message.
func ReadDelayedMessage(text string, topic duly.QueueRef) (m duly.Message, err error) {
	err = parse(text, Lenient, func(r *reader) { m = r.delayed(topic) })
	return m, err
}

func (r *reader) delayed(topic duly.QueueRef) duly.Message {
	m := duly.Message{Namespace: topic.Namespace, Topic: topic.Name}
	for key := range r.object {
		switch {
		case key == "due":
			m.Due = r.time(key)
		case !r.messageField(&m, key):
			r.unknown(key)
		}
	}
	return m
}

// ReadFrom reads the request that creates or moves a group: a place in the log.
func ReadFrom(text string, mode Mode) (from duly.From, err error) {
	if text == "" {
		return from, nil
	}
	err = parse(text, mode, func(r *reader) {
		for key := range r.object {
			if key == "from" {
				from = duly.From(r.name(key))
			} else {
				r.unknown(key)
			}
		}
	})
	return from, err
}

// AppendFrom writes a place in a log.
func AppendFrom(dst []byte, from duly.From) []byte {
	o := begin(dst)
	o.text("from", string(from))
	return o.end()
}

// AppendGroupCreated writes the answer to the creation of a group.
func AppendGroupCreated(dst []byte, existed bool) []byte {
	outcome := duly.Created
	if existed {
		outcome = duly.Exists
	}
	o := begin(dst)
	o.string("outcome", outcome.String())
	return o.end()
}

// ReadGroupCreated reads the answer to the creation of a group.
func ReadGroupCreated(text string) (existed bool, err error) {
	err = parse(text, Lenient, func(r *reader) {
		for key := range r.object {
			if key != "outcome" {
				r.unknown(key)
				continue
			}
			var outcome duly.PushOutcome
			unmarshal(r, key, &outcome)
			existed = outcome == duly.Exists
		}
	})
	return existed, err
}

// AppendSeeked writes the answer to a seek.
func AppendSeeked(dst []byte, s duly.SeekResult) []byte {
	o := begin(dst)
	o.bool("clipped", s.Clipped)
	o.int("skipped", s.Skipped)
	o.int("replayed", s.Replayed)
	return o.end()
}

// ReadSeeked reads the answer to a seek.
func ReadSeeked(text string) (s duly.SeekResult, err error) {
	err = parse(text, Lenient, func(r *reader) {
		for key := range r.object {
			switch key {
			case "clipped":
				s.Clipped = r.boolean(key)
			case "skipped":
				s.Skipped = r.int(key)
			case "replayed":
				s.Replayed = r.int(key)
			default:
				r.unknown(key)
			}
		}
	})
	return s, err
}

// AppendTrimmed writes the answer to a trim. more reports that it stopped at its bound.
func AppendTrimmed(dst []byte, more bool) []byte {
	o := begin(dst)
	o.bool("more", more)
	return o.end()
}

// ReadTrimmed reads the answer to a trim.
func ReadTrimmed(text string) (more bool, err error) { return readBool(text, "more") }

// readBool reads an answer that is one boolean.
func readBool(text, name string) (value bool, err error) {
	err = parse(text, Lenient, func(r *reader) {
		for key := range r.object {
			if key == name {
				value = r.boolean(key)
			} else {
				r.unknown(key)
			}
		}
	})
	return value, err
}
