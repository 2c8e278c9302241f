package describe

import (
	"fmt"
	"strings"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/wire"
	"github.com/dulymq/duly/server/route"
)

// The fixed texts of docs/http-api.md.
const (
	pageHead = "# HTTP API\n\n" +
		"<!-- Made from the server's table of routes: go test ./server -run HTTPAPIPage -update -->\n\n"
	otherForms = "A running server shows this page at `/docs` and the OpenAPI 3.1 document at `/openapi.json`.\n\n"
	rightsText = "A token has some of the rights produce, consume and admin (which includes the others) " +
		"in one namespace, or in all (`*`). A token may have limits. Beyond them a call is answered `limited` with " +
		"Retry-After. [security.md](security.md) has the details."
	errorsText = "The answer is `application/problem+json`. " +
		"`fields` names every bad field and its bound, `state` the state that prevents an operation. " +
		"[troubleshooting.md](troubleshooting.md) says what to do about each code."
	exampleError = `{"type":"about:blank","title":"Bad Request","status":400,"code":"invalid",` +
		`"detail":"max is 0, must be between 1 and 1000",` +
		`"fields":[{"field":"max","problem":"is 0, must be between 1 and 1000"}]}`
	otherErrors = "\nTwo more statuses have the code `invalid`: 405 and 408. " +
		"431 (a head of more than 16 KiB) has no document.\n"
)

// Markdown returns docs/http-api.md.
func Markdown(parts []Part) []byte {
	var b strings.Builder
	b.WriteString(pageHead + wrap(intro) + "\n\n" + otherForms)
	b.WriteString(wrap(examples) + "\n\n```sh\n" + setVariables + "\n```\n\n## Rights\n\n" + wrap(rightsText) +
		"\n\n| route | right |\n| --- | --- |\n")
	for _, p := range parts {
		for i := range p.Routes {
			r := &p.Routes[i]
			fmt.Fprintf(&b, "| `%s %s` | %s |\n", r.Method, r.Path, r.Access)
		}
	}

	for _, p := range parts {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n", p.Title, wrap(p.Text))
		for i := range p.Routes {
			writeRoute(&b, p, &p.Routes[i])
		}
	}

	writeErrors(&b)
	return []byte(b.String())
}

func writeRoute(b *strings.Builder, p Part, r *route.Route) {
	text := "**" + sentence(r.Doc.Summary) + "** " + r.Doc.Text
	if codes := Codes(r); len(codes) > 0 {
		names := make([]string, len(codes))
		for i, c := range codes {
			names[i] = "`" + string(c) + "`"
		}
		text += " Errors: " + strings.Join(names, ", ") + "."
	}
	fmt.Fprintf(b, "\n### `%s %s`\n\n%s\n", r.Method, r.Path, wrap(text))

	writeFields(b, "query parameter", queryFields(r))
	writeFields(b, "field", RequestFields(r))
	fmt.Fprintf(b, "\n```sh\n%s\n```\n", Curl(p, r))

	switch {
	case r.Doc.ExampleAnswer != "":
		fmt.Fprintf(b, "\n```json\n%s\n```\n", wrapJSON(r.Doc.ExampleAnswer))
		writeFields(b, "answer", AnswerFields(r))
	// Any other answer without an example is binary, and its text describes it.
	case status(r) == 204:
		b.WriteString("\nAnswers 204 without a body.\n")
	}
}

// writeFields writes a table of fields. An answer has no defaults.
func writeFields(b *strings.Builder, title string, fields []Field) {
	if len(fields) == 0 {
		return
	}

	answer := title == "answer"
	if answer {
		b.WriteString("\n| answer | type | values | meaning |\n| --- | --- | --- | --- |\n")
	} else {
		fmt.Fprintf(b, "\n| %s | type | default | bound | meaning |\n| --- | --- | --- | --- | --- |\n", title)
	}

	for _, f := range fields {
		if answer {
			fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", f.Name, f.Type, f.Bound, f.Meaning)
			continue
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s | %s |\n", f.Name, f.Type, f.Preset(), f.Bound, f.Meaning)
	}
}

// sentence returns a summary with a full stop, unless it is a question.
func sentence(summary string) string {
	if strings.HasSuffix(summary, "?") {
		return summary
	}
	return summary + "."
}

func writeErrors(b *strings.Builder) {
	fmt.Fprintf(b, "\n## Errors\n\n%s\n\n```json\n%s\n```\n", wrap(errorsText), wrapJSON(exampleError))
	writeFields(b, "answer", fieldsOf(wire.ProblemForm))
	b.WriteString("\n| code | status |\n| --- | --- |\n")
	for _, code := range duly.Codes() {
		fmt.Fprintf(b, "| `%s` | %d |\n", code, code.HTTPStatus())
	}
	b.WriteString(otherErrors)
}
