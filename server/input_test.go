package server

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/dulymq/duly"
)

// raw sends a request as text and returns the status and the body of the answer.
func (f *fixture) raw(t *testing.T, text string) (status int, body string) {
	t.Helper()
	conn, err := net.Dial("tcp", f.api.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	go io.WriteString(conn, text) // the server may answer and close before it has read the whole request
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b)
}

// C14.10: a path that is not clean, for example with "..", is refused with 400.
func TestUncleanPathsAreRefused(t *testing.T) {
	t.Parallel()
	f := serve(t, nil)
	id := f.push("q", "x")

	for _, path := range []string{
		"/v1/default/queues/q/jobs/..", "/v1/default/queues/q/jobs/%2e%2e", "/v1/default/queues/q/jobs/.%2E",
		"/v1/default/queues/q/jobs/.",
		"/v1/default/queues/q/jobs/" + id + "/", "/v1/default/queues/q/jobs//" + id, "//v1/default/queues/q",
		"/v1/default/queues/q/",
		"/v1/default/queues/q%2Fjobs%2f" + id, "/v1/default/queues/q/jobs/" + id + "%00", "/v1/default/queues/x/../q",
		"/v1/default/queues/x/%2e%2e/q",
		"/v1/default/queues/q/jobs/../../q", "/v1/default/queues/./q", "/v1/default/../default/queues/q", "*",
	} {
		for _, method := range []string{"DELETE", "GET", "POST"} {
			status, body := f.raw(t, method+" "+path+" HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+
				f.tokens["operator"]+"\r\nConnection: close\r\n\r\n")
			if status != 400 || !strings.Contains(body, `"code":"invalid"`) {
				t.Errorf("%s %s: %d %s", method, path, status, body)
			}
		}
	}

	if n := f.sizes("q").Ready; n != 1 {
		t.Errorf("%d jobs are left of 1", n)
	}
}

// C14.8, C14.9: only a bad envelope refuses a whole request, and in that case no item is processed.
func TestBadEnvelopeIsRefused(t *testing.T) {
	t.Parallel()
	f := serve(t, nil)
	good := `{"queue":"q","body":"CANARY"}`

	for what, body := range map[string]string{
		"nothing":           ``,
		"no object":         `[]`,
		"broken":            `{"jobs":[` + good,
		"trailing comma":    `{"jobs":[` + good + `,]}`,
		"text behind":       `{"jobs":[` + good + `]}x`,
		"two values":        `{"jobs":[` + good + `]}{}`,
		"unknown field":     `{"jobs":[` + good + `],"more":1}`,
		"unknown in a job":  `{"jobs":[` + good + `,{"queue":"q","prio":1}]}`,
		"unknown in merge":  `{"jobs":[` + good + `,{"queue":"q","merge":{"keys":"x"}}]}`,
		"case":              `{"jobs":[{"Queue":"q"}]}`,
		"doubled field":     `{"jobs":[{"queue":"q","queue":"r"}]}`,
		"no UTF-8":          `{"jobs":[{"queue":"q","body":"` + "\xff" + `"}]}`,
		"half a pair":       `{"jobs":[{"queue":"q","body":"\ud800"}]}`,
		"wrong half":        `{"jobs":[{"queue":"q","body":"\ud800\u0041"}]}`,
		"control character": `{"jobs":[{"queue":"q","body":"` + "\n" + `"}]}`,
		"bad escape":        `{"jobs":[{"queue":"q","body":"\x"}]}`,
		"number as string":  `{"jobs":[` + good + `,{"queue":7}]}`,
		"string as number":  `{"jobs":[{"queue":"q","priority":"7"}]}`,
		"body as object":    `{"jobs":[{"queue":"q","body":{"CANARY":1}}]}`,
		"leading zero":      `{"jobs":[{"queue":"q","priority":01}]}`,
		"jobs as object":    `{"jobs":{}}`,
		"no jobs":           `{}`,
		"null for a job":    `{"jobs":[` + good + `,null]}`,
		"NaN":               `{"jobs":[{"queue":"q","priority":NaN}]}`,
		"deep":              strings.Repeat("[", 100_000),
		"deep in a job":     `{"jobs":[{"headers":` + strings.Repeat(`{"a":`, 100_000),
	} {
		a := f.send("POST", "/v1/default/push", body)
		if a.status != 400 || a.err().Code != duly.CodeInvalid ||
			a.header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %d %s", what, a.status, a.body)
		}
		if strings.Contains(a.body, "CANARY") {
			t.Errorf("%s: the answer repeats the body: %s", what, a.body)
		}
	}

	if s := f.sizes("q"); s != (duly.Sizes{}) {
		t.Errorf("something was stored: %+v", s)
	}
}

