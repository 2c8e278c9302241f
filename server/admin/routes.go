package admin

import (
	"slices"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/wire"
	"github.com/dulymq/duly/server/auth"
	"github.com/dulymq/duly/server/route"
)

// Routes returns the table of routes.
func (a *API) Routes() []route.Route {
	return slices.Concat(a.storeRoutes(), a.tokenRoutes(), a.loginRoutes(), a.placementRoutes(), a.processRoutes())
}

func (a *API) storeRoutes() []route.Route {
	return []route.Route{
		{Method: "POST", Path: "/admin/check", Access: auth.Operator, MaxBody: 1 << 10, Handler: a.check, Doc: route.Doc{
			ID: "checkStore", Summary: "Check the store",
			Text: "Compares every job with every index. " +
				"The answer has lines of JSON: progress from time to time, and a report or an error as the last line.",
			Request: wire.CheckForm, Answer: wire.CheckLineForm, ContentType: "application/x-ndjson",
			Errors: []duly.Code{duly.CodeUnsupported}, Example: `{"repair":false}`,
			ExampleAnswer: `{"report":{"jobs":1,"messages":0,"repaired":0,"faults":[]}}`,
		}},

		{Method: "POST", Path: "/admin/backup", Access: auth.Operator, MaxBody: 0, Query: []string{"pool"},
			Handler: a.backup, Doc: route.Doc{
				ID: "backupStore", Summary: "Copy the store",
				Text: "The answer is a consistent copy, which an engine can open. If the connection breaks, the copy is " +
					"incomplete. " +
					"With several pools it is a copy of pool, by default of the default pool.",
				ContentType: "application/octet-stream", Errors: []duly.Code{duly.CodeUnsupported}, ExampleFile: "backup.db",
			}},
	}
}

const (
	exampleID    = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	exampleRules = `"namespace":"default","rights":["produce"],"description":"the shop",` +
		`"limits":{"produce":100,"per":"1m"}`
	exampleToken = `{"id":"` + exampleID + `",` + exampleRules + `,"created_at":"2030-01-01T00:00:00.000Z"}`
	exampleMade  = `{"id":"` + exampleID + `","token":"duly_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",` +
		exampleRules + `,"created_at":"2030-01-01T00:00:00.000Z"}`
)

func (a *API) tokenRoutes() []route.Route {
	return []route.Route{
		{Method: "POST", Path: "/admin/tokens", Access: auth.Operator, MaxBody: 16 << 10, Query: []string{"pool"},
			Handler: a.createToken, Doc: route.Doc{
				ID: "createToken", Summary: "Create a token",
				Text: "The server shows the token's text only in this answer. Do not repeat the request after a lost answer: " +
					"each request creates another token. pool places the namespace in a pool, if it has no pool yet.",
				Request: wire.NewTokenForm, Answer: wire.MadeTokenForm, Status: 201, Errors: []duly.Code{duly.CodeUnsupported},
				Example: `{` + exampleRules + `}`, ExampleAnswer: exampleMade,
			}},
		{Method: "GET", Path: "/admin/tokens", Access: auth.Operator, Query: []string{"namespace", "cursor", "limit"},
			Handler: a.tokens, Doc: route.Doc{
				ID: "listTokens", Summary: "List tokens",
				Text: "Lists tokens by ID, without their texts. namespace selects one namespace. " +
					"The value * selects the tokens for all namespaces.",
				Answer: wire.TokensForm, ExampleQuery: "?namespace=default",
				ExampleAnswer: `{"tokens":[` + exampleToken + `],"next":""}`,
			}},

		{Method: "PUT", Path: "/admin/tokens/{id}", Access: auth.Operator, MaxBody: 16 << 10, Query: []string{"pool"},
			Handler: a.adoptToken, Doc: route.Doc{
				ID: "importToken", Summary: "Import a token",
				Text: "Stores a token that was created elsewhere, under the SHA-256 of its text. The request does not " +
					"contain the text. " +
					"If the token exists, the answer is a conflict and the token does not change.",
				Request: wire.NewTokenForm, Status: 204, Errors: []duly.Code{duly.CodeConflict, duly.CodeUnsupported},
				Example: `{"namespace":"default","rights":["produce","consume"],"description":"from lmstfy"}`,
			}},
		{Method: "PATCH", Path: "/admin/tokens/{id}", Access: auth.Operator, MaxBody: 1 << 10,
			Handler: a.limitToken, Doc: route.Doc{
				ID: "limitToken", Summary: "Limit a token",
				Text: "Sets how many calls to push and to reserve a token may make in a window of time, on all " +
					"servers of the engine together. " +
					"Further calls return limited, with Retry-After. The calls of the current window still count.",
				Request: wire.LimitTokenForm, Status: 204, Errors: []duly.Code{duly.CodeNotFound, duly.CodeUnsupported},
				Example: `{"limits":{"produce":100,"consume":10,"per":"1m"}}`,
			}},

		{Method: "DELETE", Path: "/admin/tokens/{id}", Access: auth.Operator, MaxBody: 64,
			Handler: a.revokeToken, Doc: route.Doc{
				ID: "revokeToken", Summary: "Revoke a token",
				Text: "This server refuses the token at once, and the other servers of the engine within a second. " +
					"Requests that wait with it end. " +
					"The last token with the right admin for * cannot be revoked unless there are accounts: create " +
					"another one first. " +
					"No token can be revoked while the token file in the data folder is not readable, " +
					"because a later start would store the token in that file again.",
				Status: 204, Errors: []duly.Code{duly.CodeNotFound, duly.CodeConflict},
			}},
	}
}

