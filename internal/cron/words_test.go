package cron_test

import "testing"

// P22: an expression is described in words.
func TestWords(t *testing.T) {
	t.Parallel()
	for spec, want := range map[string]string{
		"0 3 * * *":         "at 03:00 every day",
		"@daily":            "at 00:00 every day",
		"30 2,14 * * *":     "at 02:30 and 14:30 every day",
		"0 9 * * 1-5":       "at 09:00 on Monday to Friday",
		"0 9 * * 0,6":       "at 09:00 on Sunday and Saturday",
		"15 8 1 * *":        "at 08:15 on day 1 of the month",
		"0 0 1 1 *":         "at 00:00 on day 1 of the month in January",
		"0 12 1,15 * 1":     "at 12:00 on day 1 and 15 of the month, or on Monday",
		"0 6 * 3-5 *":       "at 06:00 in March to May",
		"* * * * *":         "every minute",
		"*/15 * * * *":      "every 15 minutes",
		"5 * * * *":         "minute 5 of every hour",
		"0 */2 * * *":       "minute 0 of every 2 hours",
		"*/10 9-17 * * 1":   "every 10 minutes of hour 9 to 17 on Monday",
		"* * * * * *":       "every second",
		"*/30 * * * * *":    "every 30 seconds",
		"30 0 3 * * *":      "at 03:00:30 every day",
		"0 0,20,50 * * * *": "minute 0, 20 and 50 of every hour",
		"@every 90s":        "every 1m30s",
		"@every 2h":         "every 2h",
		"@hourly":           "minute 0 of every hour",
	} {
		if got := parse(t, spec).Words(); got != want {
			t.Errorf("%s is %q, want %q", spec, got, want)
		}
	}
}
