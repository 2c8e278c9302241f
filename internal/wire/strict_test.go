package wire

import (
	"errors"
	"strings"
	"testing"

	"github.com/dulymq/duly"
)

// C13.2: an error has the name of the field in the request, and its bound.
func TestErrorHasFieldAndBound(t *testing.T) {
	t.Parallel()
	config := func(text string) error { _, err := ConfigForm.ReadRequest(text); return err }
	push := func(text string) error {
		jobs, err := ReadPush(text, "")
		return errors.Join(append(jobs.Errs, err)...)
	}
	settle := func(text string) error { _, err := ReadSettle(text); return err }
	limits := func(text string) error { _, err := ReadLimits(text); return err }
	for _, c := range []struct {
		read       func(string) error
		text, want string
	}{
		{limits, `{"limits":{"produce":1,"per":"0s"}}`, "limits.per is 0s, must be between 1s and 366d"},
		{config, `{"defaults":{"tries":0}}`, "defaults.tries is 0, must be at least 1"},
		{config, `{"defaults":{"max_stalls":0}}`, "defaults.max_stalls is 0"},
		{config, `{"defaults":{"backoff":""}}`, "defaults.backoff is empty"},
		{config, `{"defaults":{"retain":"0s"}}`, "defaults.retain is 0s, must be at least 1ms, or none"},
		{config, `{"defaults":{"ttl":"0s"}}`, "defaults.ttl is 0s, must be at least 1ms, or none"},
		{config, `{"defaults":{"lease":"0s"}}`, "defaults.lease is 0s, must be between 100ms and 366d"},
		{push, `{"jobs":[{"queue":"q"},null]}`, "null for jobs[1]; it needs an object"},
		{settle, `{"outcomes":[null]}`, "null for outcomes[0]; it needs an object"},
		{push, `{"jobs":[{"queue":"q","body_base64":"YQ==\n"}]}`, "body_base64 is not standard base64"},
		{push, `{"jobs":[{"queue":"q","body_base64":"\r\n"}]}`, "body_base64 is not standard base64"},
		{push, `{"jobs":[{"queue":"q","body_base64":"Y\nQ=="}]}`, "body_base64 is not standard base64"},
	} {
		if err := c.read(c.text); !errors.Is(err, duly.ErrInvalid) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.text, err, c.want)
		}
	}

	if err := push(`{"jobs":[{"queue":"q","body_base64":"YQ=="},{"queue":"q","body_base64":""},` +
		`{"queue":"q","body_base64":null}]}`); err != nil {
		t.Error(err)
	}
}

func TestErrorDoesNotRepeatTokenInKey(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`{"duly_AAAA":1}`, `{"jobs":[],"jobs":[],"duly_AAAA":1}`,
		`{"jobs":[{"queue":"q","headers":{"duly_AAAA":"1","duly_AAAA":"2"}}]}`} {
		jobs, err := ReadPush(text, "")
		if err = errors.Join(append(jobs.Errs, err)...); err == nil || strings.Contains(err.Error(), "AAAA") {
			t.Errorf("%s: %v", text, err)
		}
	}
}