// The error of an incomplete body says that the body is incomplete, wherever it was cut.
func TestIncompleteBodyIsReported(t *testing.T) {
	t.Parallel()
	f := serve(t, nil)
	const whole = `{"jobs":[{"queue":"q","priority":-1,"body":"a\n\u00e4","merge":{"key":"k"},"headers":{"a":"b"}}]}`
	for n := range len(whole) {
		want := "ends in the middle of its JSON"
		if n == 0 {
			want = "is empty"
		}
		if a := f.send("POST", "/v1/default/push", whole[:n]); a.status != 400 || !strings.Contains(a.body, want) {
			t.Errorf("%s: %d %s", whole[:n], a.status, a.body)
		}
	}
	if a := f.send("POST", "/v1/default/push", whole); a.status != 200 {
		t.Errorf("whole: %d %s", a.status, a.body)
	}
}

// C13.2, C14.9: if a field exceeds its limit, its item gets an error with the field's name. The
// other items are processed.
func TestBadItemHasItsOwnError(t *testing.T) {
	t.Parallel()
	f := serve(t, nil)
	long := strings.Repeat("x", 300)

	cases := []struct{ field, job string }{
		{"queue", `{}`}, {"queue", `{"queue":""}`}, {"queue", `{"queue":"a/b"}`}, {"queue", `{"queue":"a\u0000"}`},
		{"queue", `{"queue":".."}`},
		{"queue", `{"queue":"` + long + `"}`}, {"id", `{"queue":"q","id":""}`}, {"id", `{"queue":"q","id":"a b"}`},
		{"id", `{"queue":"q","id":"` + long + `"}`},
		{"delay", `{"queue":"q","delay":"-1s"}`}, {"delay", `{"queue":"q","delay":"soon"}`},
		{"delay", `{"queue":"q","delay":""}`},
		{"delay", `{"queue":"q","delay":"1s","due":"2030-01-01T00:00:00Z"}`},
		{"delay", `{"queue":"q","delay":"0s","due":"2030-01-01T00:00:00Z"}`},
		{"due", `{"queue":"q","due":"tomorrow"}`}, {"due", `{"queue":"q","due":"9999-12-31T23:59:59.9999Z"}`},
		{"priority", `{"queue":"q","priority":1001}`}, {"priority", `{"queue":"q","priority":-1001}`},
		{"priority", `{"queue":"q","priority":1.5}`},
		{"priority", `{"queue":"q","priority":1e99}`}, {"priority", `{"queue":"q","priority":99999999999999999999}`},
		{"tries", `{"queue":"q","tries":0}`}, {"tries", `{"queue":"q","tries":65536}`},
		{"tries", `{"queue":"q","tries":-1}`},
		{"max_stalls", `{"queue":"q","max_stalls":0}`}, {"max_stalls", `{"queue":"q","max_stalls":-1}`},
		{"max_stalls", `{"queue":"q","max_stalls":65536}`},
		{"backoff", `{"queue":"q","backoff":"often"}`}, {"backoff", `{"queue":"q","backoff":""}`},
		{"backoff", `{"queue":"q","backoff":"exp:1h:1s"}`},
		{"ttl", `{"queue":"q","ttl":"0s"}`}, {"ttl", `{"queue":"q","ttl":"-1ns"}`},
		{"ttl", `{"queue":"q","ttl":"1s","delay":"2s"}`},
		{"lease", `{"queue":"q","lease":"0s"}`}, {"lease", `{"queue":"q","lease":"99ms"}`},
		{"lease", `{"queue":"q","lease":"367d"}`}, {"lease", `{"queue":"q","lease":"none"}`},
		{"order_key", `{"queue":"q","order_key":""}`}, {"order_key", `{"queue":"q","order_key":"\u0007"}`},
		{"order_key", `{"queue":"q","order_key":"` + long + `"}`},
		{"merge.key", `{"queue":"q","merge":{"until":"leased"}}`},
		{"merge.mode", `{"queue":"q","merge":{"key":"k","mode":"drop"}}`},
		{"merge.until", `{"queue":"q","merge":{"key":"k","until":"later"}}`},
		{"merge.max_wait", `{"queue":"q","merge":{"key":"k","max_wait":"1s"}}`},
		{"merge.until", `{"queue":"q","merge":{"key":"k","mode":"replace","until":"done"}}`},
		{"headers", `{"queue":"q","headers":{"a b":"x"}}`}, {"headers", `{"queue":"q","headers":{"a":"x\r\ny"}}`},
		{"headers", `{"queue":"q","headers":{"a":"\u0000"}}`},
		{"headers", `{"queue":"q","headers":{"a":"1","A":"2"}}`},
		{"headers", `{"queue":"q","headers":{"a":"1","a":"2"}}`},
		{"callback", `{"queue":"q","callback":"ftp://x"}`}, {"retain", `{"queue":"q","retain":"0s"}`},
		{"retain", `{"queue":"q","retain":"-5s"}`},
		{"body_base64", `{"queue":"q","body_base64":"!"}`}, {"body_base64", `{"queue":"q","body_base64":"YQ==\n"}`},
		{"body", `{"queue":"q","body":"a","body_base64":"YQ=="}`},
	}

	for i, c := range cases {
		q := fmt.Sprintf("good%d", i)
		a := f.send("POST", "/v1/default/push", `{"jobs":[{"queue":"`+q+`"},`+c.job+`,{"queue":"`+q+`"}]}`)
		if a.status != 200 {
			t.Errorf("%s: %d %s", c.job, a.status, a.body)
			continue
		}
		if !strings.Contains(a.body, `"error":{"code":"invalid"`) ||
			!strings.Contains(a.body, `"field":"`+c.field+`"`) {
			t.Errorf("%s does not name %s: %s", c.job, c.field, a.body)
		}
		if n := f.sizes(q).Ready; n != 2 {
			t.Errorf("%s: %d of its 2 neighbours are stored", c.job, n)
		}
	}

	if s := f.sizes("q"); s != (duly.Sizes{}) {
		t.Errorf("a bad job was stored: %+v", s)
	}
}

