package webhook

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/dulymq/duly"
)

// C16.21: the headers of a target are limited in number and size. An error never contains a
// header's value.
func TestCheckTargetHeaders(t *testing.T) {
	t.Parallel()
	many := func(n, size int) map[string]string {
		h := map[string]string{}
		for i := range n {
			name := fmt.Sprintf("x-%02d", i)
			h[name] = strings.Repeat("v", size-len(name))
		}
		return h
	}

	for name, h := range map[string]map[string]string{
		"credentials": {"Authorization": "Bearer x", "cookie": "a=b"}, "32": many(32, 10),
		"8 KiB": many(1, MaxTargetHeaderBytes), "tab": {"x": "a\tb"}, "none": nil,
	} {
		if err := CheckTargetHeaders(h); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}

	for name, h := range map[string]map[string]string{
		"33": many(33, 10), "8 KiB and a byte": many(1, MaxTargetHeaderBytes+1), "no name": {"": "canary"},
		"a space": {"x y": "canary"},
		"CR":      {"x": "canary\rb"}, "LF": {"x": "canary\nb"}, "NUL": {"x": "canary\x00"},
		"DEL": {"x": "canary\x7f"}, "twice": {"x": "canary", "X": "canary"},
		"host": {"Host": "canary"}, "the signature": {"webhook-signature": "canary"},
	} {
		if err := CheckTargetHeaders(h); !errors.Is(err, duly.ErrInvalid) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v, want invalid", name, err)
		}
	}
}
