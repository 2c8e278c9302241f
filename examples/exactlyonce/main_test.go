package main

import (
	"strings"
	"testing"
)

// Each payment is delivered twice and counts once.
func TestEachPaymentCountsOnce(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	if err := run(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	if want := "6 deliveries, ann has 20, bob has 10\n"; out.String() != want {
		t.Errorf("printed %q, want %q", out.String(), want)
	}
}
