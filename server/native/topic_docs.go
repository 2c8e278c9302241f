package native

import (
	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/wire"
	"github.com/dulymq/duly/server/route"
)

// needsTopics returns the errors of a route of a topic.
func needsTopics(more ...duly.Code) []duly.Code { return append(more, duly.CodeUnsupported) }

// The documentation of the routes for topics and groups.
var (
	publishMessagesDoc = route.Doc{
		ID: "publishMessages", Summary: "Publish messages",
		Text: "Appends up to 1000 messages to the log of a topic, and answers when they are durable. It creates " +
			"the topic if it does not exist. A bad message does not fail the others. A publish that is repeated " +
			"after a lost answer may add its messages twice, unless the topic has dedupe and the messages have " +
			"ids.",
		Request: wire.PublishForm, Answer: wire.PublishedForm,
		Errors: needsTopics(duly.CodeTooLarge, duly.CodeFull, duly.CodeConflict),
		Example: `{"messages":[{"body":"order 7 paid","key":"customer:1","headers":{"type":"paid"}},` +
			`{"id":"reminder:7","body":"order 7 unpaid","delay":"1h"}]}`,
		ExampleAnswer: `{"results":[{"outcome":"created","position":"01Q3DCBD000000000101CBX31J"},` +
			`{"outcome":"created",` +
			`"id":"reminder:7"}]}`,
	}

	readMessagesDoc = route.Doc{
		ID: "readMessages", Summary: "Read a log",
		Text: "Reads messages without a group, so it changes nothing. With wait it waits for a first message. Pass " +
			"next of an answer as from of the next request. conflict means that the log ends before from: the " +
			"store has lost writes.",
		Answer: wire.EntriesForm, ExampleQuery: "?from=start&limit=10",
		Errors: needsTopics(duly.CodeNotFound, duly.CodeConflict),
		ExampleAnswer: `{"messages":[{"position":"01Q3DCBD000000000101CBX31J",` +
			`"entered_at":"2030-01-01T00:00:00.000Z",` +
			`"key":"customer:1","headers":{"type":"paid"},"body":"order 7 paid"}],` +
			`"next":"next:01Q3DCBD000000000101CBX31J","gap":0}`,
	}

	listDelayedMessagesDoc = route.Doc{
		ID: "listDelayedMessages", Summary: "List delayed messages",
		Text: "Lists the messages that have not entered the log, by due time. With bodies=true it needs the right " +
			"consume.",
		Answer:        wire.DelayedForm,
		Errors:        needsTopics(duly.CodeNotFound),
		ExampleAnswer: `{"messages":[{"id":"reminder:7","due":"2030-01-01T01:00:00.000Z"}],"next":""}`,
	}

	getDelayedMessageDoc = route.Doc{
		ID: "getDelayedMessage", Summary: "Look at a delayed message",
		Text:          "By its id, and by its key if it has one.",
		Answer:        wire.DelayedMessageForm,
		Errors:        needsTopics(duly.CodeNotFound),
		ExampleAnswer: `{"id":"reminder:7","due":"2030-01-01T01:00:00.000Z","body":"order 7 unpaid"}`,
	}

	createGroupDoc = route.Doc{
		ID: "createGroup", Summary: "Create a group",
		Text: "Creates a consumer group, and its topic if that does not exist. When it answers, the group sees " +
			"every message that is published from then on. exists: the group existed, and nothing has changed. " +
			"All other operations of a group use the routes of queues and jobs, with TOPIC@GROUP as the queue: " +
			"reserve, settle, extend, lists, dead messages, configuration, pause, destroy.",
		Request: wire.FromForm, Answer: wire.GroupCreatedForm,
		Errors:        needsTopics(duly.CodeConflict, duly.CodeFull),
		Example:       `{"from":"start"}`,
		ExampleAnswer: `{"outcome":"created"}`,
	}

	listGroupsDoc = route.Doc{
		ID: "listGroups", Summary: "List groups",
		Text:          "By name, without the topic's name, page by page.",
		Answer:        wire.GroupsForm,
		Errors:        needsTopics(duly.CodeNotFound),
		ExampleAnswer: `{"groups":[{"name":"mailer"}],"next":""}`,
	}

	listTopicsDoc = route.Doc{
		ID: "listTopics", Summary: "List topics",
		Text:          "By name, page by page.",
		Answer:        wire.TopicsForm,
		Errors:        needsTopics(),
		ExampleAnswer: `{"topics":[{"name":"events"}],"next":""}`,
	}

	getTopicDoc = route.Doc{
		ID: "getTopic", Summary: "Look at a topic",
		Text: "The configuration with every field filled in, and the numbers. floors names, per shard, the group " +
			"that keeps the oldest message from being trimmed.",
		Answer: wire.TopicForm,
		Errors: needsTopics(duly.CodeNotFound),
		ExampleAnswer: `{"name":"events","config":{"shards":1,"dedupe":"none","keep":"none","max_age":"none",` +
			`"max_count":"none","max_bytes":"none","overflow":"refuse"},"stats":{"messages":1,"bytes":100,` +
			`"first":"01Q3DCBD000000000101CBX31J","last":"01Q3DCBD000000000101CBX31J","delayed":1,` +
			`"next_due":"2030-01-01T01:00:00.000Z","counters":{"published":2,"exists":0,"entered":1,"canceled":0,` +
			`"trimmed":0,"dropped":0,"forgotten":0},"floors":[{"shard":0,"position":"01Q3DCBD000000000101CBX31J",` +
			`"group":"mailer","since":"2030-01-01T00:00:00.000Z","alone":1}]}}`,
	}

	configureTopicDoc = route.Doc{
		ID: "configureTopic", Summary: "Configure a topic",
		Text:    "Changes the given fields, and creates the topic if it does not exist.",
		Request: wire.TopicConfigForm, Status: 204,
		Errors:  needsTopics(duly.CodeConflict, duly.CodeFull),
		Example: `{"dedupe":"1h","keep":"7d"}`,
	}

	seekGroupDoc = route.Doc{
		ID: "seekGroup", Summary: "Move a group",
		Text: "Moves the cursor of a group in every shard. The group gives up every message that it holds, except " +
			"the dead ones, and their receipts become invalid. It is not atomic over shards. A repeat is safe.",
		Request: wire.SeekForm, Answer: wire.SeekedForm,
		Errors:        needsTopics(duly.CodeNotFound),
		Example:       `{"from":"start"}`,
		ExampleAnswer: `{"clipped":false,"skipped":0,"replayed":0}`,
	}

	trimTopicDoc = route.Doc{
		ID: "trimTopic", Summary: "Trim a topic now",
		Text: "Makes one bounded step of the trim that the server also makes in the background. It deletes only " +
			"messages that no group needs. Repeat it while more is true.",
		Answer:        wire.TrimmedForm,
		Errors:        needsTopics(duly.CodeNotFound),
		ExampleAnswer: `{"more":false}`,
	}

	cancelDelayedMessageDoc = route.Doc{
		ID: "cancelDelayedMessage", Summary: "Cancel a delayed message",
		Text:   "Removes a message before it enters the log.",
		Status: 204,
		Errors: needsTopics(duly.CodeNotFound),
	}

	destroyTopicDoc = route.Doc{
		ID: "destroyTopic", Summary: "Destroy a topic",
		Text:   "Deletes the topic with its log, its delayed messages, its groups and its settings. A repeat is safe.",
		Status: 204,
		Errors: needsTopics(),
	}
)
