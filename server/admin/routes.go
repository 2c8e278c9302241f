package admin

import (
	"slices"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/server/auth"
	"github.com/dulymq/duly/server/route"
)

// Routes is the table.
func (a *API) Routes() []route.Route {
	return slices.Concat(a.storeRoutes(), a.tokenRoutes(), a.placementRoutes(), a.processRoutes())
}

func (a *API) storeRoutes() []route.Route {
	return []route.Route{
		{Method: "POST", Path: "/admin/check", Need: auth.Operator, MaxBody: 1 << 10, Handler: a.check, Doc: route.Doc{
			ID: "checkStore", Summary: "Check the store", Text: "Compares every job with every index. Answers a line of JSON now and then, and the report or an error as the last one.",
			Request: checkForm{}, Answer: checkLineForm{}, ContentType: "application/x-ndjson", Errors: []duly.Code{duly.CodeUnsupported},
			Example: `{"repair":false}`, ExampleAnswer: `{"report":{"jobs":1,"messages":0,"repaired":0,"faults":[]}}`,
		}},
		{Method: "POST", Path: "/admin/backup", Need: auth.Operator, MaxBody: 0, Query: []string{"pool"}, Handler: a.backup, Doc: route.Doc{
			ID: "backupStore", Summary: "Copy the store", Text: "The answer is a file of one moment, which opens as an engine. One that is cut off is not whole. Of several pools it is the default one's, or that of pool.",
			ContentType: "application/octet-stream", Errors: []duly.Code{duly.CodeUnsupported}, ExampleFile: "backup.db",
		}},
	}
}

const exampleID = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func (a *API) tokenRoutes() []route.Route {
	return []route.Route{
		{Method: "POST", Path: "/admin/tokens", Need: auth.Operator, MaxBody: 16 << 10, Query: []string{"pool"}, Handler: a.createToken, Doc: route.Doc{
			ID: "createToken", Summary: "Make a token", Text: "The answer is the only time that its text is shown. Do not repeat it after a lost answer: that makes another one. pool is where the namespace is to be, if that was not said before; without it the namespace stays where it is.",
			Request: TokenForm{}, Answer: madeTokenForm{}, Status: 201, Errors: []duly.Code{duly.CodeUnsupported},
			Example:       `{"namespace":"default","rights":["produce"],"description":"the shop","limits":{"produce":100,"per":"1m"}}`,
			ExampleAnswer: `{"id":"` + exampleID + `","token":"duly_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA","namespace":"default","rights":["produce"],"description":"the shop","limits":{"produce":100,"per":"1m"},"created_at":"2030-01-01T00:00:00.000Z"}`,
		}},
		{Method: "GET", Path: "/admin/tokens", Need: auth.Operator, Query: []string{"namespace", "cursor", "limit"}, Handler: a.tokens, Doc: route.Doc{
			ID: "listTokens", Summary: "List tokens", Text: "Of one namespace (* for those that belong to all), or every one, in the order of their ids. Their texts are not known any more.",
			Answer: tokensForm{}, ExampleQuery: "?namespace=default",
			ExampleAnswer: `{"tokens":[{"id":"` + exampleID + `","namespace":"default","rights":["produce"],"description":"the shop","limits":{"produce":100,"per":"1m"},"created_at":"2030-01-01T00:00:00.000Z"}],"next":""}`,
		}},
		{Method: "PUT", Path: "/admin/tokens/{id}", Need: auth.Operator, MaxBody: 16 << 10, Query: []string{"pool"}, Handler: a.adoptToken, Doc: route.Doc{
			ID: "importToken", Summary: "Adopt a token", Text: "Stores a token whose text was made elsewhere, under the SHA-256 by which it is looked up; its text is not sent. For imports. One that is there already is a conflict, and stays as it is.",
			Request: TokenForm{}, Status: 204, Errors: []duly.Code{duly.CodeConflict, duly.CodeUnsupported},
			Example: `{"namespace":"default","rights":["produce","consume"],"description":"from lmstfy"}`,
		}},
		{Method: "PATCH", Path: "/admin/tokens/{id}", Need: auth.Operator, MaxBody: 1 << 10, Handler: a.limitToken, Doc: route.Doc{
			ID: "limitToken", Summary: "Limit a token", Text: "How many calls of push and of reserve it may make in a window of time, counted for all servers on the engine together. Beyond it a call is answered limited, with Retry-After. What was counted in the window under way stays.",
			Request: limitTokenForm{}, Status: 204, Errors: []duly.Code{duly.CodeNotFound, duly.CodeUnsupported},
			Example: `{"limits":{"produce":100,"consume":10,"per":"1m"}}`,
		}},
		{Method: "DELETE", Path: "/admin/tokens/{id}", Need: auth.Operator, MaxBody: 64, Handler: a.revokeToken, Doc: route.Doc{
			ID: "revokeToken", Summary: "Revoke a token", Text: "It opens nothing any more, on any server of the engine a second later, and what waits with it ends. The last token with the right admin for * is not revoked unless there are accounts: make another one first. Nor is any while the token file in the data folder can't be read, for a start would take what is in it.",
			Status: 204, Errors: []duly.Code{duly.CodeNotFound, duly.CodeConflict},
		}},
	}
}

