package wire

import (
	"cmp"
	"errors"
	"strings"
	"testing"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// C14.9: a bad number fails only its own item. The error names the form or the range.
func TestNumberErrorNamesTheRange(t *testing.T) {
	t.Parallel()
	for number, want := range map[string]string{
		"1.5":                           "priority is 1.5, must be a whole number",
		"1e2":                           "priority is 1e2, must be a whole number",
		"1001":                          "must be between -1000 and 1000",
		"99999999999999999999":          "must be between -1000 and 1000",
		"-1" + strings.Repeat("0", 400): "must be between -1000 and 1000",
	} {
		jobs, err := ReadPush(`{"jobs":[{"queue":"q","priority":`+number+`}]}`, "")
		if err != nil || len(jobs.Values) != 1 {
			t.Errorf("%.30s: %d jobs, %v", number, len(jobs.Values), err)
			continue
		}

		var got error
		if jobs.Errs != nil {
			got = jobs.Errs[0]
		}
		got = cmp.Or(got, contract.ValidateJob(&jobs.Values[0], duly.DefaultMaxBody))
		if !errors.Is(got, duly.ErrInvalid) || !strings.Contains(got.Error(), want) {
			t.Errorf("%.30s: %v, want %s", number, got, want)
		}
	}
}
