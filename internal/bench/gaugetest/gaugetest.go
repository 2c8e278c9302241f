// Package gaugetest counts what tests ask of Redis.
package gaugetest

import (
	"testing"

	"github.com/dulymq/duly/internal/bench/redisgauge"
)

// Requests is how many the servers of a URL get while do runs, from whomever.
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
