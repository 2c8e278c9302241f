package contract_test

import (
	"strings"
	"testing"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

func TestQuotedIsShortAndInASCII(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                    `""`,
		"a/b":                                 `"a/b"`,
		"two\nlines ü":                        `"two\nlines \u00fc"`,
		strings.Repeat("a", 40):               `"` + strings.Repeat("a", 40) + `"`,
		strings.Repeat("a", 41):               `"` + strings.Repeat("a", 40) + `"…`,
		"duly_":                               `"duly_"`,
		"duly_AAAA":                           `"duly_"…`,
		"http://duly_AAAA@host":               `"http://duly_"…`,
		strings.Repeat("a", 38) + "duly_AAAA": `"` + strings.Repeat("a", 38) + `du"…`,
	} {
		if got := contract.Quoted(text); got != want {
			t.Errorf("%q is quoted as %s, want %s", text, got, want)
		}
	}
}

// If a caller uses a token as the name of something by mistake, no error repeats it, so it gets
// into no log.
func TestErrorsRepeatNoToken(t *testing.T) {
	t.Parallel()
	const secret = "AAAAbbbbCCCCddddEEEEffffGGGGhhhhIIIIjjjjKKK"
	token := contract.TokenPrefix + secret
	_, rights := contract.ParseRights([]string{token})
	bad := duly.Job{Queue: token + "/", ID: token + "/", Headers: map[string]string{token + "/": "\n"}, Backoff: duly.Backoff(token),
		Merge: duly.Merge{Mode: duly.MergeMode(token), Until: duly.MergeUntil(token)}}
	for what, err := range map[string]error{
		"a job":                           contract.ValidateJob(&bad, 0),
		"a namespace":                     contract.ValidateNamespace("/" + token),
		"a pool":                          contract.ValidatePool("_" + token),
		"a right":                         rights,
		"an ID that is not there":         contract.NotFound(duly.Q("q"), token),
		"an ID in a queue of that name":   contract.NotFound(duly.Q(token), "a"),
		"where a namespace is to move to": (&contract.Placement{Namespace: "a", Pool: token, From: token}).Validate(),
	} {
		if err == nil || strings.Contains(err.Error(), secret[:4]) || !strings.Contains(err.Error(), contract.TokenPrefix) {
			t.Errorf("%s: %v", what, err)
		}
	}
	longID := strings.Repeat("a", duly.MaxID)
	if text := contract.NotFound(duly.Q("q"), longID).Error(); !strings.Contains(text, longID) {
		t.Errorf("the ID is cut: %s", text)
	}
}
