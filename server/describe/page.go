package describe

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"strings"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/wire"
	"github.com/dulymq/duly/server/auth"
	"github.com/dulymq/duly/server/route"
)

//go:embed page.html
var pageText string

//go:embed icon.png
var icon []byte

//go:embed page.css
var pageStyle string

// Policy returns the Content-Security-Policy of the page: it loads and runs nothing except
// its own style sheet and icon.
func Policy() string {
	sum := sha256.Sum256([]byte(pageStyle))
	return "default-src 'none'; img-src 'self'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}

// Icon returns the PNG that browsers show next to the page's title.
func Icon() []byte { return icon }

// Page returns the page at /docs.
func Page(version string, parts []Part) []byte {
	page := template.Must(template.New("page").Funcs(template.FuncMap{
		"curl": Curl, "codes": Codes, "request": RequestFields, "answer": AnswerFields, "query": queryFields,
		"errorFields": func() []Field { return fieldsOf(wire.ProblemForm) },
		"paragraphs":  func(text string) []string { return strings.Split(text, "\n\n") },
		"right":       auth.Access.String,
		"typeName":    typeHTML,
	}).Parse(pageText))

	var b bytes.Buffer
	err := page.Execute(&b, map[string]any{
		"Version": version, "Style": template.CSS(pageStyle), "Intro": intro,
		"Examples": strings.ReplaceAll(examples, "`", ""), "Variables": setVariables,
		"Parts": pointers(parts), "Codes": duly.Codes(),
	})
	if err != nil {
		panic("server: the page at /docs: " + err.Error())
	}
	return b.Bytes()
}

// pagePart is a part with pointers to its routes, which the functions of the page take.
type pagePart struct {
	Part
	Routes []*route.Route
}

func pointers(parts []Part) []pagePart {
	list := make([]pagePart, len(parts))
	for i, p := range parts {
		list[i].Part = p
		for k := range p.Routes {
			list[i].Routes = append(list[i].Routes, &p.Routes[k])
		}
	}
	return list
}

// typeHTML returns the type of a field, with a link to the section of errors.
func typeHTML(name string) template.HTML {
	return template.HTML(strings.ReplaceAll(template.HTMLEscapeString(name),
		"[error](#errors)", `<a href="#errors">error</a>`))
}

// Curl returns a command that calls the route with its example.
func Curl(p Part, r *route.Route) string {
	base := "$API"
	if p.Admin {
		base = "$DULY_ADMIN_URL"
	}
	token := "/tokens/$ID"
	if r.Method == "PUT" { // the import of a token that was made elsewhere
		token = "/tokens/" + strings.Repeat("0123456789abcdef", 4)
	}
	path := strings.NewReplacer(
		"/schedules/{name}", "/schedules/nightly", "{name}", "shop", "{namespace}", "default", "{queue}", "mail", "{topic}", "events", "{group}", "mailer",
		"/tokens/{id}", token, "/delayed/{id}", "/delayed/reminder:7", "{id}", "order:2", "{profile}", "profile",
		"{receipt}", "mail:0:01J0000000000000000000000B:1",
	).Replace(r.Path)

	var b strings.Builder
	b.WriteString("curl -sS")
	if r.Method != "GET" {
		b.WriteString(" -X " + r.Method)
	}
	if r.Access != auth.Open {
		b.WriteString(` -H "Authorization: Bearer $DULY_TOKEN"`)
	}
	fmt.Fprintf(&b, ` "%s%s%s"`, base, path, r.Doc.ExampleQuery)
	if r.Doc.Example != "" {
		fmt.Fprintf(&b, " -d '%s'", r.Doc.Example)
	}
	if r.Doc.ExampleFile != "" {
		b.WriteString(" -o " + r.Doc.ExampleFile)
	}
	return b.String()
}
