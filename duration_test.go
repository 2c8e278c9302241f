package duly_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
)

func TestDurationReadsDays(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{
		"0": 0, "0s": 0, "250ms": 250 * time.Millisecond, "90s": 90 * time.Second, "1h30m": 90 * time.Minute, "7d": 7 * day,
		"1d12h": day + 12*time.Hour, "0d": 0, "-1d": -day, "-1d12h": -(day + 12*time.Hour), "-5s": -5 * time.Second, "1.5h": 90 * time.Minute,
		"366d": 366 * day, "1d0.5s": day + 500*time.Millisecond, "+2d": 2 * day,
	} {
		if got, err := duly.ParseDuration(text); err != nil || got != want {
			t.Errorf("%q is %s (%v), want %s", text, got, err, want)
		}
	}
}

func TestDurationRefusesOtherText(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", " ", "5", "d", "1dd", "1d2d", "1.5d", "1d-2h", "1d+2h", "1d ", " 1s", "1s ", "1day", "1w", "106752d", "-106752d", "106751d24h",
		"9223372036854775808ns", "1e3s", "١s", "0x1s", "99999999999999999999d", "1d9999999h", "\x00", "1d\x00",
	} {
		if d, err := duly.ParseDuration(text); !errors.Is(err, duly.ErrInvalid) {
			t.Errorf("%q is read as %s, %v", text, d, err)
		}
	}
}

func TestDurationIsWrittenShort(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "0s", time.Millisecond: "1ms", time.Second: "1s", time.Minute: "1m", time.Hour: "1h", 90 * time.Minute: "1h30m",
		24 * time.Hour: "1d", 90 * 24 * time.Hour: "90d", 25 * time.Hour: "25h", 61 * time.Second: "1m1s", time.Hour + time.Second: "1h0m1s",
		10 * time.Minute: "10m", 20 * time.Hour: "20h", -time.Minute: "-1m", 10 * time.Second: "10s",
	} {
		if got := duly.FormatDuration(d); got != want {
			t.Errorf("%s is written %q, want %q", d, got, want)
		}
	}
}

func FuzzParseDuration(f *testing.F) {
	for _, text := range []string{"", "1s", "1d", "-1d2h3m4.5s", "106751d", "106751d23h47m16.854775807s", "d", "1h30m", "250ms"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := duly.ParseDuration(text)
		if err != nil {
			if !errors.Is(err, duly.ErrInvalid) || d != 0 {
				t.Fatalf("%q is answered %s, %v", text, d, err)
			}
			return
		}
		again, err := duly.ParseDuration(duly.FormatDuration(d))
		if err != nil || again != d {
			t.Fatalf("%q is %s, written %q, read again as %s (%v)", text, d, duly.FormatDuration(d), again, err)
		}
	})
}

func FuzzFormatDuration(f *testing.F) {
	for _, d := range []int64{0, 1, -1, math.MaxInt64, math.MinInt64, int64(time.Hour), int64(36 * time.Hour)} {
		f.Add(d)
	}
	f.Fuzz(func(t *testing.T, n int64) {
		d := time.Duration(n)
		if again, err := duly.ParseDuration(duly.FormatDuration(d)); err != nil || again != d {
			t.Fatalf("%d ns, written %q, is read as %s (%v)", n, duly.FormatDuration(d), again, err)
		}
	})
}

// The error of a bad duration names the problem.
func TestBadDurationsHaveHelpfulErrors(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"5": "has no unit", "1.5": "has no unit", "-3": "has no unit",
		"100000000h": "longer than any duration", "106752d": "longer than any duration",
		"1d9999999h": "longer than any duration", "-9223372036854775809ns": "longer than any duration",
		"soon": "is not a duration", "1d-2h": "is not a duration", "1.5d": "is not a duration", "": "is not a duration",
		"1w": "is not a duration",
	} {
		if _, err := duly.ParseDuration(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
