package lmstfy_test

import (
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly/internal/clock"
)

// Fault P11: on every engine, each request of the scripts has the expected status, headers and body.
// docs/lmstfy.md lists the intended differences.
func TestRecordedLmstfyRequestsGetTheExpectedAnswers(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	requests := 0
	scripts := make([]*script, len(files))

	for i, file := range files {
		scripts[i] = readScript(t, file)
		for _, c := range scripts[i].cases {
			for _, s := range c.steps {
				if s.verb == "request" {
					requests++
				}
			}
		}
	}

	t.Logf("%d requests in %d scripts", requests, len(files))
	on := maps.Clone(stages)
	if os.Getenv("DULY_LONG") != "" {
		on["clock"] = onTheClock
	}

	for name, on := range on {
		for _, s := range scripts {
			for _, c := range s.cases {
				t.Run(name+"/"+strings.TrimSuffix(filepath.Base(s.file), ".txt")+"/"+c.name, func(t *testing.T) {
					t.Parallel()
					replay(t, on(t), s.file, c)
				})
			}
		}
	}
}

// longest is the maximum duration of a case with the system's clock.
const longest = 15 * time.Second

func replay(t *testing.T, on *stage, file string, c *scriptCase) {
	if takes := c.takes(); !on.still && takes > longest {
		t.Skipf("it takes %s, and this clock can't be moved", takes)
	}
	p := open(t, on, nil)
	r := &run{play: p, t: t, at: file, later: map[string]*request{}, vars: map[string]string{
		"ns": "ns", "token": p.token("ns"), "other": p.token("ns-other"),
	}}
	for _, step := range c.steps {
		r.step(step)
	}
	for name := range r.later {
		t.Errorf("%s: %s is not joined", file, name)
	}
}

// takes returns the duration of a case.
func (c *scriptCase) takes() (d time.Duration) {
	for _, s := range c.steps {
		d += s.advance + s.waits
	}
	return d
}

// run has the state of one case of a script.
type run struct {
	*play
	t     *testing.T
	at    string // file and line of the current step
	vars  map[string]string
	later map[string]*request
	ids   map[string]bool // values of X-Request-ID so far
	loose bool            // whether real time passed during the request
}

// request is a request that was sent.
type request struct {
	step   *step
	answer chan answer
}

func (r *run) step(s *step) {
	file, _, _ := strings.Cut(r.at, ":")
	r.at, r.loose = fmt.Sprintf("%s:%d", file, s.line), !r.still || s.waits > 0
	switch s.verb {
	case "advance":
		r.advance(s.advance)
	case "join":
		q := r.later[s.later]
		if q == nil {
			r.t.Fatalf("%s: nothing is called %s", r.at, s.later)
		}
		delete(r.later, s.later)
		if err := r.check(<-q.answer, &s.answer); err != nil {
			r.t.Fatalf("%s: %v", r.at, err)
		}
	case "request":
		r.request(s)
	}
}

func (r *run) request(s *step) {
	for len(r.gate.waiting) > 0 { // receives the waits of earlier requests
		<-r.gate.waiting
	}
	switch {
	case s.later != "":
		r.later[s.later] = r.start(s)
		<-r.gate.waiting
	case s.inTime:
		var a answer
		var err error
		until(r.t, r.at, func() bool {
			a = <-r.start(s).answer
			err = r.check(a, &s.answer)
			return err == nil
		})

	default:
		if err := r.check(r.await(r.start(s)), &s.answer); err != nil {
			r.t.Fatalf("%s: %v", r.at, err)
		}
	}
}

// start sends a request of the script.
func (r *run) start(s *step) *request {
	method, target, _ := strings.Cut(r.fill(s.request.first), " ")
	base, peer := r.api.URL, r.peer()
	if strings.HasPrefix(target, "admin:") {
		base, target, peer = r.admin.URL, strings.TrimPrefix(target, "admin:"), ""
	}
	req, err := http.NewRequest(method, base+target, strings.NewReader(r.fill(s.request.body)))
	if err != nil {
		r.t.Fatalf("%s: %v", r.at, err)
	}
	if peer != "" {
		req.Header.Set("X-Forwarded-For", peer)
	}

	for _, h := range s.request.headers {
		switch h[0] {
		case "Host":
			req.Host = h[1]
			continue
		case "X-Forwarded-For":
			if req.Header.Get(h[0]) == peer {
				req.Header.Del(h[0])
			}
		}
		req.Header.Add(r.fill(h[0]), r.fill(h[1]))
	}

	q := &request{step: s, answer: make(chan answer, 1)}
	go func() { q.answer <- do(req) }()
	return q
}

// await returns the answer to a request. For a waiting request, it advances the clock, and the
// answer must not come before its time.
func (r *run) await(q *request) answer {
	waits := q.step.waits
	if waits == 0 {
		return <-q.answer
	}
	begin := clock.Monotonic()

	if !r.still {
		a := <-q.answer
		if took := clock.Monotonic() - begin; took < waits {
			r.t.Errorf("%s: answered after %s, want %s", r.at, took, waits)
		}
		return a
	}

	piece, passed := max(250*time.Millisecond, waits/20), time.Duration(0)
	limit := time.NewTimer(20 * time.Second)
	defer limit.Stop()

	for pause := r.gate.waiting; ; { // first until the request waits, then in short steps
		select {
		case a := <-q.answer:
			if passed < waits {
				r.t.Errorf("%s: answered after %s, want %s", r.at, passed, waits)
			}
			return a
		case <-pause:
			r.advance(piece)
			passed += piece
			pause = moment()
		case <-limit.C:
			r.t.Fatalf("%s: not answered after %s", r.at, passed)
		}
	}
}

