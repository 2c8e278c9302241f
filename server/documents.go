package server

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"

	"github.com/dulymq/duly/server/auth"
	"github.com/dulymq/duly/server/describe"
	"github.com/dulymq/duly/server/route"
)

// parts groups all routes under the headings of the documents.
func parts(api, admin, health []route.Route) []describe.Part {
	var jobs, schedules, topics, operations []route.Route
	for _, r := range api {
		switch {
		case strings.HasPrefix(r.Path, "/v1/{namespace}/topics"):
			topics = append(topics, r)
		case strings.HasPrefix(r.Path, "/v1/{namespace}/operations"):
			operations = append(operations, r)
		case strings.Contains(r.Path, "/schedules"):
			schedules = append(schedules, r)
		default:
			jobs = append(jobs, r)
		}
	}

	return []describe.Part{
		{
			Title: "Jobs and queues", Routes: jobs,
			Text: "On the API's address. A queue may be the group of a topic, as TOPIC@GROUP, " +
				"in every route except push, update, promote and peek.",
		},
		{
			Title: "Schedules", Routes: schedules,
			Text: "On the API's address. A schedule pushes a job into its queue at each tick of an expression. " +
				"An engine without schedules answers unsupported.",
		},
		{
			Title: "Operations", Routes: operations,
			Text: "On the API's address. An operation works through many jobs of a queue in the background. It belongs " +
				"to the server that started it.",
		},
		{
			Title: "Topics", Routes: topics,
			Text: "On the API's address. Every group of a topic sees every message. " +
				"An engine without topics answers unsupported.",
		},
		{
			Title: "Admin", Routes: admin, Admin: true,
			Text: "On the admin address, which is on the loopback unless it is set otherwise.",
		},
		{Title: "Health", Routes: health, Text: "On both addresses, without a token."},
	}
}

// documents returns the routes of the documents. The routes are open, because the documents are
// public in the repository.
func documents(version string, api, admin, health []route.Route) []route.Route {
	list := parts(api, admin, health)
	// The documents are created at the first request, so that the start is not slowed down.
	spec := sync.OnceValue(func() []byte {
		b, err := json.Marshal(describe.OpenAPI(version, list))
		if err != nil {
			panic("server: the OpenAPI document: " + err.Error())
		}
		return b
	})
	page := sync.OnceValue(func() []byte { return describe.Page(version, list) })

	return []route.Route{
		{Method: "GET", Path: "/openapi.json", Access: auth.Open, Handler: func(c *route.Call) error {
			return c.ReplyAs(http.StatusOK, "application/json", spec())
		}},
		{Method: "GET", Path: "/docs", Access: auth.Open, Handler: func(c *route.Call) error {
			return c.ReplyPage(describe.Policy(), page())
		}},
		{Method: "GET", Path: "/favicon.ico", Access: auth.Open, Handler: func(c *route.Call) error {
			return c.ReplyAs(http.StatusOK, "image/png", describe.Icon())
		}},
		{Method: "GET", Path: "/{$}", Access: auth.Open, Handler: welcome},
	}
}

// welcome answers the root of the API's address. It does not redirect, because a client whose proxy
// removes the path would get a wrong page.
func welcome(c *route.Call) error {
	if strings.Contains(c.R.Header.Get("Accept"), "text/html") {
		return c.ReplyPage(describe.Policy(), []byte(welcomePage))
	}

	return c.Reply(http.StatusOK, append(c.Out(), `{"service":"duly","docs":"/docs","openapi":"/openapi.json"}`...))
}

const welcomePage = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>duly</title>
</head>
<body><h1>duly</h1><p>This is the API of a duly server. <a href="/docs">/docs</a> describes it.</p></body>
</html>
`
