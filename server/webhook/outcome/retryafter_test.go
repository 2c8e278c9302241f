package outcome

import (
	"net/http"
	"testing"
	"time"
)

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	const absent = -1
	date := func(form string, d time.Duration) string { return now.Add(d).Format(form) }
	tests := map[string]struct {
		values []string
		date   string
		want   time.Duration
	}{
		"C16.74 seconds":             {values: []string{"120"}, want: 2 * time.Minute},
		"C16.74 seconds with spaces": {values: []string{" 120\t"}, want: 2 * time.Minute},
		"C16.74 zero":                {values: []string{"0"}, want: 0},
		"C16.74 IMF-fixdate":         {values: []string{date(fixDate, time.Hour)}, want: time.Hour},
		"C16.74 RFC 850":             {values: []string{date(rfc850, time.Hour)}, want: time.Hour},
		"C16.74 asctime":             {values: []string{date(asctime, time.Hour)}, want: time.Hour},
		"C16.74 RFC 850 in 40 years": {values: []string{"Tuesday, 01-Mar-66 12:00:00 GMT"}, want: MaxRetryAfter},
		"C16.74 RFC 850, 40 years ago, as 86": {
			values: []string{"Saturday, 01-Mar-86 12:00:00 GMT"}, want: 0},

		"C16.75 a skewed Date": {
			values: []string{date(fixDate, 2*time.Hour)}, date: date(fixDate, 2*time.Hour-time.Minute),
			want: time.Minute},
		"C16.75 a skewed Date in another form": {
			values: []string{date(asctime, -time.Hour)}, date: date(rfc850, -2*time.Hour), want: time.Hour},
		"C16.75 a Date that is none": {values: []string{date(fixDate, time.Hour)}, date: "yesterday", want: time.Hour},
		"C16.75 seconds ignore Date": {values: []string{"60"}, date: date(fixDate, -time.Hour), want: time.Minute},

		"C16.76 a date in the past":    {values: []string{date(fixDate, -time.Second)}, want: 0},
		"C16.76 negative seconds":      {values: []string{"-1"}, want: 0},
		"C16.76 ten years, in seconds": {values: []string{"315576000"}, want: MaxRetryAfter},
		"C16.76 ten years, as a date":  {values: []string{date(fixDate, 10*365*24*time.Hour)}, want: MaxRetryAfter},
		"C16.76 24 h and a second":     {values: []string{"86401"}, want: MaxRetryAfter},
		"C16.76 24 h":                  {values: []string{"86400"}, want: MaxRetryAfter},
		"C16.76 more than 64 bits":     {values: []string{"99999999999999999999999"}, want: MaxRetryAfter},

		"C16.76 none":                  {want: absent},
		"C16.76 empty":                 {values: []string{""}, want: absent},
		"C16.76 a word":                {values: []string{"soon"}, want: absent},
		"C16.76 a fraction":            {values: []string{"1.5"}, want: absent},
		"C16.76 a unit":                {values: []string{"60s"}, want: absent},
		"C16.76 a plus sign":           {values: []string{"+60"}, want: absent},
		"C16.76 a minus sign alone":    {values: []string{"-"}, want: absent},
		"C16.76 two minus signs":       {values: []string{"--1"}, want: absent},
		"C16.76 other digits":          {values: []string{"６０"}, want: absent},
		"C16.76 another zone":          {values: []string{"Sun, 01 Mar 2026 13:00:00 CET"}, want: absent},
		"C16.76 another zone, RFC 850": {values: []string{"Sunday, 01-Mar-26 13:00:00 CET"}, want: absent},
		"C16.76 ISO 8601":              {values: []string{"2026-03-01T13:00:00Z"}, want: absent},
		"C16.76 given twice":           {values: []string{"60", "120"}, want: absent},
		"C16.76 given twice, equal":    {values: []string{"60", "60"}, want: absent},
		"C16.76 a list":                {values: []string{"60, 120"}, want: absent},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := http.Header{}
			for _, v := range tt.values {
				h.Add("Retry-After", v)
			}
			if tt.date != "" {
				h.Set("Date", tt.date)
			}
			want, wantOK := max(tt.want, 0), tt.want != absent
			if got, ok := RetryAfter(h, now); got != want || ok != wantOK {
				t.Errorf("RetryAfter is %s, %v, want %s, %v", got, ok, want, wantOK)
			}
		})
	}
}

// C16.74 to C16.76: every text counts as absent, or is a wait between 0 and 24 h.
func FuzzRetryAfter(f *testing.F) {
	for _, text := range []string{"", "60", "-5", "99999999999999999999", "Sun, 01 Mar 2026 13:00:00 GMT",
		"Sunday, 01-Mar-26 13:00:00 GMT", "Sun Mar  1 13:00:00 2026"} {
		f.Add(text, text)
	}
	f.Fuzz(func(t *testing.T, value, date string) {
		h := http.Header{"Retry-After": {value}, "Date": {date}}
		if wait, ok := RetryAfter(h, now); wait < 0 || wait > MaxRetryAfter || !ok && wait != 0 {
			t.Errorf("Retry-After %q, Date %q: %s, %v", value, date, wait, ok)
		}
	})
}
