package describe

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestWrapKeepsTheWords(t *testing.T) {
	t.Parallel()
	words := strings.Repeat("a paragraph of several words ", 20)
	for _, text := range []string{"", "short", words, strings.Repeat("x", 2*width) + " end"} {
		got := wrap(text)
		if strings.Join(strings.Fields(got), " ") != strings.Join(strings.Fields(text), " ") {
			t.Errorf("wrap changes %q to %q", text, got)
		}
		for _, line := range strings.Split(got, "\n") {
			if len(line) > width && strings.Contains(line, " ") {
				t.Errorf("a line has %d columns: %q", len(line), line)
			}
		}
	}
}

func TestWrapJSONBreaksOnlyBetweenValues(t *testing.T) {
	t.Parallel()
	text := `{"a":"` + strings.Repeat(`one, two \"three\", `, 20) + `","b":[` + strings.Repeat(`{"c":1,"d":"e"},`, 30) + `{}]}`
	got := wrapJSON(text)
	if !json.Valid([]byte(got)) || strings.ReplaceAll(got, "\n", "") != text {
		t.Errorf("wrapJSON changes the value: %s", got)
	}

	lines := strings.Split(got, "\n")
	if len(lines) < 5 {
		t.Errorf("there are %d lines: %s", len(lines), got)
	}
	for _, line := range lines[1:] {
		if len(line) > width {
			t.Errorf("a line has %d columns: %s", len(line), line)
		}
	}
}
