package dashboard

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
)

// P12.1: every field of the form reaches the job. The page goes to the job, and the audit log has no body.
func TestPushForm(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	b := r.login("both")
	if a := b.get("/ui/n/shop/q/mail/push"); a.status != 200 || !strings.Contains(a.body, `placeholder="16, as the queue says"`) {
		t.Errorf("the form has the status %d: %s", a.status, a.body)
	}
	r.audited()
	form := url.Values{
		"once": {"1"}, "body": {"line 1\r\nline 2"}, "headers": {"Trace: a:b\r\n\r\n x-y :z"}, "id": {"job-1"}, "delay": {"1h"},
		"priority": {"-7"}, "order_key": {"key"}, "merge.key": {"m"}, "merge.mode": {"replace"}, "tries": {"3"},
		"backoff": {"fixed:5s"}, "lease": {"1m"}, "ttl": {"2d"}, "retain": {"1h"}, "max_stalls": {"none"},
	}
	a := b.post("/ui/n/shop/q/mail/push", form)
	if a.header.Get("Location") != "/ui/n/shop/q/mail/j/job-1" {
		t.Fatalf("the push has the status %d and goes to %q: %s", a.status, a.header.Get("Location"), a.body)
	}
	j, err := r.engine.Get(t.Context(), duly.QueueRef{Namespace: "shop", Name: "mail"}, "job-1")
	if err != nil {
		t.Fatal(err)
	}
	got, _ := json.Marshal([]any{string(j.Body), j.Headers, j.Priority, j.OrderKey, j.Merge.Key, fmt.Sprint(j.Merge.Mode), j.Tries,
		j.Backoff, j.Lease, j.Retain, j.State.String(), j.Due.Sub(r.clock.Now())})
	want, _ := json.Marshal([]any{"line 1\nline 2", map[string]string{"trace": "a:b", "x-y": "z"}, -7, "key", "m", "replace", 3,
		"fixed:5s", time.Minute, time.Hour, "delayed", time.Hour})
	if string(got) != string(want) {
		t.Errorf("the job is %s, want %s", got, want)
	}
	if lines := r.audited(); len(lines) != 2 || lines[0].Route != pushForm.api || lines[0].Jobs[0] != "job-1" {
		t.Errorf("the lines are %+v", lines)
	}
	if strings.Contains(r.log.String(), "line 1") {
		t.Error("the log has the body")
	}

	// A double click pushes one job, also without an ID.
	for range 2 {
		b.post("/ui/n/shop/q/mail/push", url.Values{"once": {"2"}, "body": {"x"}})
	}
	if stats, err := r.engine.Stats(t.Context(), duly.QueueRef{Namespace: "shop", Name: "mail"}); err != nil || stats.Sizes.Ready != 1 {
		t.Errorf("two clicks make %d jobs, %v", stats.Sizes.Ready, err)
	}
}

// P12.1: a refusal of the API appears at its field, and the form keeps its content.
func TestPushFormRefusals(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	b := r.login("both")
	for _, tt := range []struct{ field, value, want string }{
		{"delay", "soon", "delay "}, {"priority", "high", "priority "}, {"tries", "0", "tries "}, {"id", "a b", "id "},
		{"backoff", "exp", "backoff "}, {"due", "today", "due "}, {"merge.mode", "all", "merge.mode "}, {"headers", "bad name: x", "headers"},
	} {
		form := url.Values{"once": {"1"}, "body": {"<kept>"}, tt.field: {tt.value}}
		a := b.post("/ui/n/shop/q/mail/push", form)
		if a.status != http.StatusBadRequest || !strings.Contains(a.body, `<p role="alert">`+tt.want) ||
			!strings.Contains(a.body, "&lt;kept&gt;</textarea>") {
			_, alert, _ := strings.Cut(a.body, `<p role="alert">`)
			t.Errorf("%s %q has the status %d: %.100s", tt.field, tt.value, a.status, alert)
		}
	}
	if err := r.engine.Configure(t.Context(), duly.QueueRef{Namespace: "shop", Name: "mail"}, duly.QueueConfig{MaxJobs: 1}); err != nil {
		t.Fatal(err)
	}
	r.push(duly.Job{ID: "one"})
	a := b.post("/ui/n/shop/q/mail/push", url.Values{"once": {"2"}, "body": {"<kept>"}})
	if a.status != http.StatusServiceUnavailable && a.status != 507 || !strings.Contains(a.body, "kept") ||
		!strings.Contains(a.body, "max_jobs is 1") {
		t.Errorf("a full queue has the status %d: %s", a.status, a.body)
	}
}

// P6: a copy of a job fills the form. It needs the right to read the job.
func TestPushCopy(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	id := r.push(duly.Job{Body: []byte(`{"n":9007199254740993}`), Headers: map[string]string{"a": "b"}, Priority: 4, OrderKey: "k"})
	text := r.login("both").get("/ui/n/shop/q/mail/push?copy=" + id).body
	for _, part := range []string{"{&#34;n&#34;:9007199254740993}</textarea>", "a: b\n</textarea>", `name="priority" value="4"`,
		`name="order_key" value="k"`, `name="id" value=""`} {
		if !strings.Contains(text, part) {
			t.Errorf("the copy lacks %s: %s", part, text)
		}
	}
	if a := r.login("produce").get("/ui/n/shop/q/mail/push?copy=" + id); a.status != http.StatusForbidden {
		t.Errorf("without the right consume a copy has the status %d", a.status)
	}
	bytes := r.push(duly.Job{Body: []byte{0xff}})
	if a := r.login("both").get("/ui/n/shop/q/mail/push?copy=" + bytes); a.status != http.StatusBadRequest {
		t.Errorf("a copy of bytes has the status %d", a.status)
	}
}
