package conformance_test

import (
	"testing"

	"github.com/dulymq/duly/internal/proctest"
	"github.com/dulymq/duly/test/conformance"
)

// TestHTTPOverTheModel runs the suite through the native API (C11.32). A short run looks for data
// races. It has one call of each kind, and the subjects with concurrent calls.
func TestHTTPOverTheModel(t *testing.T) {
	t.Parallel()
	s := conformance.InMemory(openModel)
	if testing.Short() {
		s.Subjects = []string{"Input", "Push", "Job", "Batch", "Reserve", "Wait", "Lease", "Settle", "Requeue", "Inspect",
			"Explain", "Stats", "List", "Update", "Operator", "Limits", "TokenLimits", "TokenWatch", "Cancels", "Placements", "Targets",
			"Errors", "Concurrency", "TopicPublish", "TopicGroup", "TopicReserve", "TopicSettle", "TopicRead", "TopicSeek",
			"SchedulePut", "ScheduleOperate", "ScheduleRead", "ScheduleWake", "Slow", "Adapt"}
	}
	s.Run(t)
}

// TestHTTPMatchesTheModel runs random operations in random order. A remote engine must return what the
// reference model returns (C11.32).
func TestHTTPMatchesTheModel(t *testing.T) {
	t.Parallel()
	s := conformance.InMemory(openModel)
	s.Sequences = 100
	s.Model(t)
}

func TestTopicsOverHTTPMatchTheModel(t *testing.T) {
	t.Parallel()
	s := conformance.InMemory(openModel)
	s.Sequences = 40
	s.TopicModel(t)
}

func TestSchedulesOverHTTPMatchTheModel(t *testing.T) {
	t.Parallel()
	s := conformance.InMemory(openModel)
	s.Sequences = 40
	s.ScheduleModel(t)
}

// TestHTTPOverSQLiteOnLoopback runs the suite with what users run: a file, a server, and real
// sockets (C11.32). The short form leaves out what the server only passes on.
func TestHTTPOverSQLiteOnLoopback(t *testing.T) {
	if testing.Short() {
		t.Skip("a short run has TestHTTPOverTheModel, the same suite in memory")
	}
	t.Parallel()
	s := conformance.OnLoopback(openSQLite)
	if !proctest.Long() {
		s.Subjects = []string{"Input", "Push", "Job", "Batch", "Reserve", "Wait", "Settle", "Requeue", "Inspect",
			"Explain", "Keys", "List", "Update", "Payload", "Cancels", "Errors", "Concurrency", "TopicPublish", "TopicRead",
			"TopicReserve",
			"TopicSettle", "SchedulePut", "ScheduleRead", "Slow", "Adapt"}
	}
	s.Run(t)
}
