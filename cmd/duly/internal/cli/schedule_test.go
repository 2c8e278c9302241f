package cli

import "testing"

// The commands for schedules print text.
func TestScheduleCommandsPrintText(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.do("schedule", "put", "reports", "nightly", "0 3 * * *", "all", "--zone", "Europe/Berlin", "--tries", "3",
		"--owner", "reports-app", "--header", "lang=de", "--kind", "report")
	r.do("schedule", "put", "reports", "nightly", "0 3 * * *", "all", "--zone", "Europe/Berlin", "--tries", "3",
		"--owner", "reports-app", "--header", "lang=de", "--kind", "report")
	r.do("schedule", "put", "mail", "digest", "@every 90s", "--jitter", "10s", "--overlap", "all")
	r.do("schedule", "list")
	r.do("schedule", "list", "mail")
	r.do("schedule", "get", "reports", "nightly")
	r.do("schedule", "next", "reports", "nightly", "--count", "2", "--from", "2030-03-30T00:00:00Z")
	r.do("stats", "reports")
	r.do("schedule", "pause", "reports", "nightly")
	r.do("schedule", "list", "reports")
	r.do("schedule", "next", "reports", "nightly", "--count", "1", "--from", "2030-03-30T00:00:00Z")
	r.do("schedule", "next", "reports", "nightly", "--count", "1", "--from", "2030-03-30T00:00:00Z", "--json")
	r.do("schedule", "resume", "reports", "nightly")
	r.ok("schedule", "trigger", "mail", "digest")
	r.do("schedule", "put", "reports", "weekly", "@weekly", "--owner", "reports-app")
	r.do("schedule", "prune", "--owner", "reports-app", "--keep", "nightly", "--yes")
	r.do("schedule", "prune", "--owner", "reports-app", "--keep", "nightly", "--yes")
	r.do("schedule", "delete", "reports", "nightly")
	r.do("schedule", "list", "reports")
	r.golden("schedule")
}

// C15.33: --json prints the JSON of the HTTP API, and the queue of each schedule.
func TestScheduleCommandsPrintJSON(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.do("schedule", "put", "reports", "nightly", "0 3 * * *", "--zone", "Europe/Berlin", "--json")
	r.do("schedule", "list", "--json")
	r.do("schedule", "get", "reports", "nightly", "--json")
	r.do("schedule", "next", "reports", "nightly", "--count", "2", "--from", "2030-03-30T00:00:00Z", "--json")
	r.do("schedule", "pause", "reports", "nightly", "--json")
	r.do("schedule", "delete", "reports", "nightly", "--json")
	r.golden("schedule-json")
}

// C15.35, C15.49: errors of schedules name the field, the bound and the next step.
func TestScheduleErrorsNameFieldAndBound(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.ok("schedule", "put", "reports", "nightly", "0 3 * * *", "--owner", "a")
	r.do("schedule", "put", "reports", "nightly", "60 * * * *")
	r.do("schedule", "put", "reports", "nightly", "@reboot")
	r.do("schedule", "put", "reports", "nightly", "0 0 30 2 *", "--owner", "a")
	r.do("schedule", "put", "reports", "nightly", "@daily", "--zone", "Mars/Phobos")
	r.do("schedule", "put", "reports", "a schedule", "@daily")
	r.do("schedule", "put", "reports", "nightly", "@daily", "--overlap", "maybe")
	r.do("schedule", "put", "reports", "nightly", "@daily", "--merge-key", "k")
	r.do("schedule", "put", "reports", "nightly", "@daily", "--jitter", "25h")
	r.do("schedule", "put", "reports", "nightly", "@daily", "--owner", "b")
	r.do("schedule", "get", "reports", "nigthly")
	r.do("schedule", "pause", "reports", "nigthly")
	r.do("schedule", "trigger", "reports", "nigthly")
	r.do("schedule", "prune")
	r.do("schedule", "prune", "--owner", "a")
	r.do("schedule", "next")
	r.do("schedule", "next", "--spec", "0 0 * *")
	r.do("schedule", "next", "reports", "nightly", "--spec", "@daily")
	r.golden("schedule-errors")
}

// The ticks of an expression need no store. They pass the changes of the clock in spring and in
// autumn.
func TestNextTicksOfAnExpression(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.do("schedule", "next", "--spec", "30 2 * * *", "--zone", "Europe/Berlin", "--from", "2026-03-27T23:00:00Z",
		"--count", "3")
	r.do("schedule", "next", "--spec", "30 2 * * *", "--zone", "Europe/Berlin", "--from", "2026-10-23T23:00:00Z",
		"--count", "3")
	r.do("schedule", "next", "--spec", "0 0 29 2 *", "--count", "2", "--from", "2097-01-01T00:00:00Z", "--json")
	r.golden("schedule-next")
}