const (
	exampleMoving = `{"namespace":"shop","to":"orders"}`
	exampleMove   = `{"namespace":"shop","pool":"orders","from":"default","phase":"drain","since":"2030-01-01T00:00:00.000Z","queues":1,"left":{"delayed":0,"ready":3,"blocked":0,"leased":1,"dead":0,"done":0}}`
)

func (a *API) placementRoutes() []route.Route {
	return []route.Route{
		{Method: "GET", Path: "/admin/namespaces", Need: auth.Operator, Query: []string{"cursor", "limit"}, Handler: a.namespaces, Doc: route.Doc{
			ID: "listNamespaces", Summary: "List namespaces", Text: "Those that have queues, by name.", Answer: namespacesForm{},
			ExampleAnswer: `{"namespaces":[{"name":"default"}],"next":""}`,
		}},
		{Method: "GET", Path: "/admin/pools", Need: auth.Operator, Handler: a.pools, Doc: route.Doc{
			ID: "listPools", Summary: "List pools", Text: "The engines of this server, the default one first.", Answer: poolsForm{},
			ExampleAnswer: `{"pools":[{"name":"default","ready":true},{"name":"orders","ready":true}]}`,
		}},
		{Method: "PUT", Path: "/admin/namespaces/{name}", Need: auth.Operator, MaxBody: 1 << 10, Handler: a.placeNamespace, Doc: route.Doc{
			ID: "placeNamespace", Summary: "Place a namespace", Text: "Says which pool it is in, as a token's pool does, if nobody has said so and it has no queues yet. It may be said again; another pool is a conflict.",
			Request: placeForm{}, Status: 204, Errors: []duly.Code{duly.CodeConflict},
			Example: `{"pool":"default"}`,
		}},
		{Method: "POST", Path: "/admin/moves", Need: auth.Operator, MaxBody: 4 << 10, Handler: a.move, Doc: route.Doc{
			ID: "moveNamespace", Summary: "Move a namespace", Text: "To another pool, while it is in use. The answer comes when the move has begun; it may be said again. To the pool that it comes from, it turns around.",
			Request: movingForm{}, Answer: moveForm{}, Status: 202, Errors: []duly.Code{duly.CodeNotFound, duly.CodeConflict, duly.CodeUnsupported, duly.CodeFull},
			Example: exampleMoving, ExampleAnswer: exampleMove,
		}},
		{Method: "GET", Path: "/admin/moves", Need: auth.Operator, Query: []string{"namespace"}, Handler: a.moves, Doc: route.Doc{
			ID: "listMoves", Summary: "List moves", Text: "The namespaces that move from one pool to another, with what is left; or where one namespace is, also if it does not move.", Answer: movesForm{},
			ExampleAnswer: `{"moves":[` + exampleMove + `]}`,
		}},
	}
}

func (a *API) processRoutes() []route.Route {
	return []route.Route{
		{Method: "GET", Path: "/metrics", Need: auth.Operator, Handler: a.metrics, Doc: route.Doc{
			ID: "getMetrics", Summary: "Show the metrics", Text: "In the text format of Prometheus; docs/metrics.md lists them. With the lmstfy API its names stand beside duly's.",
			ContentType: "text/plain", ExampleFile: "metrics.txt",
		}},
		{Method: "GET", Path: "/debug/pprof/{profile}", Need: auth.Operator, Query: []string{"seconds", "debug"}, Handler: a.profile, Doc: route.Doc{
			ID: "profileServer", Summary: "Profile the server", Text: "profile (of the processor) and trace for so many seconds (30; at most 300), or what is there: heap, allocs, goroutine, mutex, block, threadcreate; with debug=1 as text. The answer is for go tool pprof and go tool trace.",
			ContentType: "application/octet-stream", Errors: []duly.Code{duly.CodeNotFound, duly.CodeConflict}, ExampleQuery: "?seconds=1", ExampleFile: "cpu.pprof",
		}},
	}
}
