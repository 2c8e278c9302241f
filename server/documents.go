package server

import (
	"encoding/json"
	"net/http"
	"sync"

	"github.com/dulymq/duly/server/auth"
	"github.com/dulymq/duly/server/describe"
	"github.com/dulymq/duly/server/native"
	"github.com/dulymq/duly/server/route"
)

// parts are all the routes, under the headings of the documents.
func parts(api, admin, health []route.Route) []describe.Part {
	return []describe.Part{
		{Title: "Jobs and queues", Text: "On the API's address.", Routes: api},
		{Title: "Admin", Text: "On the admin address, which is on the loopback unless it is set otherwise.", Admin: true, Routes: admin},
		{Title: "Health", Text: "On both addresses, without a token.", Routes: health},
	}
}

// documents are the routes that serve what describes the API. They are open:
// they tell what is in the repository.
func documents(version string, api, admin, health []route.Route) []route.Route {
	list := parts(api, admin, health)
	spec := sync.OnceValue(func() []byte { // when it is first asked for: a start has no time for it
		b, err := json.Marshal(describe.OpenAPI(version, native.Problem{}, list))
		if err != nil {
			panic("server: the OpenAPI document: " + err.Error())
		}
		return b
	})
	page := sync.OnceValue(func() []byte { return describe.Page(version, list) })
	return []route.Route{
		{Method: "GET", Path: "/openapi.json", Need: auth.Open, Handler: func(c *route.Call) error {
			return c.ReplyAs(http.StatusOK, "application/json", spec())
		}},
		{Method: "GET", Path: "/docs", Need: auth.Open, Handler: func(c *route.Call) error {
			c.W.Header().Set("Content-Security-Policy", describe.Policy())
			c.W.Header().Set("Referrer-Policy", "no-referrer")
			return c.ReplyAs(http.StatusOK, "text/html; charset=utf-8", page())
		}},
	}
}
