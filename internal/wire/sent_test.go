package wire

import (
	"bytes"
	"strings"
	"testing"

	"github.com/dulymq/duly"
)

// C14.7: a body that would be more than twice as long as text is sent as base64.
func TestBodyOfARequestNeverMoreThanDoubles(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		body string
		text bool
	}{
		"text": {strings.Repeat("a", 9000), true}, "quoted JSON": {strings.Repeat(`{"a":"b"}`, 1000), true},
		"control characters": {strings.Repeat("\x01", 9000), false}, "NULs": {strings.Repeat("\x00", 9000), false},
		"nothing": {"", true},
	} {
		requests := map[string][]byte{
			"push":   AppendPush(nil, []duly.Job{{Queue: "q", Body: []byte(tt.body)}}),
			"update": UpdateForm.Append(nil, duly.Update{Body: []byte(tt.body)}),
			"settle": AppendSettle(nil, []duly.SettleRequest{{As: duly.Ack, Result: []byte(tt.body)}}),
		}
		for operation, r := range requests {
			if len(r) > 2*len(tt.body)+200 || bytes.Contains(r, []byte("_base64")) == tt.text {
				t.Errorf("%s of %s has %d bytes: %.80s", operation, name, len(r), r)
			}
		}

		jobs, err := ReadPush(string(requests["push"]), "")
		if err != nil || jobs.Errs != nil || string(jobs.Values[0].Body) != tt.body {
			t.Errorf("%s is read back wrongly: %v", name, err)
		}
	}
}

// C14.7: a body or a result with a NUL is base64, in requests and in answers. The test checks the
// text itself, because a reader accepts a NUL in either form.
func TestBytesWithNULAreBase64(t *testing.T) {
	t.Parallel()
	for b, base64 := range map[string]string{"a\x00b": "YQBi", "text\x00": "dGV4dAA=", "\x00": "AA==", "ä\x00": "w6QA",
		"a\xff": "Yf8=", "text": ""} {
		job := duly.Job{Queue: "q", Body: []byte(b)}
		info := duly.JobInfo{Job: job, Result: []byte(b)}

		for _, tt := range []struct {
			what   string
			text   []byte
			fields []string
		}{
			{"push", AppendPush(nil, []duly.Job{job}), []string{"body"}},
			{"update", UpdateForm.Append(nil, duly.Update{Body: []byte(b)}), []string{"body"}},
			{"settle", AppendSettle(nil, []duly.SettleRequest{{As: duly.Ack, Result: []byte(b)}}), []string{"result"}},
			{"deliveries", DeliveriesForm.Append(nil, []duly.Delivery{{Job: job}}), []string{"body"}},
			{"job", JobForm.Append(nil, info), []string{"body", "result"}},
			{"jobs", AppendJobs(nil, duly.ListPage{Jobs: []duly.JobInfo{info}}, true), []string{"body", "result"}},
		} {
			for _, field := range tt.fields {
				plain := `"` + field + `":`
				want := `"` + field + `_base64":"` + base64 + `"`
				if base64 == "" {
					want = plain + `"` + b + `"`
				}
				if !bytes.Contains(tt.text, []byte(want)) || base64 != "" && bytes.Contains(tt.text, []byte(plain)) {
					t.Errorf("%s of %q has no %s: %s", tt.what, b, want, tt.text)
				}
			}
		}
	}
}