// C13.7, faults R3, R4: requests that are too large are refused without a call to the engine.
func TestTooLargeRequestsAreRefused(t *testing.T) {
	t.Parallel()
	f := serve(t, nil)
	many := func(item string, n int) string { return strings.TrimSuffix(strings.Repeat(item+",", n), ",") }

	for _, c := range []struct {
		what, path, body string
		status           int
		code             string
	}{
		{"a body of 2 MiB", "push", `{"jobs":[{"queue":"q","body":"` + strings.Repeat("x", 2<<20) + `"}]}`, 200,
			`"code":"too_large"`},
		{"1001 jobs", "push", `{"jobs":[` + many(`{"queue":"q"}`, 1001) + `]}`, 413, `"code":"too_large"`},
		{"9 MiB of bodies", "push", `{"jobs":[` + many(`{"queue":"q","body":"`+strings.Repeat("x", 900<<10)+`"}`, 10) +
			`]}`, 413, `"code":"too_large"`},
		{"20 MiB", "push", strings.Repeat(" ", 20<<20), 413, `"code":"too_large"`},
		{"65 headers", "push", `{"jobs":[{"queue":"q","headers":{` + headers(65) + `}}]}`, 200, `"code":"too_large"`},
		{"100 000 headers", "push", `{"jobs":[{"queue":"q","headers":{` + headers(100_000) + `}}]}`, 200,
			`"code":"too_large"`},
		{"1001 receipts", "extend", `{"receipts":[` + many(`"r"`, 1001) + `]}`, 413, `"code":"too_large"`},
		{"101 queues", "reserve", `{"queues":[` + many(`"q"`, 101) + `]}`, 400, `"field":"queues"`},
		{"101 queues to wait for", "wait", `{"queues":[` + many(`"q"`, 101) + `]}`, 400, `"field":"queues"`},
		{"1001 deliveries", "reserve", `{"queues":["q"],"max":1001}`, 400, `"field":"max"`},
		{"a wait of 11 min", "reserve", `{"queues":["q"],"wait":"11m"}`, 400, `"field":"wait"`},
		{"a result of 65 KiB", "settle",
			`{"outcomes":[{"receipt":"r","as":"ack","result":"` + strings.Repeat("x", 65<<10) + `"}]}`, 200,
			`"code":"`},
	} {
		if a := f.send("POST", "/v1/default/"+c.path, c.body); a.status != c.status ||
			!strings.Contains(a.body, c.code) {
			t.Errorf("%s: %d %.300s", c.what, a.status, a.body)
		}
	}

	if s := f.sizes("q"); s != (duly.Sizes{}) {
		t.Errorf("something was stored: %+v", s)
	}
}

func headers(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `"h%d":"v",`, i)
	}
	return strings.TrimSuffix(b.String(), ",")
}

