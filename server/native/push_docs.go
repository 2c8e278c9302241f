package native

import (
	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/wire"
	"github.com/dulymq/duly/server/route"
)

const (
	exampleTarget = `{"name":"crm","url":"https://crm.example/hook","method":"POST","timeout":"10s",` +
		`"concurrency":20,"sign":["v1"],"enabled":true,"header_names":["authorization"],` +
		`"own_secret":false,"version":1}`
	exampleSecret = `{"secret":"whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oDdxUYjN5qPU8=",` +
		`"private_key":"whsk_…","public_key":"whpk_…"}`
)

// The errors of routes for a namespace, and of routes for a target that must exist.
var (
	needsPush   = []duly.Code{duly.CodeUnsupported}
	needsTarget = []duly.Code{duly.CodeUnsupported, duly.CodeNotFound}
)

// The documentation of the routes for HTTP push.
var (
	putTargetDoc = route.Doc{
		ID: "putTarget", Summary: "Create or change a target",
		Text: "A target is a destination with a name. Jobs and queues refer to it as target:NAME. A field that is " +
			"left out gets its default, except the secret, which stays.",
		Request: wire.TargetSettingsForm, Status: 204,
		Errors:  []duly.Code{duly.CodeUnsupported, duly.CodeFull, duly.CodeConflict},
		Example: `{"url":"https://crm.example/hook","headers":{"authorization":"Bearer 7"},"concurrency":20}`,
	}

	listTargetsDoc = route.Doc{
		ID: "listTargets", Summary: "List targets",
		Text: "By name, page by page, each with the gate of its host in this server. The answer has no secrets and " +
			"no values of headers.",
		Answer:        wire.TargetsForm,
		Errors:        needsPush,
		ExampleAnswer: `{"targets":[` + exampleTarget + `],"next":""}`,
	}

	getTargetDoc = route.Doc{
		ID: "getTarget", Summary: "Look at a target",
		Answer:        wire.TargetForm,
		Errors:        needsTarget,
		ExampleAnswer: exampleTarget,
	}

	testTargetDoc = route.Doc{
		ID: "testTarget", Summary: "Send a test request",
		Text: "Sends a signed duly.test to the target, even if the target is disabled or its gate is closed, and " +
			"reports the answer.",
		Answer: wire.PushTestForm,
		Errors: []duly.Code{duly.CodeUnsupported, duly.CodeNotFound, duly.CodeConflict},
		ExampleAnswer: `{"status":204,"as":"ack","took":"31ms",` +
			`"webhook_id":"default/duly~test/01J0000000000000000000000A"}`,
	}

	disableTargetDoc = route.Doc{
		ID: "disableTarget", Summary: "Disable a target",
		Text:   "Nothing is sent to the target. Its jobs wait and use no try. A repeat is safe.",
		Status: 204,
		Errors: needsTarget,
	}

	enableTargetDoc = route.Doc{
		ID: "enableTarget", Summary: "Enable a target",
		Text:   "Sending begins slowly. Jobs that waited are sent within 5 minutes. A repeat is safe.",
		Status: 204,
		Errors: needsTarget,
	}

	rotateTargetSecretDoc = route.Doc{
		ID: "rotateTargetSecret", Summary: "Give a target a new secret",
		Text:    "The new and the old secret both sign until the end of the overlap. A repeat is another rotation.",
		Request: wire.PushRotateForm, Status: 204,
		Errors:  needsTarget,
		Example: `{"overlap":"1h"}`,
	}

	getTargetSecretDoc = route.Doc{
		ID: "getTargetSecret", Summary: "Show the secret of a target",
		Text:          "The newest secret. The server logs each use of this route.",
		Answer:        wire.PushSecretForm,
		Errors:        needsTarget,
		ExampleAnswer: exampleSecret,
	}

	getPushSecretDoc = route.Doc{
		ID: "getPushSecret", Summary: "Show the secret of the namespace",
		Text:          "The newest secret, which is created if there is none. The server logs each use of this route.",
		Answer:        wire.PushSecretForm,
		Errors:        needsPush,
		ExampleAnswer: exampleSecret,
	}

	rotatePushSecretDoc = route.Doc{
		ID: "rotatePushSecret", Summary: "Give the namespace a new secret",
		Text:    "As for a target. The secret counts for URLs, and for targets without a secret of their own.",
		Request: wire.PushRotateForm, Status: 204,
		Errors:  needsPush,
		Example: `{"overlap":"1h"}`,
	}

	listPushHostsDoc = route.Doc{
		ID: "listPushHosts", Summary: "List the hosts of HTTP push",
		Text:   "The gates of this server, of the hosts that it has sent jobs of this namespace to.",
		Answer: wire.PushHostsForm,
		Errors: needsPush,
		ExampleAnswer: `{"hosts":[{"host":"https://crm.example:443","open":true,"limit":12,"in_flight":3,` +
			`"held_back":0,` +
			`"usual":"40ms"}]}`,
	}

	deleteTargetDoc = route.Doc{
		ID: "deleteTarget", Summary: "Delete a target",
		Text:   "Its jobs wait until a target of that name exists again.",
		Status: 204,
		Errors: needsTarget,
	}
)
