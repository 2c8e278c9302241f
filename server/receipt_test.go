package server

import (
	"strings"
	"testing"

	"github.com/dulymq/duly"
)

// C14.48: a receipt finds its job, even a job whose ID the producer chose, and only in its own
// namespace.
func TestJobIsFoundByItsReceipt(t *testing.T) {
	t.Parallel()
	f := serve(t, nil)
	f.send("POST", "/v1/default/push", `{"jobs":[{"queue":"q","id":"order:1","backoff":"fixed:1h"}]}`)
	got, err := f.engine.Reserve(t.Context(), duly.ReserveParams{Queues: []string{"q"}, Max: 1})
	if err != nil || len(got) != 1 {
		t.Fatal(got, err)
	}
	receipt := string(got[0].Receipt)
	f.send("POST", "/v1/default/settle", `{"outcomes":[{"receipt":"`+receipt+`","as":"nack"}]}`)

	for _, tt := range []struct {
		path, caller string
		status       int
		want         string
	}{
		{"/v1/default/receipts/" + receipt, "consume", 200, `"id":"order:1","queue":"q"`},
		{"/v1/default/receipts/" + receipt, "consume", 200, `"state":"delayed"`},
		{"/v1/default/receipts/" + receipt, "produce", 403, "consume"},
		{"/v1/default/receipts/" + receipt, "foreign", 403, "namespace"},
		{"/v1/other/receipts/" + receipt, "foreign", 404, "not_found"},
		{"/v1/default/receipts/q:0:x:1", "consume", 400, `"field":"receipt"`},
		{"/v1/default/receipts/" + receipt + "?x=1", "consume", 400, "query"},
	} {
		if a := f.send("GET", tt.path, "", tt.caller); a.status != tt.status || !strings.Contains(a.body, tt.want) {
			t.Errorf("%s as %s: %d %s, want %d with %s", tt.path, tt.caller, a.status, a.body, tt.status, tt.want)
		}
	}
}
