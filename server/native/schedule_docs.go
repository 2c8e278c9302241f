package native

import (
	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/wire"
	"github.com/dulymq/duly/server/route"
)

const exampleSchedule = `{"name":"nightly","spec":"0 3 * * *","zone":"Europe/Berlin","window":"24h",` +
	`"catchup":"one","overlap":"skip","template":{"body":"report"},"version":1893456000000000,"paused":false,` +
	`"next":"2030-01-01T02:00:00.000Z","fired":0,"skipped":0,"missed":0}`

// The documentation of the routes for schedules.
var (
	putScheduleDoc = route.Doc{
		ID: "putSchedule", Summary: "Create or change a schedule",
		Text: "The queue gets a job at each tick of the expression. An unchanged schedule keeps its next tick, so a " +
			"deployment can send all of its schedules. A change of spec, zone, start or end moves the next tick. " +
			"A repeat is safe.",
		Request: wire.ScheduleForm, Answer: wire.SchedulePutForm,
		Errors:        []duly.Code{duly.CodeUnsupported, duly.CodeConflict, duly.CodeFull},
		Example:       `{"spec":"0 3 * * *","zone":"Europe/Berlin","template":{"body":"report"}}`,
		ExampleAnswer: `{"outcome":"created","version":1893456000000000,"next":"2030-01-01T02:00:00.000Z"}`,
	}

	getScheduleDoc = route.Doc{
		ID: "getSchedule", Summary: "Look at a schedule",
		Text:          "The schedule with every default filled in, its next tick and its counters.",
		Answer:        wire.ScheduleInfoForm,
		Errors:        []duly.Code{duly.CodeUnsupported, duly.CodeNotFound},
		ExampleAnswer: exampleSchedule,
	}

	listSchedulesDoc = route.Doc{
		ID: "listSchedules", Summary: "List the schedules of a queue",
		Text: "Shard by shard, by the next tick. Paused schedules and those without a next tick come last. A queue " +
			"that does not exist has none. One answer has up to 100 schedules.",
		Answer: wire.SchedulesForm, ExampleQuery: "?limit=10",
		Errors:        []duly.Code{duly.CodeUnsupported},
		ExampleAnswer: `{"schedules":[` + exampleSchedule + `],"next":""}`,
	}

	pauseScheduleDoc = route.Doc{
		ID: "pauseSchedule", Summary: "Pause a schedule",
		Text:   "Its ticks make no runs. Jobs that exist continue.",
		Status: 204,
		Errors: []duly.Code{duly.CodeUnsupported, duly.CodeNotFound},
	}

	resumeScheduleDoc = route.Doc{
		ID: "resumeSchedule", Summary: "Resume a schedule",
		Text:   "Ends a pause. The ticks of the pause count as missed and make no runs.",
		Status: 204,
		Errors: []duly.Code{duly.CodeUnsupported, duly.CodeNotFound},
	}

	triggerScheduleDoc = route.Doc{
		ID: "triggerSchedule", Summary: "Push a run now",
		Text: "Pushes a run apart from the ticks. It follows the overlap policy, so it may be merged into an earlier " +
			"run. A repeat is another run.",
		Answer:        wire.PushedOneForm,
		Errors:        []duly.Code{duly.CodeUnsupported, duly.CodeNotFound, duly.CodeFull},
		ExampleAnswer: `{"id":"01J0000000000000000000000D","outcome":"created"}`,
	}

	deleteScheduleDoc = route.Doc{
		ID: "deleteSchedule", Summary: "Delete a schedule",
		Text: "Its runs stay. With version, a schedule that has changed since is a conflict.", Status: 204,
		Errors: []duly.Code{duly.CodeUnsupported, duly.CodeNotFound, duly.CodeConflict},
	}
)
