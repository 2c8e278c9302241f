package native

import (
	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/wire"
	"github.com/dulymq/duly/server/auth"
	"github.com/dulymq/duly/server/route"
)

const (
	pushPath    = "/v1/{namespace}/push"
	targetsPath = pushPath + "/targets"
	targetPath  = targetsPath + "/{name}"
	targetBody  = 128 << 10 // with a CA
)

const (
	exampleTarget = `{"name":"crm","url":"https://crm.example/hook","method":"POST","timeout":"10s","concurrency":20,"sign":["v1"],"enabled":true,"header_names":["authorization"],"own_secret":false,"version":1}`
	exampleSecret = `{"secret":"whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oDdxUYjN5qPU8=","private_key":"whsk_…","public_key":"whpk_…"}`
)

// pushRoutes are the routes of HTTP push.
func (a *API) pushRoutes() []route.Route {
	unsupported, unknown := []duly.Code{duly.CodeUnsupported}, []duly.Code{duly.CodeUnsupported, duly.CodeNotFound}
	return []route.Route{
		{Method: "PUT", Path: targetPath, Access: auth.Admin, MaxBody: targetBody, Handler: a.changing(a.putTarget), Doc: route.Doc{
			ID: "putTarget", Summary: "Create or change a target",
			Text:    "A target is a destination with a name, which jobs and queues name as target:NAME. What is left out has its default, except the secret, which stays.",
			Request: wire.TargetSettingsForm, Status: 204, Errors: []duly.Code{duly.CodeUnsupported, duly.CodeFull, duly.CodeConflict},
			Example: `{"url":"https://crm.example/hook","headers":{"authorization":"Bearer 7"},"concurrency":20}`,
		}},
		{Method: "GET", Path: targetsPath, Access: auth.Produce, Query: pageQuery, Handler: a.onTargets(a.targets), Doc: route.Doc{
			ID: "listTargets", Summary: "List targets", Text: "By name, page by page, each with the gate of its host in this server. Secrets and the values of headers are not shown.",
			Answer: wire.TargetsForm, Errors: unsupported, ExampleAnswer: `{"targets":[` + exampleTarget + `],"next":""}`,
		}},
		{Method: "GET", Path: targetPath, Access: auth.Produce, Handler: a.onTargets(a.target), Doc: route.Doc{
			ID: "getTarget", Summary: "Look at a target", Answer: wire.TargetForm, Errors: unknown, ExampleAnswer: exampleTarget,
		}},
		{Method: "POST", Path: targetPath + "/test", Access: auth.Admin, MaxBody: noBody, Handler: a.onTargets(a.testTarget), Doc: route.Doc{
			ID: "testTarget", Summary: "Send a test request", Text: "Sends a signed duly.test to the target, also while it is disabled or its gate is closed, and reports the answer.",
			Answer: wire.PushTestForm, Errors: []duly.Code{duly.CodeUnsupported, duly.CodeNotFound, duly.CodeConflict},
			ExampleAnswer: `{"status":204,"as":"ack","took":"31ms","webhook_id":"default/duly~test/01J0000000000000000000000A"}`,
		}},
		{Method: "POST", Path: targetPath + "/disable", Access: auth.Admin, MaxBody: noBody, Handler: a.changing(a.enable(false)), Doc: route.Doc{
			ID: "disableTarget", Summary: "Disable a target", Text: "Nothing is sent to it. Its jobs wait and use no try. May be repeated.", Status: 204, Errors: unknown,
		}},
		{Method: "POST", Path: targetPath + "/enable", Access: auth.Admin, MaxBody: noBody, Handler: a.changing(a.enable(true)), Doc: route.Doc{
			ID: "enableTarget", Summary: "Enable a target", Text: "Sending begins slowly. Jobs that waited are sent within 5 minutes. May be repeated.", Status: 204, Errors: unknown,
		}},
		{Method: "POST", Path: targetPath + "/rotate", Access: auth.Admin, MaxBody: smallBody, Handler: a.changing(a.rotate), Doc: route.Doc{
			ID: "rotateTargetSecret", Summary: "Give a target a new secret", Text: "The new and the old secret both sign until the overlap is over. Not safe to repeat: a repeat is another rotation.",
			Request: wire.PushRotateForm, Status: 204, Errors: unknown, Example: `{"overlap":"1h"}`,
		}},
		{Method: "GET", Path: targetPath + "/secret", Access: auth.Admin, Handler: a.onTargets(a.secret), Doc: route.Doc{
			ID: "getTargetSecret", Summary: "Show the secret of a target", Text: "The newest one. The server logs each use of this route.", Answer: wire.PushSecretForm, Errors: unknown, ExampleAnswer: exampleSecret,
		}},
		{Method: "GET", Path: pushPath + "/secret", Access: auth.Admin, Handler: a.onTargets(a.secret), Doc: route.Doc{
			ID: "getPushSecret", Summary: "Show the secret of the namespace", Text: "The newest one; it is made if there is none. The server logs each use of this route.",
			Answer: wire.PushSecretForm, Errors: unsupported, ExampleAnswer: exampleSecret,
		}},
		{Method: "POST", Path: pushPath + "/secret/rotate", Access: auth.Admin, MaxBody: smallBody, Handler: a.changing(a.rotate), Doc: route.Doc{
			ID: "rotatePushSecret", Summary: "Give the namespace a new secret", Text: "As for a target. It counts for URLs, and for targets without a secret of their own.",
			Request: wire.PushRotateForm, Status: 204, Errors: unsupported, Example: `{"overlap":"1h"}`,
		}},
		{Method: "GET", Path: pushPath + "/hosts", Access: auth.Produce, Handler: a.onTargets(a.pushHosts), Doc: route.Doc{
			ID: "listPushHosts", Summary: "List the hosts of HTTP push", Text: "The gates of this server, of the hosts that it has sent jobs of this namespace to.",
			Answer: wire.PushHostsForm, Errors: unsupported,
			ExampleAnswer: `{"hosts":[{"host":"https://crm.example:443","open":true,"limit":12,"in_flight":3,"held_back":0,"usual":"40ms"}]}`,
		}},
		{Method: "DELETE", Path: targetPath, Access: auth.Admin, MaxBody: noBody, Handler: a.changing(a.deleteTarget), Doc: route.Doc{
			ID: "deleteTarget", Summary: "Delete a target", Text: "Its jobs wait until there is a target of that name again.", Status: 204, Errors: unknown,
		}},
	}
}
