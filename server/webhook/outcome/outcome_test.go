package outcome

import (
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/dulymq/duly"
)

var now = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

// answered returns a try with an answer. Headers are name, value, name, value.
func answered(status int, headers ...string) Try {
	h := http.Header{}
	for i := 0; i < len(headers); i += 2 {
		h.Add(headers[i], headers[i+1])
	}
	return Try{Answer: &Answer{Status: status, Header: h}, Host: "example.com", Now: now}
}

func failed(f Failure) Try { return Try{Failure: f, Host: "example.com", Now: now} }

// with returns a function that changes a try.
func with(t Try, change func(*Try)) Try {
	change(&t)
	return t
}

func named(t *Try)      { t.Named = true }
func worn(t *Try)       { t.Releases = MaxReleases }
func almostWorn(t *Try) { t.Releases = MaxReleases - 1 }

func after(d time.Duration) *time.Duration { return &d }

// TestDecideFollowsTheOutcomeTable covers each row of the outcome table, with its edge cases.
func TestDecideFollowsTheOutcomeTable(t *testing.T) {
	t.Parallel()
	minute := after(time.Minute)
	tests := map[string]struct {
		try  Try
		want Decision // without the texts of the error and the result
	}{
		"C16.62 200": {answered(200), Decision{As: duly.Ack, Health: Good}},
		"C16.62 299": {answered(299), Decision{As: duly.Ack, Health: Good}},
		"C16.62 ignores the other headers": {
			answered(202, "Retry-After", "60", NoRetry, "true"), Decision{As: duly.Ack, Health: Good}},
		"C16.62 success status of the target, also one of the other rows": {
			with(answered(429, "Retry-After", "60"), func(t *Try) { t.Success = []int{404, 429} }),
			Decision{As: duly.Ack, Health: Good}},

		"C16.63 410": {answered(410), Decision{As: duly.Bury, Health: Good}},
		"C16.63 410 of a named target": {
			with(answered(410), named), Decision{As: duly.Release, Health: Good, Disables: true}},
		"C16.63 410 of a named target with duly-no-retry": {
			with(answered(410, NoRetry, "true"), named), Decision{As: duly.Release, Health: Good, Disables: true}},

		"C16.64 duly-no-retry": {answered(500, NoRetry, "true"),
			Decision{As: duly.Bury, Health: Good}},
		"C16.64 duly-no-retry with a Retry-After": {answered(503, NoRetry, "true", "Retry-After", "60"),
			Decision{As: duly.Bury, Health: Good}},
		"C16.64 permanent status": {with(answered(422), func(t *Try) { t.Permanent = []int{422} }),
			Decision{As: duly.Bury, Health: Good}},
		"C16.68 duly-no-retry with another value": {answered(404, NoRetry, "false"),
			Decision{As: duly.Nack, Health: Good}},
		"C16.68 duly-no-retry given twice": {answered(404, NoRetry, "true", NoRetry, "true"),
			Decision{As: duly.Nack, Health: Good}},
		"C16.65 429 with Retry-After": {answered(429, "Retry-After", "60"),
			Decision{As: duly.Release, Delay: minute, Health: Bad, Closes: true, CloseFor: minute}},
		"C16.65 429 without Retry-After": {answered(429),
			Decision{As: duly.Release, Health: Bad, Closes: true}},
		"C16.65 429 with garbage in Retry-After": {answered(429, "Retry-After", "soon"),
			Decision{As: duly.Release, Health: Bad, Closes: true}},
		"C16.65 429 with Retry-After: 0": {answered(429, "Retry-After", "0"),
			Decision{As: duly.Release, Health: Bad, Closes: true}},
		"C16.65 503 with a Retry-After that is over": {
			answered(503, "Retry-After", "-1"), Decision{As: duly.Release, Health: Bad, Closes: true}},
		"C16.66 1000 releases with Retry-After: 0": {
			with(answered(429, "Retry-After", "0"), worn), Decision{As: duly.Nack, Health: Bad, Closes: true}},
		"C16.67 500 with Retry-After: 0": {answered(500, "Retry-After", "0"),
			Decision{As: duly.Nack, Health: Bad}},
		"C16.65 503 with Retry-After": {answered(503, "Retry-After", "60"),
			Decision{As: duly.Release, Delay: minute, Health: Bad, Closes: true, CloseFor: minute}},
		"C16.65 999 releases": {with(answered(429), almostWorn),
			Decision{As: duly.Release, Health: Bad, Closes: true}},
		"C16.66 1000 releases": {with(answered(429), worn),
			Decision{As: duly.Nack, Health: Bad, Closes: true}},
		"C16.66 1000 releases with Retry-After": {with(answered(503, "Retry-After", "60"), worn),
			Decision{As: duly.Nack, Delay: minute, Health: Bad, Closes: true, CloseFor: minute}},
		"C16.62 1000 releases and a good answer": {with(answered(200), worn), Decision{As: duly.Ack, Health: Good}},
		"C16.67 503 without Retry-After":         {answered(503), Decision{As: duly.Nack, Health: Bad}},
		"C16.67 503 with garbage in Retry-After": {answered(503, "Retry-After", "1.5"),
			Decision{As: duly.Nack, Health: Bad}},
		"C16.67 500": {answered(500), Decision{As: duly.Nack, Health: Bad}},
		"C16.67 599 with Retry-After": {answered(599, "Retry-After", "60"),
			Decision{As: duly.Nack, Delay: minute, Health: Bad}},
		"C16.67 408": {answered(408), Decision{As: duly.Nack, Health: Bad}},
		"C16.67 425 with Retry-After": {answered(425, "Retry-After", "60"),
			Decision{As: duly.Nack, Delay: minute, Health: Bad}},
		"C16.68 301": {answered(301, "Location", "https://example.org/"),
			Decision{As: duly.Nack, Health: Good}},
		"C16.68 304": {answered(304), Decision{As: duly.Nack, Health: Good}},
		"C16.68 404 ignores Retry-After": {answered(404, "Retry-After", "60"),
			Decision{As: duly.Nack, Health: Good}},
		"C16.69 a status below 200 is no answer": {answered(101), Decision{As: duly.Nack, Health: Bad}},
		"C16.69 a status above 599 is no answer": {with(answered(999), func(t *Try) { t.Success = []int{999} }),
			Decision{As: duly.Nack, Health: Bad}},
		"C16.69 name not resolved":                 {failed(Unresolved), Decision{As: duly.Nack, Health: Bad}},
		"C16.69 connection refused":                {failed(Refused), Decision{As: duly.Nack, Health: Bad}},
		"C16.69 connection reset":                  {failed(Reset), Decision{As: duly.Nack, Health: Bad}},
		"C16.69 TLS":                               {failed(TLS), Decision{As: duly.Nack, Health: Bad}},
		"C16.69 timeout":                           {failed(Timeout), Decision{As: duly.Nack, Health: Bad}},
		"C16.69 headers too large":                 {failed(Headers), Decision{As: duly.Nack, Health: Bad}},
		"C16.69 not HTTP":                          {failed(Broken), Decision{As: duly.Nack, Health: Bad}},
		"C16.70 the guard refuses the destination": {failed(Forbidden), Decision{As: duly.Bury}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := Decide(tt.try)
			if failed := got.As == duly.Nack || got.As == duly.Bury; failed != (got.Error != "") {
				t.Errorf("%v has the error text %q", got.As, got.Error)
			}
			got.Error = ""
			if got.Status != tt.try.status() {
				t.Errorf("the status is %d, want %d", got.Status, tt.try.status())
			}
			got.Status = 0
			tt.want.Rule, _, _ = strings.Cut(name, " ")
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("Decide is %+v, want %+v", got, tt.want)
			}
		})
	}
}

