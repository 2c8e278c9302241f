package native

import (
	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/wire"
	"github.com/dulymq/duly/server/route"
)

const exampleOperation = `"kind":"requeue","queue":"mail","by":"4f0c1d2e",` +
	`"filter":"dead jobs of the group c4e7bfbe4fea that died until 2030-01-01 00:00:00.000 UTC",` +
	`"group":"c4e7bfbe4fea","job_state":"dead","state":"running","rate":100,"current_rate":99.6,"found":100000,` +
	`"counted":true,"taken":4200,"done":4190,"skipped":10,"failed":0,"started":"2030-01-01T00:00:00.000Z",` +
	`"expected_end":"2030-01-01T00:16:44.000Z"`

// The errors of routes for one operation.
var needsOperation = []duly.Code{duly.CodeNotFound, duly.CodeConflict}

// The documentation of the routes for bulk operations.
var (
	startOperationDoc = route.Doc{
		ID: "startOperation", Summary: "Start an operation",
		Text: "Requeues, deletes, promotes or purges many jobs in the background. The server stores the operation " +
			"before it answers. A requeue and a purge need admin. A deletion and a promotion need produce, and " +
			"without ids also consume. Four operations run at once on a server, and further ones are queued. A " +
			"repeat starts another operation, which finds only what is left.",
		Request: wire.NewOperationForm, Answer: wire.OperationForm,
		Errors:  []duly.Code{duly.CodeFull},
		Example: `{"kind":"promote","queue":"mail","ids":["order:4","order:5"],"rate":100}`,
		ExampleAnswer: `{"id":"01J0000000000000000000000E","kind":"promote","queue":"mail","by":"4f0c1d2e",` +
			`"filter":"2 jobs by ID, the first is order:4","ids":2,"state":"queued","rate":100,"found":2,"counted":true,` +
			`"taken":0,"done":0,"skipped":0,"failed":0,"started":"2030-01-01T00:00:00.000Z"}`,
	}

	listOperationsDoc = route.Doc{
		ID: "listOperations", Summary: "List operations",
		Text: "The newest first, page by page, without their answers. The list has the operations of the server " +
			"that answers, which keeps the last 1000 that have ended, for 30 days.",
		Answer: wire.OperationsForm, ExampleQuery: "?limit=10",
		ExampleAnswer: `{"operations":[{"id":"01J0000000000000000000000E",` + exampleOperation + `}],"next":""}`,
	}

	getOperationDoc = route.Doc{
		ID: "getOperation", Summary: "Look at an operation",
		Text: "With its progress and the last 100 results of jobs. done, skipped and failed together are always " +
			"taken.",
		Answer: wire.OperationForm,
		Errors: []duly.Code{duly.CodeNotFound},
		ExampleAnswer: `{"id":"01J0000000000000000000000E",` + exampleOperation + `,"answers":[{` +
			`"at":"2030-01-01T00:00:42.000Z","id":"order:2","outcome":"done"}]}`,
	}

	pauseOperationDoc = route.Doc{
		ID: "pauseOperation", Summary: "Pause an operation",
		Text:   "It answers when no further job is taken, within a second. A repeat is safe.",
		Status: 204,
		Errors: needsOperation,
	}

	continueOperationDoc = route.Doc{
		ID: "continueOperation", Summary: "Continue an operation",
		Text: "After a pause, after a restart of the server, or after the canary. The operation is queued. After a " +
			"restart, an operation that had its canary waits for the next continue.",
		Status: 204,
		Errors: needsOperation,
	}

	stopOperationDoc = route.Doc{
		ID: "stopOperation", Summary: "Stop an operation",
		Text: "It answers when no further job is taken, within a second. A stopped operation cannot continue. A " +
			"repeat is safe.",
		Status: 204,
		Errors: needsOperation,
	}
)
