package wire

import (
	"strings"
	"sync"
)

// fields processes the fields of one form, which is a JSON object of the API. A form is a method
// that calls one method of fields per field, in the order of the answer. The same
// method writes the object, reads it, and describes it for the documents.
//
// A form must always call the same methods, independently of the values that it has read.
type fields struct {
	task task
	dst  []byte // output while writing
	r    reader // input while reading
	object
	itemErr *error  // is set to the error of an item, while a string is checked
	form    *Object // output while describing
}

// task is the operation on each field.
type task uint8

const (
	reading task = iota
	writing
	describing
)

// object is the state of reading an object.
type object struct {
	key   string // the key of the value that comes next
	more  bool   // whether there is such a key
	found bool   // whether a field of this pass had the key
	index int    // index of the field in this pass, counted from 1
	seen  uint64 // one bit per field that was read
	// zeroDelay is set if the object has a delay of 0.
	zeroDelay bool
}

// presence says when a field is in its object.
type presence uint8

const (
	// required fields are always written.
	required presence = iota
	// optional fields are left out when they are empty.
	optional
	// given fields are left out when they are nil. Empty is a valid value.
	given
	// always fields are always written. Readers accept an object without them.
	always
)

// omits reports whether a writer leaves out a field.
func (p presence) omits(empty, isNil bool) bool { return p == optional && empty || p == given && isNil }

// unused holds fields for the next requests and answers. Forms are called by pointer, so without
// it each of them would allocate its fields.
var unused = sync.Pool{New: func() any { return new(fields) }}

// writer returns the fields of an object that is appended to dst. The caller calls end.
func writer(dst []byte) *fields {
	f := unused.Get().(*fields)
	f.task, f.dst = writing, append(dst, '{')
	return f
}

// end ends the object of a writer and returns the text. The writer must not be used again.
func (f *fields) end() []byte {
	dst := append(f.dst, '}')
	f.free()
	return dst
}

// free makes the fields available to another caller.
func (f *fields) free() {
	*f = fields{}
	unused.Put(f)
}

// write writes the key of a field, with a comma unless it is the first field.
func (f *fields) write(key string) {
	// Only an opening bracket can be before the first key, because every value ends differently.
	if f.dst[len(f.dst)-1] != '{' {
		f.dst = append(f.dst, ',')
	}
	f.dst = append(f.dst, '"')
	f.dst = append(f.dst, key...)
	f.dst = append(f.dst, '"', ':')
}

// readForm reads a string that consists of one object.
func readForm(text string, mode mode, form func(f *fields)) error {
	return parse(text, mode, func(f *fields) { f.read(func() { form(f) }) })
}

// read reads an object. Null is an object without fields.
//
// Each pass calls every field once, and a field that has the key of the text reads its value and
// continues with the next key. So an object with its fields in the form's order takes one pass.
func (f *fields) read(form func()) {
	if f.r.null() || !f.r.open('{') {
		return
	}
	// An object inside another one has separate state.
	outer := f.object
	f.object = object{}

	for f.key, f.more = f.r.firstKey(); f.more; {
		f.index, f.found = 0, false
		form()
		if f.more && !f.found {
			// No field had the key in a whole pass.
			f.r.unknown(f.key)
			f.next()
		}
	}

	f.object = outer
}

// at reports whether the next value in the text belongs to this field. It is called once per field
// and pass.
func (f *fields) at(name string) bool {
	// The index rises for every field, even for a field without a value, because take needs a
	// stable number.
	f.index++
	return f.key == name && f.more && f.take()
}

// atBase64 is like at, for a field whose name has "_base64" appended.
func (f *fields) atBase64(name string) bool {
	f.index++
	rest, ok := strings.CutPrefix(f.key, name)
	return ok && rest == "_base64" && f.more && f.take()
}

// take records that the current key was read. A strict reader refuses a repeated key.
func (f *fields) take() bool {
	// The field's number is its bit, so a form has fewer than 64 fields.
	bit := uint64(1) << f.index
	if f.seen&bit != 0 && f.r.mode == strict {
		f.r.twice(f.key)

		// The loop in read ends, because the request has an error already.
		f.more = false
		return false
	}

	f.seen |= bit
	f.found = true
	return true
}

// next reads the next key.
func (f *fields) next() { f.key, f.more = f.r.nextKey() }

// nested declares an object inside an object. A writer may leave it out if empty is set.
func (f *fields) nested(name string, empty bool, p presence, doc string, form func()) {
	switch f.task {
	case writing:
		if !p.omits(empty, empty) {
			f.write(name)
			f.dst = append(f.dst, '{')
			form()
			f.dst = append(f.dst, '}')
		}

	case reading:
		if f.at(name) {
			// Errors in the object name it before the field.
			outer := f.r.in
			f.r.in = name
			f.read(form)
			f.r.in = outer
			f.next()
		}

	default:
		f.describe(name, Nested, p, "", doc).Object = f.inner(form)
	}
}

// pointer declares a field with an object. It is nil if the field is absent.
func pointer[T any](f *fields, name string, v **T, doc string, form func(*fields, *T)) {
	switch f.task {
	case writing:
		if *v != nil {
			f.nested(name, false, optional, doc, func() { form(f, *v) })
		}
	case reading:
		if f.at(name) {
			// Null leaves the pointer nil, as if the field were absent.
			if !f.r.null() {
				*v = new(T)
				f.read(func() { form(f, *v) })
			}
			f.next()
		}
	default:
		f.describe(name, Nested, optional, "", doc).Object = f.inner(func() { form(f, new(T)) })
	}
}

// list declares an array of objects.
func list[T any](f *fields, name string, items *[]T, p presence, doc string, form func(*fields, *T)) {
	switch f.task {
	case writing:
		if !p.omits(len(*items) == 0, *items == nil) {
			writeList(f, name, *items, form)
		}

	case reading:
		if f.at(name) {
			// Errors name the fields of an item without the list, because each error belongs to one
			// item.
			outer := f.r.in
			f.r.in = ""
			for i := range f.r.array {
				// The item is appended first, so that the form fills it in place.
				var zero T
				*items = append(*items, zero)
				f.read(func() { form(f, &(*items)[i]) })
			}
			f.r.in = outer
			f.next()
		}

	default:
		describeList(f, name, p, "", doc, form)
	}
}

func writeList[T any](f *fields, name string, items []T, form func(*fields, *T)) {
	f.write(name)
	f.dst = append(f.dst, '[')
	for i := range items {
		if i > 0 {
			f.dst = append(f.dst, ',')
		}
		f.dst = append(f.dst, '{')
		form(f, &items[i])
		f.dst = append(f.dst, '}')
	}
	f.dst = append(f.dst, ']')
}

func describeList[T any](f *fields, name string, p presence, keywords, doc string, form func(*fields, *T)) {
	// The inner object is described separately, so that the pointer to this field stays valid.
	field := f.describe(name, Nested, p, keywords, doc)
	field.List = true
	field.Object = f.inner(func() { form(f, new(T)) })
}
