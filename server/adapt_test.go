package server

import (
	"strings"
	"testing"

	"github.com/dulymq/duly"
)

// C18.58, C18.60: settle takes slow with the right consume. Only an admin sets adapt, and opens a
// queue. GET returns the state of the limits.
func TestAdaptiveLimitOverHTTP(t *testing.T) {
	t.Parallel()
	f := serve(t, nil)
	const queue = "/v1/default/queues/mail"
	const adapt, reopen = `{"max_leased":8,"adapt":{"floor":0.25}}`, `{"closed":"none"}`
	for _, body := range []string{adapt, reopen} {
		if a := f.send("PATCH", queue, body, "consume"); a.status != 403 {
			t.Errorf("a consumer sends %s: %d %s", body, a.status, a.body)
		}
	}
	shows := func(why string, wants ...string) {
		t.Helper()
		a := f.send("GET", queue, "", "admin")
		for _, want := range wants {
			if !strings.Contains(a.body, want) {
				t.Errorf("%s: the queue is %s, want %s", why, a.body, want)
			}
		}
	}

	shows("a new queue", `"adapt":"none"`)
	if a := f.send("PATCH", queue, adapt, "admin"); a.status != 204 {
		t.Fatalf("an admin sets adapt: %d %s", a.status, a.body)
	}
	shows("with an adaptive limit", `"adapt":{"floor":0.25}`, `"factor":1`)

	// A consumer alone closes the queue, and lowers its limits.
	f.push("mail", "x")
	receipt := receiptIn(f.send("POST", "/v1/default/reserve", `{"queues":["mail"]}`, "consume").body)
	slow := `{"outcomes":[{"receipt":"` + receipt + `","as":"release","slow":"30s","error":"HTTP 429"}]}`
	if a := f.send("POST", "/v1/default/settle", slow, "produce"); a.status != 403 {
		t.Errorf("a producer settles: %d %s", a.status, a.body)
	}
	if a := f.send("POST", "/v1/default/settle", slow, "consume"); a.status != 200 {
		t.Errorf("a consumer settles: %d %s", a.status, a.body)
	}
	shows("after an overload", `"factor":0.5`, `"closed_reason":"HTTP 429"`, `"closed_until":`, `"slowed":1`)

	if a := f.send("PATCH", queue, reopen, "admin"); a.status != 204 {
		t.Errorf("an admin opens the queue: %d %s", a.status, a.body)
	}
	if a := f.send("GET", queue, "", "admin"); strings.Contains(a.body, "closed_until") {
		t.Errorf("the open queue is %s", a.body)
	}
	if a := f.send("PATCH", queue, `{"adapt":"none"}`, "admin"); a.status != 204 {
		t.Errorf("an admin ends adapt: %d %s", a.status, a.body)
	}
	shows("without an adaptive limit", `"adapt":"none"`)

	for body, field := range map[string]string{
		`{"adapt":{"floor":0}}`: "adapt.floor", `{"adapt":{"floor":1.1}}`: "adapt", `{"adapt":{}}`: "adapt.floor",
		`{"max_leased":"none","adapt":{"floor":0.5}}`: "adapt", `{"adapt":{"floor":0.5,"ceiling":1}}`: "request",
	} {
		a := f.send("PATCH", queue, body, "admin")
		if err := a.err(); a.status != 400 || err.Code != duly.CodeInvalid || err.Fields[0].Field != field {
			t.Errorf("%s: %d %s, want the field %s", body, a.status, a.body, field)
		}
	}
}

// receiptIn returns the first receipt of an answer.
func receiptIn(body string) string {
	_, rest, _ := strings.Cut(body, `"receipt":"`)
	receipt, _, _ := strings.Cut(rest, `"`)
	return receipt
}
