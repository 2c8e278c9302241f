package wire

import "errors"

// Described is a form, for the documents.
type Described interface {
	// Describe returns the description of the form.
	Describe() *Object
	// Check returns what is wrong with a text of the form: a strict reader's error, or that
	// of an item.
	Check(text string) error
}

// Object describes a JSON object.
type Object struct {
	Name   string
	Fields []Field
	// Answer is set if a newer server may add fields.
	Answer bool
}

// Field describes a field of an object.
type Field struct {
	Name string
	Kind Kind
	// List is set for an array of the kind.
	List     bool
	Required bool
	// Keywords are the bounds as JSON Schema has them, in the form of a struct tag.
	Keywords string
	// Doc is the meaning, with "Bound: ….", and "Default: …." at its end.
	Doc string
	// Object describes the values of Nested.
	Object *Object
}

// Kind is the type of a field's values.
type Kind uint8

// The kinds.
const (
	Text Kind = iota
	Integer
	Boolean
	Duration
	DurationOrNone
	CountOrNone
	RateOrNone
	Time
	Base64
	TextMap    // from names to texts
	IntegerMap // from names to integers
	Nested     // an object
)

// Describe implements [Described].
func (form Form[T]) Describe() *Object {
	f := fields{task: describing}
	return f.inner(func() { form(&f, new(T)) })
}

// Check implements [Described].
func (form Form[T]) Check(text string) error {
	var v T
	var item error
	err := readForm(text, strict, func(f *fields) {
		f.itemErr = &item
		form(f, &v)
	})
	return errors.Join(err, item)
}

// inner describes an object inside the current one.
func (f *fields) inner(form func()) *Object {
	outer := f.form
	f.form = &Object{}
	form()
	inner := f.form
	f.form = outer
	return inner
}

// describe adds a field to the description.
func (f *fields) describe(name string, kind Kind, p presence, keywords, doc string) *Field {
	field := Field{Name: name, Kind: kind, Required: p == required, Keywords: keywords, Doc: doc}
	f.form.Fields = append(f.form.Fields, field)
	return &f.form.Fields[len(f.form.Fields)-1]
}

// request names the form of a request, and a form that requests and answers share.
func (f *fields) request(name string) {
	if f.task == describing {
		f.form.Name = name
	}
}

// answer names the form of an answer.
func (f *fields) answer(name string) {
	if f.task == describing {
		f.form.Name, f.form.Answer = name, true
	}
}
