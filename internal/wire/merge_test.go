package wire

import (
	"errors"
	"testing"

	"github.com/dulymq/duly"
)

// C14.9: an empty merge key is invalid, because the job would be stored and never merged.
func TestEmptyMergeFieldIsInvalid(t *testing.T) {
	t.Parallel()
	for _, merge := range []string{`{"key":""}`, `{"mode":""}`, `{"key":"k","until":""}`} {
		jobs, err := ReadPush(`{"jobs":[{"queue":"q","body":"x","merge":`+merge+`},{"queue":"q","body":"x"}]}`, "")
		if err != nil || len(jobs.Errs) != 2 || !errors.Is(jobs.Errs[0], duly.ErrInvalid) || jobs.Errs[1] != nil {
			t.Errorf("%s: %v, %v", merge, jobs.Errs, err)
		}
	}
}
