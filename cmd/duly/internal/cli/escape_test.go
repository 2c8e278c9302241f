package cli

import (
	"encoding/json"
	"strings"
	"testing"
)

// C15.45: JSON on a terminal contains no character that controls the terminal, and has the
// same value.
func TestJSONOnTerminalIsEscaped(t *testing.T) {
	t.Parallel()
	const body = "a\u009b31mb\u202ec\u2066d\u2028e\u2029f\u007fg\u200bh\U000e0041i größe €"
	r := newRig(t)
	r.ok("push", "q", body, "--id", "one")

	for _, args := range [][]string{
		{"job", "get", "q", "one"}, {"peek", "q"}, {"job", "list", "q", "--bodies"},
		{"reserve", "q"},
	} {
		r.tty = true
		shown := r.ok(append(args, "--json")...)
		if at := strings.IndexFunc(strings.TrimSpace(shown), isUnsafe); at >= 0 {
			t.Errorf("%v prints %+q raw: %s", args, []rune(shown[at:])[0], shown)
		}
		for _, want := range []string{
			`\u009b`, `\u202e`, `\u2066`, `\u2028`, `\u2029`, `\u007f`, `\u200b`, `\udb40\udc41`,
			"größe €",
		} {
			if !strings.Contains(shown, want) {
				t.Errorf("%v does not print %s: %s", args, want, shown)
			}
		}
		var got struct{ Body string }
		if err := json.Unmarshal([]byte(shown), &got); err != nil || got.Body != body {
			t.Errorf("%v: body %+q, %v", args, got.Body, err)
		}
	}

	r.tty = false
	if raw := r.ok("job", "get", "q", "one", "--json"); !strings.Contains(raw, "\u009b") {
		t.Errorf("a pipe gets escapes: %s", raw)
	}
}

// C15.45: errors in JSON are escaped too.
func TestJSONErrorOnTerminalIsEscaped(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.tty = true
	_, _, errs := r.run("push", "\u009bq", "x", "--json")
	if strings.ContainsFunc(strings.TrimSpace(errs), isUnsafe) || !strings.Contains(errs, `009b`) {
		t.Errorf("printed %+q", errs)
	}
}
