package native

import (
	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/wire"
	"github.com/dulymq/duly/server/route"
)

// exampleOperation is the operation of all examples. Its second job comes 20 s after the first.
const exampleOperation = `"id":"01J0000000000000000000000E","kind":"promote","queue":"video","by":"4f0c1d2e",` +
	`"filter":"3 jobs by ID, the first is clip:7","ids":3,"state":`

const exampleProgress = `"rate":0.05,"found":3,"counted":true,"taken":1,"done":1,"skipped":0,"failed":0,` +
	`"started":"2030-01-01T00:00:00.000Z"`

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
		Example: `{"kind":"promote","queue":"video","ids":["clip:7","clip:8","clip:9"],"rate":0.05}`,
		ExampleAnswer: `{` + exampleOperation + `"queued","rate":0.05,"found":3,"counted":true,` +
			`"taken":0,"done":0,"skipped":0,"failed":0,"started":"2030-01-01T00:00:00.000Z"}`,
	}

	listOperationsDoc = route.Doc{
		ID: "listOperations", Summary: "List operations",
		Text: "The newest first, page by page, without their answers. The list has the operations of the server " +
			"that answers, which keeps the last 1000 that have ended, for 30 days.",
		Answer: wire.OperationsForm, ExampleQuery: "?limit=10",
		ExampleAnswer: `{"operations":[{` + exampleOperation + `"running",` + exampleProgress + `}],"next":""}`,
	}

	getOperationDoc = route.Doc{
		ID: "getOperation", Summary: "Look at an operation",
		Text: "With its progress and the last 100 results of jobs. done, skipped and failed together are always " +
			"taken.",
		Answer: wire.OperationForm,
		Errors: []duly.Code{duly.CodeNotFound},
		ExampleAnswer: `{` + exampleOperation + `"running",` + exampleProgress + `,"answers":[{` +
			`"at":"2030-01-01T00:00:00.004Z","id":"clip:7","outcome":"done"}]}`,
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
