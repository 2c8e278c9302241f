package describe

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/dulymq/duly/server/route"
)

// Field is one row of the table of a request's or an answer's fields.
type Field struct {
	Name     string // with its path: jobs[].merge.key
	Type     string
	Required bool   // in requests
	Default  string // "" for none
	Bound    string // "" for none
	Meaning  string
}

// errorForm is the name of the schema that has a section of its own. Other
// tables show it as one row.
const errorForm = "Error"

// RequestFields returns the fields of the route's request, in the order of its form.
func RequestFields(r *route.Route) []Field { return fieldsOf(r.Doc.Request) }

// AnswerFields returns the fields of the route's answer, in the order of its form.
func AnswerFields(r *route.Route) []Field { return fieldsOf(r.Doc.Answer) }

// queryFields returns the route's query parameters.
func queryFields(r *route.Route) []Field {
	fields := make([]Field, 0, len(r.Query))
	for _, name := range r.Query {
		p := queryParam(name)
		meaning, bound, preset := split(p.Description)
		fields = append(fields, Field{
			Name: name, Type: p.Schema.Type, Required: p.Required, Default: preset, Bound: bound, Meaning: meaning,
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

func fieldsOf(form any) []Field {
	if form == nil {
		return nil
	}

	l := lister{registry: huma.NewMapRegistry("#/", schemaName)}
	t := reflect.TypeOf(form)
	l.registry.Schema(t, true, t.Name())
	l.object("", t)

	return l.fields
}

// lister walks over a form's Go type, for the order of its fields, together
// with the schema made from it, for everything else.
type lister struct {
	registry huma.Registry
	fields   []Field
}

func (l *lister) object(path string, t reflect.Type) {
	l.members(path, t, l.resolve(l.registry.Schema(t, true, t.Name())))
}

// members adds the fields of a struct and of the structs that it embeds.
func (l *lister) members(path string, t reflect.Type, schema *huma.Schema) {
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous {
			l.members(path, f.Type, schema)
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		property := schema.Properties[name]
		if property == nil {
			continue
		}

		l.field(path+name, f.Type, property, slices.Contains(schema.Required, name))
	}
}

// field adds one field, and the fields inside it if it is an object.
func (l *lister) field(name string, t reflect.Type, property *huma.Schema, required bool) {
	meaning, bound, preset := split(property.Description)
	l.fields = append(l.fields, Field{
		Name: name, Type: l.typeName(property), Required: required,
		Default: preset, Bound: join(bound, l.bound(property)), Meaning: meaning,
	})

	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		if t.Kind() == reflect.Slice {
			name += "[]"
		}
		t = t.Elem()
	}
	if s := items(property); s.Ref != "" && !strings.HasSuffix(s.Ref, "/"+errorForm) {
		l.object(name+".", t)
	}
}

// resolve follows a reference.
func (l *lister) resolve(s *huma.Schema) *huma.Schema {
	if s.Ref != "" {
		return l.registry.SchemaFromRef(s.Ref)
	}

	return s
}

// items returns the schema of an array's items, or the schema itself.
func items(s *huma.Schema) *huma.Schema {
	for s.Type == huma.TypeArray {
		s = s.Items
	}

	return s
}

func (l *lister) typeName(s *huma.Schema) string {
	switch {
	case strings.HasSuffix(s.Ref, "/"+errorForm):
		return "[error](#errors)"
	case s.Ref != "":
		return "object"
	case s.Type == huma.TypeArray:
		return "array of " + l.typeName(s.Items) + "s"
	case s.Title != "":
		return s.Title
	case s.Format == "date-time":
		return "time"
	case s.ContentEncoding == "base64":
		return "base64"
	case s.Type == huma.TypeObject:
		if values, ok := s.AdditionalProperties.(*huma.Schema); ok {
			return "object of " + l.typeName(values) + "s"
		}
	}

	return s.Type
}

// bound describes the keywords of the schema.
func (l *lister) bound(s *huma.Schema) string {
	var words []string
	switch {
	case s.Minimum != nil && s.Maximum != nil:
		words = append(words, fmt.Sprintf("%g to %.0f", *s.Minimum, *s.Maximum))
	case s.Minimum != nil:
		words = append(words, fmt.Sprintf("at least %g", *s.Minimum))
	}
	if s.MaxLength != nil {
		words = append(words, fmt.Sprintf("%d bytes", *s.MaxLength))
	}
	if s.MaxItems != nil {
		words = append(words, fmt.Sprintf("%d items", *s.MaxItems))
	}
	if choice := items(s).Enum; len(choice) > 0 {
		names := make([]string, len(choice))
		for i, c := range choice {
			names[i] = fmt.Sprint(c)
		}
		words = append(words, strings.Join(names, ", "))
	}

	return strings.Join(words, "; ")
}

// bounded and preset are the sentences of a description that have columns.
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