// Decide finds a rule for every status, and closes the gate only of a host whose health is Bad.
func TestEveryStatusHasARule(t *testing.T) {
	t.Parallel()
	for code := range 1000 {
		for _, change := range []func(*Try){func(*Try) {}, named, worn} {
			d := Decide(with(answered(code, "Retry-After", "1"), change))
			if d.Rule == "" || d.As == 0 {
				t.Fatalf("status %d: %+v", code, d)
			}
			if d.Closes && d.Health != Bad {
				t.Errorf("status %d closes the gate of a host that is not bad", code)
			}
		}
	}
}

// C16.62: the body is the result of a job with Retain, up to 64 KiB.
func TestResultIsTheBodyOfTheAnswer(t *testing.T) {
	t.Parallel()
	try := answered(200)
	try.Answer.Body = []byte(strings.Repeat("x", duly.MaxResult+1))
	if d := Decide(try); d.Result != nil {
		t.Errorf("a job without Retain gets a result of %d bytes", len(d.Result))
	}
	try.Retain = true
	if d := Decide(try); len(d.Result) != duly.MaxResult {
		t.Errorf("the result has %d bytes, want %d", len(d.Result), duly.MaxResult)
	}
	try.Answer.Body = nil
	if d := Decide(try); len(d.Result) != 0 {
		t.Errorf("the result is %q, want none", d.Result)
	}
}

