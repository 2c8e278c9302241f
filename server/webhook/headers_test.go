package webhook

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/dulymq/duly"
)

// C16.35, C16.36: the names that a job of a push queue must not have.
func TestCheckJobHeaders(t *testing.T) {
	t.Parallel()
	good := map[string]string{"content-type": "a/b", "traceparent": "x", "tracestate": "y", "x-a": "b", "idempotency-key": "1", "webhook": "x", "accept": "*/*"}
	if err := CheckJobHeaders(good); err != nil {
		t.Error(err)
	}
	for _, name := range []string{
		"webhook-id", "webhook-timestamp", "webhook-signature", "duly-namespace", "duly-queue", "duly-id", "duly-attempt", "duly-tries", "duly-due", "user-agent",
		"connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade",
		"host", "content-length", "expect", "authorization", "cookie", "Webhook-ID", "COOKIE",
	} {
		err := CheckJobHeaders(map[string]string{name: "canary"})
		if !errors.Is(err, duly.ErrInvalid) || !strings.Contains(err.Error(), strings.ToLower(name)) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v, want invalid", name, err)
		}
	}
}

// C16.21: the headers of a target are bounded, and an error shows no value.
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
		"credentials": {"Authorization": "Bearer x", "cookie": "a=b"}, "32": many(32, 10), "8 KiB": many(1, MaxTargetHeaderBytes), "tab": {"x": "a\tb"}, "none": nil,
	} {
		if err := CheckTargetHeaders(h); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, h := range map[string]map[string]string{
		"33": many(33, 10), "8 KiB and a byte": many(1, MaxTargetHeaderBytes+1), "no name": {"": "canary"}, "a space": {"x y": "canary"},
		"CR": {"x": "canary\rb"}, "LF": {"x": "canary\nb"}, "NUL": {"x": "canary\x00"}, "DEL": {"x": "canary\x7f"}, "twice": {"x": "canary", "X": "canary"},
		"host": {"Host": "canary"}, "the signature": {"webhook-signature": "canary"},
	} {
		if err := CheckTargetHeaders(h); !errors.Is(err, duly.ErrInvalid) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v, want invalid", name, err)
		}
	}
}
