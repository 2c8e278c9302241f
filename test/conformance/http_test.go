package conformance_test

import (
	"testing"

	"github.com/dulymq/duly/test/conformance"
)

// C11.32: the contract over the native API passes the same suite.
func TestHTTPOverTheModel(t *testing.T) {
	t.Parallel()
	conformance.InMemory(openModel).Run(t)
}

// C11.32: whatever is done in whatever order, a remote engine answers what the
// reference model answers.
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

// C11.32: and so does what people run: a file, a server, and real sockets.
func TestHTTPOverSQLiteOnLoopback(t *testing.T) {
	if testing.Short() {
		t.Skip("a short run has TestHTTPOverTheModel, the same suite in memory")
	}
	t.Parallel()
	conformance.OnLoopback(openSQLite).Run(t)
}
