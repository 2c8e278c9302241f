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
	"github.com/dulymq/duly/server/auth"
	"github.com/dulymq/duly/server/route"
)

//go:embed page.html
var pageText string

//go:embed icon.png
var icon []byte

//go:embed page.css
var pageStyle string

// Policy is the Content-Security-Policy of the page: nothing is loaded and
// nothing runs, its own style sheet aside.
func Policy() string {
	sum := sha256.Sum256([]byte(pageStyle))
	return "default-src 'none'; img-src 'self'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}

// Icon returns the PNG that browsers show next to the page's title.
func Icon() []byte { return icon }

// Page is the page at /docs.
func Page(version string, problem any, parts []Part) []byte {
	page := template.Must(template.New("page").Funcs(template.FuncMap{
		"curl": Curl, "codes": Codes, "paragraphs": paragraphs, "request": RequestFields, "answer": AnswerFields,
		"errorFields": func() []Field { return fieldsOf(problem) }, "typeName": typeHTML, "query": queryFields,
		"right": func(n auth.Access) string { return n.String() },
	}).Parse(pageText))
	var b bytes.Buffer
	err := page.Execute(&b, map[string]any{"Version": version, "Style": template.CSS(pageStyle), "Intro": intro, "Examples": strings.ReplaceAll(examples, "`", ""), "Variables": setVariables,
		"Parts": pointers(parts), "Codes": duly.Codes()})
	if err != nil {
		panic("server: the page at /docs: " + err.Error())
	}
	return b.Bytes()
}

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

// typeHTML is a field's type, with a link to the section of errors.
func typeHTML(name string) template.HTML {
	return template.HTML(strings.ReplaceAll(template.HTMLEscapeString(name), "[error](#errors)", `<a href="#errors">error</a>`))
}

func paragraphs(text string) []string { return strings.Split(text, "\n\n") }

// Curl is a line that calls the route with its example.
func Curl(p Part, r *route.Route) string {
	base := "$API"
	if p.Admin {
		base = "$DULY_ADMIN_URL"
	}
	token := "/tokens/$ID"
	if r.Method == "PUT" { // of a token that was made elsewhere
		token = "/tokens/" + strings.Repeat("0123456789abcdef", 4)
	}
	path := strings.NewReplacer(
		"{name}", "shop", "{namespace}", "default", "{queue}", "mail", "/tokens/{id}", token, "/delayed/{id}", "/delayed/reminder:7", "{id}", "order:2", "{topic}", "events", "{group}", "mailer", "{profile}", "profile",
		"{receipt}", "mail:0:01J0000000000000000000000B:1",
	).Replace(r.Path)
	var b strings.Builder
	b.WriteString("curl -sS")
	if r.Method != "GET" {
		b.WriteString(" -X " + r.Method)
	}
	if r.Need != auth.Open {
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
