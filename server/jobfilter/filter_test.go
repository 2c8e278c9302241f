package jobfilter

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/server/failures"
)

var now = time.Date(2030, 5, 1, 12, 0, 0, 0, time.UTC)

// theJob is the job that conditions are tried on.
func theJob() *duly.JobInfo {
	j := &duly.JobInfo{
		State: duly.StateDead, Size: 2048, Attempt: 3, Failures: 3, PushedAt: now.Add(-20 * time.Minute),
		FinishedAt: now.Add(-time.Minute), LastError: "dial tcp 10.0.0.7:443: Connection TIMEOUT\nat line 3",
	}
	j.ID, j.OrderKey, j.Priority, j.Tries = "o-17", "account 9", 5, 4
	j.Merge.Key, j.Body, j.Headers = "daily", []byte(`{"order": 17}`), map[string]string{"tenant": "acme", "a:b": "x"}
	return j
}

func TestConditions(t *testing.T) {
	t.Parallel()
	group := failures.Fingerprint(theJob().LastError)
	for text, want := range map[string]bool{
		"":                                    true,
		"  ":                                  true,
		"error~timeout":                       true,
		"error~Timeout":                       true,
		"error~refused":                       false,
		"-error~refused":                      true,
		"error:timeout":                       false,
		"id:o-17":                             true,
		"id=o-17":                             true,
		"id:o-1":                              false,
		"id~o-1":                              true,
		`key:"account 9"`:                     true,
		`key:"account 8"`:                     false,
		"merge:daily":                         true,
		"-merge:daily":                        false,
		"header.tenant:acme":                  true,
		"header.tenant~AC":                    true,
		"header.Tenant:acme":                  true, // stored in lower case
		"header.other:acme":                   false,
		"priority>=5":                         true,
		"priority>5":                          false,
		"priority<=5":                         true,
		"priority<5":                          false,
		"priority:5":                          true,
		"priority:-5":                         false,
		"attempt>=3 failures:3 stalls<1":      true,
		"tries>4":                             false,
		"size>2047":                           true,
		"size:2KiB":                           true,
		"size<1MiB":                           true,
		"pushed<2030-05-01T12:00":             true,
		"pushed>2030-05-01":                   true,
		"pushed>2030-05-01T11:40:00Z":         false,
		`pushed>="2030-05-01 11:40:00"`:       true,
		"finished>2030-05-01T11:58":           true,
		"lease>2000-01-01":                    false,
		"-lease>2000-01-01":                   true,
		"age>10m":                             true,
		"age<10m":                             false,
		"age>=20m age<=20m":                   true,
		"fp:" + group:                         true,
		"fp:0123456789ab":                     false,
		`body~"order\": 17"`:                  true,
		`body~"\\"`:                           false,
		"error~timeout priority>=6":           false,
		"error~timeout  priority>=5":          true,
		"\n error~timeout\n\tpriority>=5\r\n": true,
		"error~\"timeout\"\npriority>=6":      false,
	} {
		f, err := Parse(text, now)
		if err != nil {
			t.Errorf("Parse(%q): %v", text, err)
			continue
		}
		if got := f.Match(theJob()); got != want {
			t.Errorf("%q matches: %v, want %v", text, got, want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"timeout":                   "without an operator",
		`"timeout"`:                 "without an operator",
		"error~":                    "without a value",
		`error~""`:                  "without a value",
		`error~"a b`:                "without a closing quote",
		`error~"a"b`:                "write a space",
		"error>x":                   "the operators of",
		"priority~5":                "the operators of",
		"priority>high":             "write a whole number",
		"size>2XB":                  "with a unit: 64KiB or 2MiB",
		"header.:x":                 "write header.NAME",
		"pushed>yesterday":          "write a time",
		"age>2030-01-01":            "write a duration",
		"fp:xyz":                    "12 hexadecimal digits",
		"fp~0123456789ab":           "the operators of",
		"owner:me":                  "unknown field",
		":x":                        "unknown field",
		strings.Repeat("id~x ", 11): "more than 10 conditions",
		"error~" + strings.Repeat("x", MaxLength): "may have at most 256",
	} {
		_, err := Parse(text, now)
		if !errors.Is(err, duly.ErrInvalid) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "where") {
			t.Errorf("Parse(%.40q): %v, want an invalid where with %q", text, err, want)
		}
	}
}

func TestOnlyConditionsOnBodiesNeedBodies(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{"error~body": false, "body~x": true, "-result:x": true, "": false} {
		f, err := Parse(text, now)
		if err != nil || f.Bodies() != want || f.Empty() != (text == "") {
			t.Errorf("Parse(%q): bodies %v, empty %v, %v", text, f.Bodies(), f.Empty(), err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(`error~"a b" -header.x:y priority>=5 age<10m`)
	f.Fuzz(func(t *testing.T, text string) {
		filter, err := Parse(text, now)
		if err == nil {
			filter.Match(theJob())
			filter.Match(&duly.JobInfo{})
		} else if !errors.Is(err, duly.ErrInvalid) {
			t.Errorf("Parse(%q): %v", text, err)
		}
	})
}
