package wire

import (
	"bytes"
	"strings"
	"testing"

	"github.com/dulymq/duly"
)

// C14.7: a request takes either form, so what would swell goes as base64.
func TestBodyOfARequestNeverMoreThanDoubles(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		body string
		text bool
	}{
		"text": {strings.Repeat("a", 9000), true}, "quoted JSON": {strings.Repeat(`{"a":"b"}`, 1000), true},
		"control characters": {strings.Repeat("\x01", 9000), false}, "NULs": {strings.Repeat("\x00", 9000), false}, "nothing": {"", true},
	} {
		requests := map[string][]byte{
			"push":   AppendPush(nil, []duly.Job{{Queue: "q", Body: []byte(tt.body)}}),
			"update": AppendUpdate(nil, &duly.Update{Body: []byte(tt.body)}),
			"settle": AppendSettle(nil, []duly.Outcome{{As: duly.Ack, Result: []byte(tt.body)}}),
		}
		for operation, r := range requests {
			if len(r) > 2*len(tt.body)+200 || bytes.Contains(r, []byte("_base64")) == tt.text {
				t.Errorf("%s of %s has %d bytes: %.80s", operation, name, len(r), r)
			}
		}
		jobs, err := ReadPush(string(requests["push"]), "", Strict)
		if err != nil || jobs.Errs != nil || string(jobs.Values[0].Body) != tt.body {
			t.Errorf("%s is read back wrongly: %v", name, err)
		}
	}
}
