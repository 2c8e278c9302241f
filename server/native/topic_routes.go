package native

import (
	"github.com/dulymq/duly/server/auth"
	"github.com/dulymq/duly/server/route"
)

const (
	topicsPath  = "/v1/{namespace}/topics"
	topicPath   = topicsPath + "/{topic}"
	groupPath   = topicPath + "/groups/{group}"
	delayedPath = topicPath + "/delayed"
)

// topicRoutes returns the routes of topics. A group also has the routes of a queue, as
// TOPIC@GROUP.
func (a *API) topicRoutes(batch int64) []route.Route {
	return append(a.messageRoutes(batch), a.groupRoutes()...)
}

func (a *API) messageRoutes(batch int64) []route.Route {
	return []route.Route{
		{
			Method: "POST", Path: topicPath + "/messages", Access: auth.Produce, LimitedBy: produce, MaxBody: batch,
			Handler: a.onTopic(a.publish), Doc: publishMessagesDoc,
		},
		{
			Method: "GET", Path: topicPath + "/messages", Access: auth.Consume,
			Query: []string{"from", "limit", "wait"}, Handler: a.onTopic(a.read), Doc: readMessagesDoc,
		},

		{
			Method: "GET", Path: delayedPath, Access: auth.Either, Query: []string{"cursor", "limit", "bodies"},
			Handler: a.onTopic(a.delayed), Doc: listDelayedMessagesDoc,
		},
		{
			Method: "GET", Path: delayedPath + "/{id}", Access: auth.Consume, Query: []string{"key"},
			Handler: a.onTopic(a.delayedMessage), Doc: getDelayedMessageDoc,
		},
	}
}

func (a *API) groupRoutes() []route.Route {
	return []route.Route{
		{
			Method: "PUT", Path: groupPath, Access: auth.Consume, MaxBody: smallBody,
			Handler: a.onTopic(a.createGroup), Doc: createGroupDoc,
		},
		{
			Method: "GET", Path: topicPath + "/groups", Access: auth.Either, Query: pageQuery,
			Handler: a.onTopic(a.groups), Doc: listGroupsDoc,
		},

		{
			Method: "GET", Path: topicsPath, Access: auth.Either, Query: pageQuery,
			Handler: a.onTopic(a.listTopics), Doc: listTopicsDoc,
		},
		{Method: "GET", Path: topicPath, Access: auth.Either, Handler: a.onTopic(a.topic), Doc: getTopicDoc},
		{
			Method: "PATCH", Path: topicPath, Access: auth.Admin, MaxBody: smallBody,
			Handler: a.onTopic(a.configureTopic), Doc: configureTopicDoc,
		},

		{
			Method: "POST", Path: groupPath + "/seek", Access: auth.Admin, MaxBody: smallBody,
			Handler: a.onTopic(a.seek), Doc: seekGroupDoc,
		},
		{
			Method: "POST", Path: topicPath + "/trim", Access: auth.Admin, MaxBody: noBody,
			Handler: a.onTopic(a.trim), Doc: trimTopicDoc,
		},
		// The last routes, because the examples of the page run from top to bottom.
		{
			Method: "DELETE", Path: delayedPath + "/{id}", Access: auth.Produce, Query: []string{"key"},
			MaxBody: noBody, Handler: a.onTopic(a.cancelDelayed), Doc: cancelDelayedMessageDoc,
		},
		{
			Method: "DELETE", Path: topicPath, Access: auth.Admin, MaxBody: noBody,
			Handler: a.onTopic(a.destroyTopic), Doc: destroyTopicDoc,
		},
	}
}
