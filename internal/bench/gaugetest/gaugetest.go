// Package gaugetest counts requests to Redis in tests.
package gaugetest

import (
	"testing"

	"github.com/dulymq/duly/internal/bench/redisgauge"
)

// Requests returns how many requests the servers of a URL get while do runs, from any client.
func Requests(t testing.TB, url string, do func()) int64 {
	t.Helper()
	g, err := redisgauge.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	stop, err := g.Watch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	do()
	n, err := stop(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return n
}
