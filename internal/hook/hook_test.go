package hook

import "testing"

// C16.35, C16.36: a job of a push queue can't have these header names.
func TestKindOfFindsForbiddenHeaders(t *testing.T) {
	t.Parallel()
	for kind, names := range map[HeaderKind][]string{
		Free: {"content-type", "traceparent", "tracestate", "x-a", "idempotency-key", "webhook", "accept", "duly"},
		Own: {
			"webhook-id", "webhook-timestamp", "webhook-signature", "duly-namespace", "duly-queue", "duly-id",
			"duly-attempt", "duly-tries", "duly-due", "user-agent",
		},
		Connection: {
			"connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection",
			"te", "trailer", "transfer-encoding", "upgrade", "host", "content-length", "expect",
		},
		Credential: {"authorization", "cookie"},
	} {
		for _, name := range names {
			if got := KindOf(name); got != kind || (got.Reason() == "") != (kind == Free) {
				t.Errorf("%s is of kind %d, %q; want kind %d", name, got, got.Reason(), kind)
			}
		}
	}
}
