package describe

import (
	"fmt"
	"strings"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/server/route"
)

// Markdown is docs/http-api.md.
func Markdown(parts []Part) []byte {
	var b strings.Builder
	b.WriteString("# HTTP API\n\n")
	b.WriteString("<!-- Made from the server's table of routes: go test ./server -run HTTPAPIPage -update -->\n\n")
	b.WriteString(intro + "\n\n")
	b.WriteString("A running server shows this page at `/docs` and the OpenAPI 3.1 document at `/openapi.json`. With the variables that these lines set, the examples below run as they stand, from the first to the last; their receipts are made up, put those of your reserve; `$ID` is a token's, as the answer has it that makes one.\n\n")
	b.WriteString("```sh\nexport DULY_URL=$(cat duly-data/url) DULY_ADMIN_URL=$(cat duly-data/admin-url) DULY_TOKEN=$(cat duly-data/token)\n```\n\n")
	b.WriteString("## Rights\n\nA token has some of the rights produce, consume and admin (which includes the others) in one namespace, or in all (`*`). Guessing is slowed down, and a token may have limits: both are answered `limited` with Retry-After. [security.md](security.md) tells more.\n\n")
	b.WriteString("| route | right |\n| --- | --- |\n")
	for _, p := range parts {
		for i := range p.Routes {
			r := &p.Routes[i]
			fmt.Fprintf(&b, "| `%s %s` | %s |\n", r.Method, r.Path, r.Need)
		}
	}
	for _, p := range parts {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n", p.Title, p.Text)
		for i := range p.Routes {
			writeRoute(&b, p, &p.Routes[i])
		}
	}
	writeErrors(&b)
	return []byte(b.String())
}

func writeRoute(b *strings.Builder, p Part, r *route.Route) {
	fmt.Fprintf(b, "\n### `%s %s`\n\n**%s**", r.Method, r.Path, sentence(r.Doc.Summary))
	if r.Doc.Text != "" {
		b.WriteString(" " + r.Doc.Text)
	}
	if codes := Codes(r); len(codes) > 0 {
		names := make([]string, len(codes))
		for i, c := range codes {
			names[i] = "`" + string(c) + "`"
		}
		fmt.Fprintf(b, " Errors: %s.", strings.Join(names, ", "))
	}
	fmt.Fprintf(b, "\n\n```sh\n%s\n```\n", Curl(p, r))
	if r.Doc.ExampleAnswer != "" {
		fmt.Fprintf(b, "\n```json\n%s\n```\n", r.Doc.ExampleAnswer)
	} else if status(r) == 204 {
		b.WriteString("\nAnswers 204 without a body.\n")
	}
}

// sentence ends a summary that does not end by itself.
func sentence(summary string) string {
	if strings.HasSuffix(summary, "?") {
		return summary
	}
	return summary + "."
}

func writeErrors(b *strings.Builder) {
	b.WriteString("\n## Errors\n\nThe answer is `application/problem+json`; `fields` names every bad field and its bound, `state` the state in the way of a conflict. ")
	b.WriteString("[troubleshooting.md](troubleshooting.md) says what to do about each code.\n\n")
	b.WriteString("```json\n{\"type\":\"about:blank\",\"title\":\"Bad Request\",\"status\":400,\"code\":\"invalid\",\"detail\":\"max is 0, must be between 1 and 1000\",\"fields\":[{\"field\":\"max\",\"problem\":\"is 0, must be between 1 and 1000\"}]}\n```\n\n")
	b.WriteString("| code | status |\n| --- | --- |\n")
	for _, code := range duly.Codes() {
		fmt.Fprintf(b, "| `%s` | %d |\n", code, code.HTTPStatus())
	}
	b.WriteString("\nBeside these, 405 and 408 come with the code `invalid`, and 431 (a head of more than 16 KiB) without a document.\n")
}
