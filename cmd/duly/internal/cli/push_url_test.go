package cli

import (
	"strings"
	"testing"

	"github.com/dulymq/duly"
)

// job get shows the destinations of a job with --callback, --on-done and --on-dead. queue set makes
// a push queue and shows its URL and destination.
func TestPushWithCallback(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if code, _, errs := r.run("push", "orders", "x", "--id", "a", "--callback", "https://crm.example/hook", "--on-done",
		"target:crm", "--on-dead", "https://crm.example/dead"); code != 0 {
		t.Fatal(errs)
	}
	_, out, errs := r.run("job", "get", "orders", "a")

	for _, want := range []string{"https://crm.example/hook", "target:crm", "https://crm.example/dead"} {
		if !strings.Contains(out, want) {
			t.Errorf("the job is shown without %s: %s%s", want, out, errs)
		}
	}

	code, out, errs := r.run("queue", "set", "mails", "--delivery", "push", "--push-url", "https://mail.example/",
		"--on-dead", "target:alerts")
	if code != 0 || !strings.Contains(out, "push url") || !strings.Contains(out, "https://mail.example/") ||
		!strings.Contains(out, "target:alerts") {
		t.Errorf("queue set: %s%s", out, errs)
	}
	c, err := r.engine.Config(t.Context(), duly.QueueRef{Namespace: "default", Name: "mails"})
	if err != nil || c.Delivery != duly.DeliverPush ||
		c.Push != (duly.PushConfig{URL: "https://mail.example/", OnDone: duly.NoDestination, OnDead: "target:alerts"}) {
		t.Errorf("the queue is %+v, %v", c, err)
	}
	if code, _, errs := r.run("queue", "set", "mails", "--delivery", "pulled"); code == 0 ||
		!strings.Contains(errs, "pull or push") {
		t.Errorf("a bad delivery: %d %s", code, errs)
	}
}
