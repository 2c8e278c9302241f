package render

import (
	"strings"
	"testing"
	"testing/fstest"
)

type row struct {
	Name string
	To   Path
	N    int
}

type view struct {
	Title string
	Rows  []row
	On    bool
	Row   *row
}

func parseText(text string) (*Set, error) {
	return Parse(fstest.MapFS{"t.html": {Data: []byte(text)}}, "*.html", map[string]any{
		"join": func(a, b string) string { return a + b },
	})
}

func TestExecute(t *testing.T) {
	t.Parallel()
	data := view{Title: `<b>"&'` + "\x00\xff", Rows: []row{{"a", "/ui/a?x=1&y=2", 1}, {"b", "/ui/b", 2}}, On: true}
	tests := []struct{ name, text, want string }{
		{"Escapes", `<p title="{{.Title}}">{{.Title}}</p>`,
			"<p title=\"&lt;b&gt;&#34;&amp;&#39;\uFFFD\uFFFD\">&lt;b&gt;&#34;&amp;&#39;\uFFFD\uFFFD</p>"},
		{"Range", `{{range .Rows}}<a href="{{.To}}">{{.Name}}{{.N}}</a>{{else}}none{{end}}`,
			`<a href="/ui/a?x=1&amp;y=2">a1</a><a href="/ui/b">b2</a>`},
		{"Root", `{{range .Rows}}{{if $.On}}{{.N}}{{end}}{{end}}`, "12"},
		{"Nil", `{{if .Row}}a row{{else}}no row{{end}}`, "no row"},
		{"Branch", `<input {{if .On}}checked{{end}}><i class="x{{if .Row}} off{{end}}"></i>`,
			`<input checked><i class="x"></i>`},
		{"Function", `{{join "a" (join "b" "c")}}`, "abc"},
		{"Call", `{{define "cell"}}<td>{{.Name}}</td>{{end}}{{range .Rows}}{{template "cell" .}}{{end}}`,
			"<td>a</td><td>b</td>"},
		{"Comment", `<!-- a <b> -->{{/* no */}}<script src="/x.js"></script>`,
			`<!-- a <b> --><script src="/x.js"></script>`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			set, err := parseText(tt.text)
			if err != nil {
				t.Fatal(err)
			}
			got, err := set.Execute(nil, "t.html", data)
			if err != nil || string(got) != tt.want {
				t.Errorf("got %q, %v, want %q", got, err, tt.want)
			}
		})
	}
}

// S3: a template in which a value would not be escaped does not parse, nor one that the policy would block.
func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"InlineScript":    `<script>run()</script>`,
		"ValueInScript":   `<script>{{.Title}}</script>`,
		"Style":           `<style>p{}</style>`,
		"StyleAttribute":  `<p style="color: red">`,
		"Handler":         `<p onclick="x()">`,
		"ScriptURL":       `<a href="javascript:x()">`,
		"Unquoted":        `<p class={{.Title}}>`,
		"SingleQuoted":    `<p class='{{.Title}}'>`,
		"ValueInTag":      `<p {{.Title}}>`,
		"ValueInTagName":  `<{{.Title}}>`,
		"ValueInComment":  `<!-- {{.Title}} -->`,
		"MiddleOfURL":     `<a href="/ui/{{.Title}}">`,
		"UnevenBranches":  `{{if .On}}<p title="{{end}}x`,
		"UnevenLoop":      `{{range .Rows}}<p title="{{end}}">`,
		"SplitName":       `<a {{if .On}}h{{end}}ref="{{.Title}}">`,
		"HandlerInBranch": `<p {{if .On}}onclick{{end}}>`,
		"UpperHandler":    `<p ONCLICK="x()">`,
		"SplitElement":    `<s{{if .On}}cript{{end}}>`,
		"SplitElse":       `<a {{if .On}}x{{else}}h{{end}}ref="{{.Title}}">`,
		"BranchOfURL":     `<a href="{{if .On}}{{.Title}}{{end}}">`,
		"TagInBranch":     `{{if .On}}<p{{else}}<a{{end}} title="x">`,
		"CallInValue":     `{{define "x"}}y{{end}}<p title="{{template "x"}}">`,
		"UnclosedTag":     `<p title="x"`,
		"Frame":           `<iframe src="/x"></iframe>`,
		"CallInTag":       `{{define "x"}}y{{end}}<p {{template "x"}}>`,
		"MissingTemplate": `{{template "x"}}`,
		"Pipe":            `{{.Title | join "x"}}`,
		"Variable":        `{{$x := .Title}}`,
		"UnknownFunction": `{{nothing .Title}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := parseText(text); err == nil {
				t.Errorf("%s parses", text)
			}
		})
	}
}

// A wrong template fails when it runs, and writes nothing.
func TestExecuteRefuses(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"TextAsURL":    `x<a href="{{.Title}}">`,
		"URLInBranch":  `x<a {{if .On}}href="{{.Title}}"{{end}}>`,
		"MissingField": `x{{.Missing}}`,
		"FieldOfText":  `x{{.Title.Name}}`,
		"Nil":          `x{{.Row.Name}}`,
		"RangeText":    `x{{range .Title}}{{end}}`,
		"Function":     `x{{join "a"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set, err := parseText(text)
			if err != nil {
				t.Fatal(err)
			}
			out, err := set.Execute([]byte("before"), "t.html", view{Title: "javascript:x()", On: true})
			if err == nil || string(out) != "before" {
				t.Errorf("%s writes %q, %v", text, out, err)
			}
		})
	}
	set, err := parseText("")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := set.Execute(nil, "other", nil); err == nil || !strings.Contains(err.Error(), "other") {
		t.Errorf("an unknown template gives %v", err)
	}
}