// Faults R3, R4: an endless body, a huge length, a long head and a long URL are refused.
func TestEndlessRequestsAreCutOff(t *testing.T) {
	t.Parallel()
	f := serve(t, nil)
	head := "POST /v1/default/push HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + f.tokens["operator"] + "\r\n"
	chunk := "10000\r\n" + strings.Repeat(" ", 0x10000) + "\r\n"
	for what, c := range map[string]struct {
		text   string
		status int
	}{
		"an endless body": {head + "Transfer-Encoding: chunked\r\n\r\n" + strings.Repeat(chunk, 400), 413},
		"a huge length":   {head + "Content-Length: 999999999999\r\n\r\n", 413},
		"a long header":   {head + "X-Long: " + strings.Repeat("x", 20<<10) + "\r\n\r\n", 431},
		"a long URL": {"GET /v1/default/queues?cursor=" + strings.Repeat("x", 9<<10) +
			" HTTP/1.1\r\nHost: x\r\n\r\n", 413},
	} {
		if status, body := f.raw(t, c.text); status != c.status {
			t.Errorf("%s: %d %s", what, status, body)
		}
	}
}

// C14.5: an unknown path, and a path with another method, are answered with a problem document.
func TestUnknownRoutesAreProblems(t *testing.T) {
	t.Parallel()
	f := serve(t, nil)
	for _, c := range []struct {
		method, path, allow string
		status              int
	}{
		{"POST", "/", "GET, HEAD", 405}, {"GET", "/v2/x", "", 404}, {"POST", "/v1/default/pushes", "", 404},
		{"PUT", "/admin/tokens", "GET, HEAD, POST", 405},
		{"GET", "/v1/default/push", "POST", 405}, {"PUT", "/v1/default/queues/q", "GET, HEAD, PATCH, DELETE", 405},
		{"DELETE", "/healthz", "GET, HEAD", 405},
	} {
		a := f.send(c.method, c.path, "")
		if c.allow != "" && !strings.Contains(a.body,
			"method "+c.method+" is not allowed here; this path takes only "+c.allow) {
			t.Errorf("%s %s does not say what may be: %s", c.method, c.path, a.body)
		}
		if a.status != c.status || a.header.Get("Allow") != c.allow ||
			a.header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s %s: %d, allow %q: %s", c.method, c.path, a.status, a.header.Get("Allow"), a.body)
		}
	}
}

// Fault X7: a token in the URL is refused. The token is neither in the answer nor in the log.
func TestUnknownQueryParametersAreRefused(t *testing.T) {
	t.Parallel()
	f := serve(t, nil)
	a := f.send("GET", "/v1/default/queues?token="+f.tokens["operator"], "", "none")
	if a.status != 401 {
		t.Errorf("a token in the URL opens a route: %d", a.status)
	}
	a = f.send("GET", "/v1/default/queues?limit=5&CANARY=1", "")
	if a.status != 400 || strings.Contains(a.body, "CANARY") {
		t.Errorf("%d %s", a.status, a.body)
	}

	for _, query := range []string{"limit=0", "limit=1001", "limit=x", "limit=1&limit=2", "limit=1;limit=2",
		"limit=%zz", "cursor=%ff%00", "order=up", "order=NEWEST", "from=yesterday", "from=10m",
		"from=0001-01-01T00:00:00Z", "from=2030-01-01T00:00:00Z"} {
		if a := f.send("GET", "/v1/default/queues/q/jobs?state=ready&"+query, ""); a.status != 400 {
			t.Errorf("%s: %d %s", query, a.status, a.body)
		}
	}
	if strings.Contains(f.log.String(), f.tokens["operator"]) || strings.Contains(f.log.String(), "CANARY") {
		t.Error("the log repeats the query")
	}
}

// C14.12: a repeated push without an ID creates a second job. With an ID it creates none.
func TestRepeatedPushIsOneJobOnlyWithAnID(t *testing.T) {
	t.Parallel()
	f := serve(t, nil)
	for range 2 {
		f.send("POST", "/v1/default/push", `{"jobs":[{"queue":"anonymous"},{"queue":"named","id":"a"}]}`)
	}
	if a, n := f.sizes("anonymous").Ready, f.sizes("named").Ready; a != 2 || n != 1 {
		t.Errorf("%d jobs without an id, %d with one", a, n)
	}
}

// C14.31: the list has the namespaces with queues.
func TestNamespacesAreListed(t *testing.T) {
	t.Parallel()
	f := serve(t, nil)
	f.send("POST", "/v1/b/push", `{"jobs":[{"queue":"q"}]}`)
	f.send("POST", "/v1/a/push", `{"jobs":[{"queue":"q"}]}`)
	if a := f.send("GET", "/admin/namespaces", ""); a.body != `{"namespaces":[{"name":"a"},{"name":"b"}],"next":""}` {
		t.Errorf("%d %s", a.status, a.body)
	}
}
