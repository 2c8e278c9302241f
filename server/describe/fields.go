package describe

import (
	"reflect"
	"regexp"
	"strings"

	"github.com/dulymq/duly/internal/wire"
	"github.com/dulymq/duly/server/route"
)

// Field is one row of a table with the fields of a request or an answer.
type Field struct {
	Name     string // name with the path, like jobs[].merge.key
	Type     string
	Required bool   // whether a request must have the field
	Default  string // default value, or ""
	Bound    string // limit of the value, or ""
	Meaning  string
}

// RequestFields returns the fields of the route's request, in the order of its form.
func RequestFields(r *route.Route) []Field { return fieldsOf(r.Doc.Request) }

// AnswerFields returns the fields of the route's answer, in the order of its form.
func AnswerFields(r *route.Route) []Field { return fieldsOf(r.Doc.Answer) }

// queryFields returns the route's query parameters.
func queryFields(r *route.Route) []Field {
	fields := make([]Field, 0, len(r.Query))
	for _, name := range r.Query {
		q := queryOf(r, name)
		meaning, bound, preset := split(q.text)
		fields = append(fields, Field{
			Name: name, Type: q.kind, Required: name == requiredQuery,
			Default: preset, Bound: bound, Meaning: meaning,
		})
	}

	return fields
}

// Preset returns the text of the column "default".
func (f Field) Preset() string {
	if f.Required {
		return "required"
	}

	return f.Default
}

func fieldsOf(form route.Form) []Field {
	if form == nil {
		return nil
	}
	return appendFields(nil, "", description(form))
}

// description returns the description of a form. Every form of a route is one of the wire.
func description(form route.Form) *wire.Object { return form.(wire.Described).Describe() }

// appendFields adds the fields of an object, each with the fields inside it.
func appendFields(rows []Field, path string, o *wire.Object) []Field {
	for i := range o.Fields {
		f := &o.Fields[i]
		meaning, bound, preset := split(f.Doc)
		rows = append(rows, Field{
			Name: path + f.Name, Type: typeName(f), Required: f.Required,
			Default: preset, Bound: join(bound, bounds(f)), Meaning: meaning,
		})

		// An error is a link to its own table.
		if f.Object == nil || isError(f) {
			continue
		}
		inner := path + f.Name + "."
		if f.List {
			inner = path + f.Name + "[]."
		}
		rows = appendFields(rows, inner, f.Object)
	}

	return rows
}

// isError reports whether the field is an error. Errors have a separate section, so other tables
// show an error as one row.
func isError(f *wire.Field) bool { return f.Object != nil && f.Object.Name == "Error" }

var typeNames = map[wire.Kind]string{
	wire.Text: "string", wire.Integer: "integer", wire.Boolean: "boolean", wire.Duration: "duration",
	wire.DurationOrNone: "duration or none", wire.CountOrNone: "integer or none", wire.RateOrNone: "number or none",
	wire.Time: "time", wire.Base64: "base64", wire.TextMap: "object of strings",
	wire.IntegerMap: "object of integers", wire.Nested: "object", wire.NestedOrNone: "object or none", wire.Number: "number",
}

func typeName(f *wire.Field) string {
	switch {
	case isError(f):
		return "[error](#errors)"
	case f.List:
		return "array of " + typeNames[f.Kind] + "s"
	}
	return typeNames[f.Kind]
}

// bounds describes the keywords of the field.
func bounds(f *wire.Field) string {
	keywords := reflect.StructTag(f.Keywords)
	var words []string
	switch least, most := keywords.Get("minimum"), keywords.Get("maximum"); {
	case most != "":
		words = append(words, least+" to "+most)
	case least != "":
		words = append(words, "at least "+least)
	}

	if n := keywords.Get("maxLength"); n != "" {
		words = append(words, n+" bytes")
	}
	if n := keywords.Get("maxItems"); n != "" {
		words = append(words, n+" items")
	}
	if choice := keywords.Get("enum"); choice != "" {
		words = append(words, strings.ReplaceAll(choice, ",", ", "))
	}

	return strings.Join(words, "; ")
}

// bounded and preset match the sentences of a description that have their own columns.
var (
	bounded = regexp.MustCompile(` ?Bound: (.*?)\.( Default:|$)`)
	preset  = regexp.MustCompile(` ?Default: (.*)\.$`)
)

// split takes the bound and the default out of a description.
func split(description string) (meaning, bound, fallback string) {
	if m := preset.FindStringSubmatchIndex(description); m != nil {
		fallback = description[m[2]:m[3]]
	}
	if m := bounded.FindStringSubmatchIndex(description); m != nil {
		bound = description[m[2]:m[3]]
		// The limit ends the meaning. The sentences after it are in other columns.
		return description[:m[0]], bound, fallback
	}

	return preset.ReplaceAllString(description, ""), "", fallback
}

func join(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}

	return a + "; " + b
}
