package cli

import (
	"testing"
	"time"

	"github.com/dulymq/duly"
)

func TestOneLineEscapesControls(t *testing.T) {
	t.Parallel()
	tests := []struct{ text, want string }{
		{"plain text, größe 10 €", "plain text, größe 10 €"},
		{"two\nlines\tand tab\r", `two\nlines\tand tab\r`},
		{"\x1b[31mred\x1b[0m\x07", `\x1b[31mred\x1b[0m\a`},
		{"\u009b31m", `\u009b31m`},
		{"abc\u202edcba", `abc\u202edcba`},
		{"zero\u200bwidth\u2028", `zero\u200bwidth\u2028`},
		{"bad \xff\xfe bytes", `bad \xff\xfe bytes`},
		{"real \ufffd", "real \ufffd"},
		{"", ""},
	}
	for _, tt := range tests {
		if got := oneLine(tt.text); got != tt.want {
			t.Errorf("oneLine(%q) = %q, want %q", tt.text, got, tt.want)
		}
	}
}

func TestPreviewCutsBetweenCharacters(t *testing.T) {
	t.Parallel()
	tests := []struct {
		body, want string
	}{
		{"short", "short"},
		{"exactly10!", "exactly10!"},
		{"eleven-long", "eleven-lon…"},
		{"ääääääääää", "ääääääääää"},
		{"äääääääääää", "ääääääääää…"},
		{"€€€€€€€€€€€€€€€€€€€€€€€€", "€€€€€€€€€€…"},
		{"", ""},
	}
	for _, tt := range tests {
		if got := preview([]byte(tt.body), 10); got != tt.want {
			t.Errorf("preview(%q) = %q, want %q", tt.body, got, tt.want)
		}
	}
}

func TestSizesAndCountsArePrintedShort(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{
		0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 10 << 10: "10 KiB", 1<<20 - 1: "1.0 MiB",
		1 << 20:  "1.0 MiB",
		64 << 20: "64 MiB", 5 << 30: "5.0 GiB", 1 << 62: "4096 PiB",
	} {
		if got := bytesText(n); got != want {
			t.Errorf("bytesText(%d) = %q, want %q", n, got, want)
		}
	}
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1 000", 1234567: "1 234 567", -1234: "-1 234"} {
		if got := countText(n); got != want {
			t.Errorf("countText(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestShortDuration(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for d, want := range map[time.Duration]string{
		0: "0s", 250 * time.Millisecond: "250ms", 4210 * time.Millisecond: "4.2s", 3 * time.Second: "3s",
		59*time.Second + 700*time.Millisecond: "1m", 192 * time.Second: "3m12s", 125*time.Minute + 20*time.Second: "2h5m",
		day: "1d", 3*day + 4*time.Hour + time.Minute: "3d4h", 400 * day: "400d", -time.Second: "-1s",
	} {
		if got := shortDuration(d); got != want {
			t.Errorf("roughly(%s) = %q, want %q", d, got, want)
		}
	}
}

func TestTimesArePrintedRelativeToNow(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		t    time.Time
		want string
	}{
		{time.Time{}, ""}, {now, "now"}, {now.Add(3 * time.Second), "in 3s"}, {now.Add(-2 * time.Minute), "2m ago"},
	} {
		if got := relative(tt.t, now); got != tt.want {
			t.Errorf("relative(%s) = %q, want %q", tt.t, got, tt.want)
		}
	}
	if got, want := durationText(duly.None), "none"; got != want {
		t.Errorf("span(None) = %q, want %q", got, want)
	}
}
