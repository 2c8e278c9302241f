package conformance_test

import (
	"testing"

	"github.com/dulymq/duly/test/conformance"
)

// TestHTTPOverTheModel runs the suite through the native API (C11.32).
func TestHTTPOverTheModel(t *testing.T) {
	t.Parallel()
	conformance.InMemory(openModel).Run(t)
}

// TestHTTPIsTheModel runs random operations in random order. A remote engine must return what the
// reference model returns (C11.32).
func TestHTTPIsTheModel(t *testing.T) {
	t.Parallel()
	conformance.InMemory(openModel).Model(t)
}

func TestTopicsOverHTTPAreTheModels(t *testing.T) {
	t.Parallel()
	s := conformance.InMemory(openModel)
	s.Sequences = 100
	s.TopicModel(t)
}

func TestSchedulesOverHTTPAreTheModels(t *testing.T) {
	t.Parallel()
	s := conformance.InMemory(openModel)
	s.Sequences = 100
	s.ScheduleModel(t)
}

// TestHTTPOverSQLiteOnLoopback runs the suite with what users run: a file, a server, and real
// sockets (C11.32).
func TestHTTPOverSQLiteOnLoopback(t *testing.T) {
	if testing.Short() {
		t.Skip("a short run has TestHTTPOverTheModel, the same suite in memory")
	}
	t.Parallel()
	conformance.OnLoopback(openSQLite).Run(t)
}
