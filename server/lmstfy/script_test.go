package lmstfy_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

// A script has requests and lmstfy's answers to them.
//
//	== a case, in a namespace of its own
//	> PUT /api/<ns>/q?ttl=10          a request: first line, headers, a
//	> X-Token: <token>                empty line, body
//	>
//	> hello
//	< 201                             its answer: status, headers, body
//	< {"job_id":"<a>","msg":"published"}
//	advance 3s                        time passes
//	> GET /api/<ns>/q?timeout=3
//	waits 3s                          the answer comes after this time,
//	< 404                             not before
//	> GET /api/<ns>/q?timeout=3
//	later w                           it waits; its answer is below
//	> …
//	join w
//	< 200
//	< 200 in time                     asked again until the answer is this
//
// <name> in an answer keeps a string at its first use. Later it is that string, in requests and
// answers. <ns>, <token> and <other>, a token of another namespace, are predefined. <x*1024> is
// 1024 times x, and <hex:0aff> is bytes. <ms:3000> is three seconds and <s:10> is ten: exactly with
// a fake clock, and approximately with the system's. <ulid> is an ID of 26 characters, and <...> is
// any text. A path that begins with admin: is one of the admin address.
type script struct {
	file  string
	cases []*scriptCase
}

type scriptCase struct {
	name  string
	line  int
	steps []*step
}

// step is one action, with its request and its answer.
type step struct {
	line    int
	verb    string // request, advance or join
	request message
	waits   time.Duration // time that a request waits
	later   string        // name of a request that is answered later
	answer  message
	inTime  bool
	advance time.Duration
}

// message is a request or an answer: its first line, its headers, its body.
type message struct {
	first   string
	headers [][2]string
	body    string
}

func readScript(t *testing.T, file string) *script {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	r := &scriptReader{lines: strings.Split(string(text), "\n"), s: &script{file: file}}
	for r.at < len(r.lines) {
		if err := r.next(); err != nil {
			t.Fatalf("%s:%d: %v", file, r.at+1, err)
		}
	}
	return r.s
}

type scriptReader struct {
	lines []string
	at    int
	s     *script
}

func (r *scriptReader) next() (err error) {
	line := r.lines[r.at]
	if line == "" || line[0] == '#' {
		r.at++
		return nil
	}

	if name, ok := strings.CutPrefix(line, "== "); ok {
		r.s.cases = append(r.s.cases, &scriptCase{name: name, line: r.at + 1})
		r.at++
		return nil
	}
	if len(r.s.cases) == 0 {
		return fmt.Errorf("%q is before the first case", line)
	}
	c := r.s.cases[len(r.s.cases)-1]
	s := &step{line: r.at + 1}
	c.steps = append(c.steps, s)
	verb, rest, _ := strings.Cut(line, " ")

	switch verb {
	case ">":
		s.verb, s.request = "request", r.message('>')
		return r.modifiers(s)
	case "advance":
		s.verb = verb
		r.at++
		s.advance, err = time.ParseDuration(rest)
		return err
	case "join":
		s.verb, s.later = verb, rest
		r.at++
		return r.answer(s)
	}

	return fmt.Errorf("%q is not understood", line)
}

// modifiers reads the lines between a request and its answer.
func (r *scriptReader) modifiers(s *step) (err error) {
	verb, rest, _ := strings.Cut(r.lines[r.at], " ")
	switch verb {
	case "later":
		s.later = rest
		r.at++
		return nil
	case "waits":
		r.at++
		if s.waits, err = time.ParseDuration(rest); err != nil {
			return err
		}
	}
	return r.answer(s)
}

func (r *scriptReader) answer(s *step) error {
	if !strings.HasPrefix(r.lines[r.at], "< ") {
		return fmt.Errorf("an answer is missing")
	}
	s.answer = r.message('<')
	s.answer.first, s.inTime = strings.CutSuffix(s.answer.first, " in time")
	return nil
}

var headerLine = regexp.MustCompile(`^[A-Za-z0-9<*>-]+: `)

// message reads the lines that begin with the mark. The body of an answer needs no empty line before
// it, because its first character begins no header.
func (r *scriptReader) message(mark byte) (m message) {
	var body []string
	inBody := false

	for first := true; r.at < len(r.lines) && r.lines[r.at] != "" && r.lines[r.at][0] == mark; r.at++ {
		line := strings.TrimPrefix(r.lines[r.at][1:], " ")
		switch {
		case first:
			m.first, first = line, false
		case inBody:
			body = append(body, line)
		case line == "":
			inBody = true
		case headerLine.MatchString(line):
			name, value, _ := strings.Cut(line, ": ")
			m.headers = append(m.headers, [2]string{name, value})
		default:
			inBody = true
			body = append(body, line)
		}
	}

	m.body = strings.Join(body, "\n")
	return m
}