// moment returns a channel that is closed after a short real time. In that time, goroutines react
// to the change of the clock.
func moment() chan struct{} {
	over := make(chan struct{})
	time.AfterFunc(2*time.Millisecond, func() { close(over) })
	return over
}

// placeholder matches <name>, <kind:value> and <text*count>.
var placeholder = regexp.MustCompile(`<([^<>"]+)>`)

// fill replaces the placeholders of a request.
func (r *run) fill(text string) string {
	return placeholder.ReplaceAllStringFunc(text, func(m string) string {
		value, ok := r.value(m[1 : len(m)-1])
		if !ok {
			r.t.Fatalf("%s: %s is not known", r.at, m)
		}
		return value
	})
}

func (r *run) value(name string) (string, bool) {
	if v, ok := r.vars[name]; ok {
		return v, true
	}
	if text, count, ok := strings.Cut(name, "*"); ok {
		n, err := strconv.Atoi(count)
		return strings.Repeat(text, n), err == nil
	}
	if digits, ok := strings.CutPrefix(name, "hex:"); ok {
		b, err := hex.DecodeString(digits)
		return string(b), err == nil
	}
	return "", false
}

const ulid = `[0-7][0-9A-HJKMNP-TV-Z]{25}`

// check compares an answer with the script, and keeps the values of new placeholders.
func (r *run) check(a answer, want *message) error {
	if a.err != nil {
		return a.err
	}
	if got := strconv.Itoa(a.status); got != want.first {
		return fmt.Errorf("%s, want %s: %s", got, want.first, a.body)
	}
	if err := r.checkHeaders(a, want); err != nil {
		return err
	}
	return r.match(a.body, want.body)
}

// checkHeaders checks the headers of every answer and the headers in the script. The value "-"
// means that the header must be absent.
func (r *run) checkHeaders(a answer, want *message) error {
	id := a.header.Get("X-Request-ID")
	if !regexp.MustCompile("^"+ulid+"$").MatchString(id) || r.ids[id] {
		return fmt.Errorf("X-Request-ID is %q", id)
	}
	if r.ids == nil {
		r.ids = map[string]bool{}
	}
	r.ids[id] = true
	headers := want.headers

	if len(headers) == 0 {
		kind := "application/json; charset=utf-8"
		if want.body == "" {
			kind = "-"
		}
		headers = [][2]string{{"Content-Type", kind}}
	}

	for _, h := range headers {
		got := a.header.Get(h[0])
		if got == "" {
			got = "-"
		}
		if err := r.match(got, h[1]); err != nil {
			return fmt.Errorf("%s: %w", h[0], err)
		}
	}

	return nil
}

// match compares a string with a pattern that may have placeholders.
func (r *run) match(got, want string) error {
	var names []string
	pattern := "(?s)^"
	rest := want

	for {
		m := placeholder.FindStringSubmatchIndex(rest)
		if m == nil {
			break
		}
		pattern += regexp.QuoteMeta(rest[:m[0]])
		name := rest[m[2]:m[3]]
		rest = rest[m[1]:]
		if value, ok := r.value(name); ok {
			pattern += regexp.QuoteMeta(value)
			continue
		}
		pattern += "(" + expression(name) + ")"
		names = append(names, name)
	}

	found := regexp.MustCompile(pattern + regexp.QuoteMeta(rest) + "$").FindStringSubmatch(got)
	if found == nil {
		return fmt.Errorf("%.500s\nwant %.500s", got, want)
	}

	for i, name := range names {
		if err := r.take(name, found[i+1]); err != nil {
			return fmt.Errorf("%w in %.500s", err, got)
		}
	}
	return nil
}

// expression returns the regular expression of a new placeholder.
func expression(name string) string {
	switch kind, _, _ := strings.Cut(name, ":"); kind {
	case "ms", "s":
		return "[0-9]+"
	case "ulid":
		return ulid
	case "...":
		return ".*"
	}
	return `[^"]*`
}

// take keeps the value of a placeholder, or checks a time.
func (r *run) take(name, got string) error {
	kind, value, timed := strings.Cut(name, ":")
	if !timed {
		if name != "ulid" && name != "any" && name != "..." {
			r.vars[name] = got
		}
		return nil
	}

	n, err := strconv.Atoi(got)
	want, err2 := strconv.Atoi(value)
	if err != nil || err2 != nil {
		return fmt.Errorf("%s is %s", name, got)
	}
	slack := 0

	switch {
	case !r.loose:
	case kind == "ms": // may be larger, but not smaller
		slack = 20_000
	case kind == "s": // a remaining time may be smaller, but not larger
		want, n = n, want
		slack = 20
	}

	if n < want || n > want+slack {
		return fmt.Errorf("%s is %s", name, got)
	}
	return nil
}
