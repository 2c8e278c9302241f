package wire

import "errors"

// Described is a form, for the documents.
type Described interface {
	// Describe describes the form.
	Describe() *Object
	// Check returns the error of reading a string strictly, or the error of an item in it.
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
	// Keywords are the limits as keywords of JSON Schema, in the form of a struct tag.
	Keywords string
	// Doc describes the field. It ends with its limit and its default: "Bound: …. Default: …."
	Doc string
	// Object describes the values of Nested.
	Object *Object
}

// Kind is the type of a field's values.
type Kind uint8

// The kinds of fields.
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
	TextMap    // an object of texts
	IntegerMap // an object of integers
	Nested     // an object with a form
	NestedOrNone
	Number
)

// Describe implements [Described].
func (form Form[T]) Describe() *Object {
	f := fields{task: describing}
	return f.inner(func() { form(&f, new(T)) })
}

// Check implements [Described].
func (form Form[T]) Check(text string) error {
	var v T

	// The form runs on a zero value, and the pointer receives the first error inside a batch.
	var item error
	err := readForm(text, strict, func(f *fields) {
		f.itemErr = &item
		form(f, &v)
	})
	return errors.Join(err, item)
}

// inner describes an object inside the current one.
func (f *fields) inner(form func()) *Object {
	// Forms call each other while they describe, so the outer description is restored afterwards.
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

	// A pointer, because the caller adds a list or an object to the field.
	return &f.form.Fields[len(f.form.Fields)-1]
}

// request sets the name of the described form, which requests use, and perhaps answers too.
func (f *fields) request(name string) {
	if f.task == describing {
		f.form.Name = name
	}
}

// answer sets the name of a form for answers.
func (f *fields) answer(name string) {
	if f.task == describing {
		f.form.Name, f.form.Answer = name, true
	}
}