// C16.73: the body does not change the decision.
func TestBodyDoesNotChangeTheDecision(t *testing.T) {
	t.Parallel()
	whole, broken := answered(200), answered(200)
	whole.Answer.Body = []byte("ok")
	if a, b := Decide(whole), Decide(broken); !reflect.DeepEqual(a, b) {
		t.Errorf("with a body %+v, without %+v", a, b)
	}
}

func TestErrorTextOfAnAnswer(t *testing.T) {
	t.Parallel()
	body := func(status int, body string) Try {
		return with(answered(status), func(t *Try) { t.Answer.Body, t.Took = []byte(body), 1234567*time.Microsecond })
	}

	tests := map[string]struct {
		try  Try
		want string
	}{
		"C16.77 status, host, duration and body": {
			body(503, "try later"), "503 Service Unavailable from example.com after 1.23s: try later"},
		"C16.77 a status without a name": {
			body(599, ""), "status 599 from example.com after 1.23s"},
		"C16.77 kind of failure": {
			Try{Failure: Timeout, Host: "example.com:8443", Took: 10 * time.Second},
			"timeout from example.com:8443 after 10s"},
		"C16.77 kind of failure with a reason": {
			Try{Failure: TLS, Reason: "certificate has\nexpired", Host: "example.com", Took: 1234567},
			"TLS failed (certificate has expired) from example.com after 1.2ms"},
		"C16.77 control characters and invalid UTF-8": {
			body(500, "a\r\nb\x00c\x1b[31m\u0085d\xffe"),
			"500 Internal Server Error from example.com after 1.23s: a  b c [31m d\ufffde"},
		"C16.78 an echoed request": {
			with(body(500, "no POST /hooks/s3cret?key=abcd, Bearer t0ken"), func(t *Try) {
				t.Private = []string{"/hooks/s3cret", "key=abcd", "Bearer t0ken", "/"}
			}), "500 Internal Server Error from example.com after 1.23s: no POST [removed]?[removed], [removed]"},
		"C16.78 one private text inside another": {
			with(body(500, "/hooks/s3cret"), func(t *Try) { t.Private = []string{"hooks", "/hooks/s3cret"} }),
			"500 Internal Server Error from example.com after 1.23s: [removed]"},
	}

	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := Decide(tt.try).Error; got != tt.want {
				t.Errorf("the text is\n%q, want\n%q", got, tt.want)
			}
		})
	}
}

// C16.77: the text has at most 1 KiB of the body, and only whole runes. C16.78: a secret at
// the cut is removed too.
func TestErrorTextIsCut(t *testing.T) {
	t.Parallel()
	try := answered(500)
	try.Answer.Body = []byte(strings.Repeat("ä", 4096))
	_, excerpt, _ := strings.Cut(Decide(try).Error, ": ")
	if len(excerpt) != MaxExcerpt || !utf8.ValidString(excerpt) {
		t.Errorf("the excerpt has %d bytes (UTF-8: %v), want %d", len(excerpt), utf8.ValidString(excerpt), MaxExcerpt)
	}

	try.Answer.Body = []byte(strings.Repeat("x", MaxExcerpt-3) + "secret")
	try.Private = []string{"secret"}
	if text := Decide(try).Error; strings.Contains(text, "sec") {
		t.Errorf("the text ends in %q", text[len(text)-10:])
	}
}
