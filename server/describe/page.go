package describe

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html"
	"strconv"
	"strings"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/wire"
	"github.com/dulymq/duly/server/auth"
	"github.com/dulymq/duly/server/route"
)

//go:embed icon.png
var icon []byte

//go:embed page.css
var pageStyle string

// Policy returns the Content-Security-Policy of the page: the page loads only its own style sheet
// and icon, and runs nothing.
func Policy() string {
	// The hash allows this style sheet only, so an injected style has no effect.
	sum := sha256.Sum256([]byte(pageStyle))
	return "default-src 'none'; img-src 'self'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}

// Icon returns the PNG that browsers show next to the page's title.
func Icon() []byte { return icon }

// Page returns the page at /docs.
func Page(version string, parts []Part) []byte {
	p := &page{}
	p.head(version)
	p.contents(parts)

	p.put("<main>\n")
	// Curl needs the part of a route, so a route gets both.
	for i := range parts {
		p.put("<h2>%s</h2>\n<p>%s</p>\n", parts[i].Title, parts[i].Text)
		for k := range parts[i].Routes {
			p.route(parts[i], &parts[i].Routes[k])
		}
	}
	p.errors()
	p.put("</main>\n</body>\n</html>\n")
	return p.Bytes()
}

// page writes HTML. It does not use html/template, because a program that links that package keeps
// every exported method of every type, which is a third of the binary.
type page struct{ bytes.Buffer }

// put writes HTML. It escapes the arguments, except those of the type markup.
func (p *page) put(format string, args ...any) {
	for i, a := range args {
		if _, ok := a.(markup); !ok {
			// The argument becomes a text, so every format is %s.
			args[i] = html.EscapeString(fmt.Sprint(a))
		}
	}
	fmt.Fprintf(p, format, args...)
}

// markup is HTML.
type markup string

func (p *page) head(version string) {
	p.put("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n")
	p.put("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n")
	p.put("<title>duly: HTTP API</title>\n<style>%s</style>\n</head>\n<body>\n", markup(pageStyle))

	p.put("<header>\n<h1>duly <small>HTTP API v1 · %s</small></h1>\n", version)
	for _, text := range strings.Split(intro, "\n\n") {
		p.put("<p>%s</p>\n", text)
	}
	p.put("<p>%s</p>\n<pre>%s</pre>\n", strings.ReplaceAll(examples, "`", ""), setVariables)
	p.put("<p>For programs: <a href=\"/openapi.json\">openapi.json</a> (OpenAPI 3.1).</p>\n</header>\n")
}

// contents writes the list of all routes.
func (p *page) contents(parts []Part) {
	p.put("<nav>\n")
	for _, part := range parts {
		p.put("<h2>%s</h2>\n<ul>\n", part.Title)
		for _, r := range part.Routes {
			p.put("<li><a href=\"#%s\"><b>%s</b> %s</a></li>\n", r.Doc.ID, r.Method, r.Path)
		}
		p.put("</ul>\n")
	}
	p.put("<ul>\n<li><a href=\"#errors\">Errors</a></li>\n</ul>\n</nav>\n")
}

// route writes the section of one route.
func (p *page) route(part Part, r *route.Route) {
	p.put("<section id=\"%s\">\n<h3><b>%s</b> <code>%s</code></h3>\n", r.Doc.ID, r.Method, r.Path)
	p.put("<p><strong>%s.</strong> %s</p>\n", r.Doc.Summary, r.Doc.Text)
	p.put("<p class=\"right\">Right: %s", r.Access)
	// A route without specific errors has no list of errors.
	for i, code := range Codes(r) {
		separator := ", "
		if i == 0 {
			separator = " · Errors: "
		}
		p.put("%s%s", separator, code)
	}
	p.put("</p>\n")

	p.input("Query", queryFields(r))
	p.input("Request", RequestFields(r))
	p.put("<pre>%s</pre>\n", Curl(part, r))
	if r.Doc.ExampleAnswer != "" {
		p.put("<pre class=\"answer\">%s</pre>\n", r.Doc.ExampleAnswer)
	}
	if fields := AnswerFields(r); len(fields) > 0 {
		p.put("<h4>Answer</h4>\n")
		p.output(fields)
	}
	p.put("</section>\n")
}

// errors writes the section of errors.
func (p *page) errors() {
	p.put("<section id=\"errors\">\n<h2>Errors</h2>\n<p>An error is application/problem+json. " +
		"An item of a batch has the same fields, without type, title and status.</p>\n")
	p.output(fieldsOf(wire.ProblemForm))

	p.tableHead("code", "status")
	for _, code := range duly.Codes() {
		p.put("<tr><td><code>%s</code></td><td>%s</td></tr>\n", code, strconv.Itoa(code.HTTPStatus()))
	}
	p.put("%s</section>\n", tableEnd)
}

// input writes the table of the fields that a caller sends, if the route has any.
func (p *page) input(title string, fields []Field) {
	if len(fields) == 0 {
		return
	}
	p.put("<h4>%s</h4>\n", title)
	p.tableHead("name", "type", "default", "bound", "meaning")
	for _, f := range fields {
		p.put("<tr><td><code>%s</code></td><td>%s</td><td>%s</td><td>%s</td><td>%s</td></tr>\n",
			f.Name, typeHTML(f.Type), f.Preset(), f.Bound, f.Meaning)
	}
	p.put("%s", tableEnd)
}

// output writes the table of the fields that a caller gets.
func (p *page) output(fields []Field) {
	p.tableHead("name", "type", "values", "meaning")
	for _, f := range fields {
		p.put("<tr><td><code>%s</code></td><td>%s</td><td>%s</td><td>%s</td></tr>\n",
			f.Name, typeHTML(f.Type), f.Bound, f.Meaning)
	}
	p.put("%s", tableEnd)
}

func (p *page) tableHead(names ...string) {
	p.put("<div class=\"fields\"><table>\n<thead><tr>")
	for _, name := range names {
		p.put("<th>%s</th>", name)
	}
	p.put("</tr></thead>\n<tbody>\n")
}

const tableEnd = markup("</tbody>\n</table></div>\n")

// typeHTML returns the type of a field, with a link to the section of errors.
func typeHTML(name string) markup {
	return markup(strings.ReplaceAll(html.EscapeString(name), "[error](#errors)", `<a href="#errors">error</a>`))
}

// Curl returns a command that calls the route with its example.
func Curl(p Part, r *route.Route) string {
	base := "$API"
	if p.Admin {
		base = "$DULY_ADMIN_URL"
	}
	token := "/tokens/$ID"
	if r.Method == "PUT" { // PUT imports a token that was created elsewhere
		token = "/tokens/" + strings.Repeat("0123456789abcdef", 4)
	}
	// Names and IDs differ by folder, so these pairs replace the folder too.
	path := strings.NewReplacer(
		"/schedules/{name}", "/schedules/nightly", "{name}", "shop", "{namespace}", "default",
		"{queue}", "mail", "{topic}", "events", "{group}", "mailer",
		"/tokens/{id}", token, "/operations/{id}", "/operations/01J0000000000000000000000E",
		"/delayed/{id}", "/delayed/reminder:7", "{id}/why", "order:3/why", "{id}", "order:2", "{profile}", "profile",
		"{receipt}", "mail:0:01J0000000000000000000000B:1",
	).Replace(r.Path)

	parts := []string{"curl -sS"}
	if r.Method != "GET" {
		parts[0] += " -X " + r.Method
	}
	// An open route needs no token, so its example has none.
	if r.Access != auth.Open {
		parts[0] += ` -H "Authorization: Bearer $DULY_TOKEN"`
	}
	parts = append(parts, fmt.Sprintf(`"%s%s%s"`, base, path, r.Doc.ExampleQuery))
	if r.Doc.Example != "" {
		parts = append(parts, "-d '"+wrapJSON(r.Doc.Example)+"'")
	}
	if r.Doc.ExampleFile != "" {
		parts = append(parts, "-o "+r.Doc.ExampleFile)
	}

	line := strings.Join(parts, " ")
	if len(line) > width {
		return strings.Join(parts, " \\\n  ")
	}
	return line
}