func (a *API) loginRoutes() []route.Route {
	return []route.Route{
		{Method: "POST", Path: "/admin/login-codes", Access: auth.Operator, MaxBody: 64, Handler: a.createLoginCode,
			Doc: route.Doc{
				ID: "createLoginCode", Summary: "Create a login code",
				Text: "Opens one session of the dashboard, with the rights of the token or account that asks. " +
					"Open the path on the admin address in a browser within a minute. duly ui does that. " +
					"Each request creates another code.",
				Answer: wire.LoginCodeForm, Status: 201, Errors: []duly.Code{duly.CodeUnsupported},
				ExampleAnswer: `{"path":"/ui/login?code=ABCDEFGHIJKLMNOPQRSTUVWXYZ","expires_at":"2030-01-01T00:01:00.000Z"}`,
			}},
	}
}

const (
	exampleMoving = `{"namespace":"shop","to":"orders"}`
	exampleMove   = `{"namespace":"shop","pool":"orders","from":"default","phase":"drain",` +
		`"since":"2030-01-01T00:00:00.000Z","queues":1,"left":{"delayed":0,"ready":3,"blocked":0,"leased":1,"dead":0,"done":0}}`
)

func (a *API) placementRoutes() []route.Route {
	return []route.Route{
		{Method: "GET", Path: "/admin/namespaces", Access: auth.Operator, Query: []string{"cursor", "limit"},
			Handler: a.namespaces, Doc: route.Doc{
				ID: "listNamespaces", Summary: "List namespaces",
				Text: "Lists the namespaces with queues, by name.", Answer: wire.NamespacesForm,
				ExampleAnswer: `{"namespaces":[{"name":"default"}],"next":""}`,
			}},
		{Method: "GET", Path: "/admin/pools", Access: auth.Operator, Handler: a.pools, Doc: route.Doc{
			ID: "listPools", Summary: "List pools",
			Text: "Lists the pools of this server, the default one first.", Answer: wire.PoolsForm,
			ExampleAnswer: `{"pools":[{"name":"default","ready":true},{"name":"orders","ready":true}]}`,
		}},

		{Method: "PUT", Path: "/admin/namespaces/{name}", Access: auth.Operator, MaxBody: 1 << 10,
			Handler: a.placeNamespace, Doc: route.Doc{
				ID: "placeNamespace", Summary: "Place a namespace",
				Text: "Places a namespace without a pool and without queues in a pool. The request may be repeated. " +
					"If the namespace is in another pool, the answer is a conflict.",
				Request: wire.PlaceForm, Status: 204, Errors: []duly.Code{duly.CodeConflict},
				Example: `{"pool":"default"}`,
			}},
		{Method: "POST", Path: "/admin/moves", Access: auth.Operator, MaxBody: 4 << 10, Handler: a.move, Doc: route.Doc{
			ID: "moveNamespace", Summary: "Move a namespace",
			Text: "Moves a namespace to another pool while it is in use. The answer comes when the move has begun. " +
				"The request may be repeated. A request with the pool that the namespace comes from reverses the move.",
			Request: wire.MovingForm, Answer: wire.MoveForm, Status: 202,
			Errors:  []duly.Code{duly.CodeNotFound, duly.CodeConflict, duly.CodeUnsupported, duly.CodeFull},
			Example: exampleMoving, ExampleAnswer: exampleMove,
		}},

		{Method: "GET", Path: "/admin/moves", Access: auth.Operator, Query: []string{"namespace"},
			Handler: a.moves, Doc: route.Doc{
				ID: "listMoves", Summary: "List moves",
				Text: "Lists the namespaces that move, with the rest in their old pools. " +
					"With namespace, the answer has only this namespace, also if it does not move.",
				Answer: wire.MovesForm, ExampleAnswer: `{"moves":[` + exampleMove + `]}`,
			}},
	}
}

func (a *API) processRoutes() []route.Route {
	return []route.Route{
		{Method: "GET", Path: "/metrics", Access: auth.Operator, Handler: a.metrics, Doc: route.Doc{
			ID: "getMetrics", Summary: "Show the metrics",
			Text: "The answer has the text format of Prometheus. docs/metrics.md lists the metrics. " +
				"With the lmstfy API it also contains metrics with lmstfy's names.",
			ContentType: "text/plain", ExampleFile: "metrics.txt",
		}},

		{Method: "GET", Path: "/debug/pprof/{profile}", Access: auth.Operator, Query: []string{"seconds", "debug"},
			Handler: a.profile, Doc: route.Doc{
				ID: "profileServer", Summary: "Profile the server",
				Text: "The profiles profile (of the processor) and trace record for seconds (default 30, at most 300). " +
					"The profiles heap, allocs, goroutine, mutex, block and threadcreate are available at once, with " +
					"debug=1 as text. " +
					"The answer is for go tool pprof and go tool trace.",
				ContentType: "application/octet-stream", Errors: []duly.Code{duly.CodeNotFound, duly.CodeConflict},
				ExampleQuery: "?seconds=1", ExampleFile: "cpu.pprof",
			}},
	}
}
