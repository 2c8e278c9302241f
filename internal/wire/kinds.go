package wire

import (
	"strconv"
	"time"

	"github.com/dulymq/duly"
)

// Each method in this file handles one kind of field. The parameters keywords and doc describe the
// field, see [Field].

// text declares a string, which may be empty.
func (f *fields) text(name string, v *string, p presence, keywords, doc string) {
	switch f.task {
	case writing:
		if !p.omits(*v == "", false) {
			f.write(name)
			f.dst = appendString(f.dst, *v)
		}
	case reading:
		if f.at(name) {
			*v = f.r.string(name)
			f.next()
		}
	default:
		f.describe(name, Text, p, keywords, doc)
	}
}

// name declares a string that is not empty. A writer leaves out an empty one.
func (f *fields) name(name string, v *string, p presence, keywords, doc string) {
	switch f.task {
	case writing:
		f.text(name, v, optional, "", "")
	case reading:
		if f.at(name) {
			*v = f.r.name(name)
			f.next()
		}
	default:
		f.describe(name, Text, p, keywords, doc)
	}
}

// enum declares a value of one of the root package's lists. A writer leaves out the zero value.
func enum[T interface {
	comparable
	String() string
}, P interface {
	*T
	UnmarshalText([]byte) error
}](f *fields, name string, v P, p presence, keywords, doc string) {
	switch f.task {
	case writing:
		// The zero value is not a value of the enumeration, so it has no text.
		var zero T
		if *v != zero {
			f.write(name)
			f.dst = appendString(f.dst, (*v).String())
		}

	case reading:
		if f.at(name) {
			unmarshal(&f.r, name, v)
			f.next()
		}

	default:
		f.describe(name, Text, p, keywords, doc)
	}
}

func (f *fields) bool(name string, v *bool, p presence, doc string) {
	switch f.task {
	case writing:
		if !p.omits(!*v, false) {
			f.write(name)
			f.dst = strconv.AppendBool(f.dst, *v)
		}
	case reading:
		if f.at(name) {
			*v = f.r.boolean(name)
			f.next()
		}
	default:
		f.describe(name, Boolean, p, "", doc)
	}
}

func (f *fields) int64(name string, v *int64, p presence, keywords, doc string) {
	switch f.task {
	case writing:
		if !p.omits(*v == 0, false) {
			f.write(name)
			f.dst = strconv.AppendInt(f.dst, *v, 10)
		}
	case reading:
		if f.at(name) {
			*v = f.r.int(name)
			f.next()
		}
	default:
		f.describe(name, Integer, p, keywords, doc)
	}
}

func (f *fields) int(name string, v *int, p presence, keywords, doc string) {
	// A copy, because int64 reads into a value of its own type.
	n := int64(*v)
	f.int64(name, &n, p, keywords, doc)
	if f.task == reading { // a writer may share the value with other goroutines, so only a reader changes it
		*v = int(n)
	}
}

// count declares an integer of at least 1. A writer leaves out 0.
func (f *fields) count(name string, v *int, p presence, keywords, doc string) {
	switch f.task {
	case writing:
		f.int(name, v, optional, "", "")
	case reading:
		if f.at(name) {
			*v = f.r.count(name, false)
			f.next()
		}
	default:
		f.describe(name, Integer, p, keywords, doc)
	}
}

// countOrNone declares an integer of at least 1, or none. A writer omits 0. It also omits none if the
// field is optional.
func countOrNone[T int | int64](f *fields, name string, v *T, p presence, doc string) {
	switch f.task {
	case writing:
		switch {
		// Zero means absent. In an optional field, none also means absent.
		case *v == 0 || *v == duly.None && p == optional:
		case *v == duly.None:
			f.none(name)
		default:
			f.write(name)
			f.dst = strconv.AppendInt(f.dst, int64(*v), 10)
		}

	case reading:
		if f.at(name) {
			*v = T(f.r.count(name, true))
			f.next()
		}
	default:
		f.describe(name, CountOrNone, p, "", doc)
	}
}

// none writes the value "none".
func (f *fields) none(name string) {
	f.write(name)
	f.dst = append(f.dst, `"none"`...)
}

// rate declares a number per second, or none. A writer omits 0. It also omits none if the field is
// optional.
func (f *fields) rate(v *float64, p presence, doc string) {
	switch f.task {
	case writing:
		switch {
		case *v == 0 || *v == duly.None && p == optional:
		case *v == duly.None:
			f.none("rate")
		default:
			f.write("rate")
			f.dst = strconv.AppendFloat(f.dst, *v, 'g', -1, 64)
		}

	case reading:
		if f.at("rate") {
			*v = f.r.rate("rate")
			f.next()
		}

	default:
		f.describe("rate", RateOrNone, p, "", doc)
	}
}

// number declares a number. A writer omits 0 from an optional field.
func (f *fields) number(name string, v *float64, p presence, keywords, doc string) {
	switch f.task {
	case writing:
		if !p.omits(*v == 0, false) {
			f.write(name)
			f.dst = strconv.AppendFloat(f.dst, *v, 'g', -1, 64)
		}
	case reading:
		if f.at(name) {
			*v = f.r.float(name)
			f.next()
		}
	default:
		f.describe(name, Number, p, keywords, doc)
	}
}

// duration declares a duration, which may be 0.
func (f *fields) duration(name string, v *time.Duration, p presence, doc string) {
	switch f.task {
	case writing:
		if !p.omits(*v == 0, false) {
			f.write(name)
			f.dst = appendString(f.dst, duly.FormatDuration(*v))
		}
	case reading:
		if f.at(name) {
			*v, _ = f.r.duration(name)
			f.next()
		}
	default:
		f.describe(name, Duration, p, "", doc)
	}
}

// durationIfGiven declares a duration. It is nil if the field is absent.
func (f *fields) durationIfGiven(name string, v **time.Duration, doc string) {
	switch {
	case f.task == reading:
		if f.at(name) {
			// Only a duration that was read sets the pointer, because null means absent.
			if d, ok := f.r.duration(name); ok {
				*v = &d
			}
			f.next()
		}
	case f.task == writing && *v != nil:
		f.duration(name, *v, always, "")
	case f.task == describing:
		f.describe(name, Duration, optional, "", doc)
	}
}

// period declares a duration of at least 1 ms. A writer leaves out 0.
func (f *fields) period(name string, v *time.Duration, doc string) {
	if f.task != reading {
		f.duration(name, v, optional, doc)
	} else if f.at(name) {
		*v = f.r.period(name, false)
		f.next()
	}
}

// periodOrNone declares a duration of at least 1 ms, or none. A writer leaves out 0.
func (f *fields) periodOrNone(name string, v *time.Duration, p presence, doc string) {
	switch f.task {
	case writing:
		if *v == duly.None {
			f.none(name)
		} else {
			f.duration(name, v, optional, "")
		}
	case reading:
		if f.at(name) {
			*v = f.r.period(name, true)
			f.next()
		}
	default:
		f.describe(name, DurationOrNone, p, "", doc)
	}
}

// within declares a duration whose limits are checked elsewhere. Only 0 is refused here.
// A writer leaves out 0.
func (f *fields) within(name string, v *time.Duration, least, most time.Duration, p presence, doc string) {
	switch f.task {
	case writing:
		f.duration(name, v, optional, "")
	case reading:
		if f.at(name) {
			*v = f.r.within(name, least, most)
			f.next()
		}
	default:
		f.describe(name, Duration, p, "", doc)
	}
}

func (f *fields) lease(name string, v *time.Duration, p presence, doc string) {
	f.within(name, v, duly.MinLease, duly.MaxLease, p, doc)
}

// time declares a point in time. A writer leaves out zero.
func (f *fields) time(name string, v *time.Time, p presence, doc string) {
	switch f.task {
	case writing:
		if !v.IsZero() {
			f.write(name)
			f.dst = appendTime(f.dst, *v)
		}
	case reading:
		if f.at(name) {
			*v = f.r.time(name)
			f.next()
		}
	default:
		f.describe(name, Time, p, "", doc)
	}
}

// due declares the due time in a request. A writer sends times before 1970 as 1970, because RFC 3339 has
// no years before 0. Both are in the past.
func (f *fields) due(v *time.Time, doc string) {
	if f.task == writing && !v.IsZero() && v.Before(time.Unix(0, 0)) {
		// A time of its own: the writer must not change the caller's.
		epoch := time.Unix(0, 0)
		f.time("due", &epoch, optional, "")
		return
	}
	f.time("due", v, optional, doc)
}

// bytes declares a string if the bytes are text, else base64 in a field with "_base64" added to its
// name. base64Doc describes that field.
func (f *fields) bytes(name string, v *[]byte, p presence, doc, base64Doc string) {
	switch f.task {
	case writing:
		if !p.omits(len(*v) == 0, *v == nil) {
			f.writeBytes(name, *v)
		}

	case reading:
		if f.at(name) {
			// The two fields may come in either order, and only one of them may be set.
			*v = f.r.either(name, f.r.bytes(name), *v)
			f.next()
		}
		if f.atBase64(name) {
			*v = f.r.either(name, f.r.base64(name+"_base64"), *v)
			f.next()
		}

	default:
		if p == required {
			p = optional // only one of the two fields is present
		}
		f.describe(name, Text, p, "", doc)
		f.describe(name+"_base64", Base64, p, "", base64Doc)
	}
}

// sentBytes is like bytes, but for a request. It is never longer than twice the bytes. Text with many escapes
// is sent as base64, because servers limit the size of requests.
func (f *fields) sentBytes(name string, v *[]byte, p presence, doc, base64Doc string) {
	start := len(f.dst)
	f.bytes(name, v, p, doc, base64Doc)
	if f.task == writing && len(f.dst)-start > 2*len(*v)+64 {
		// Base64 is shorter, so it replaces the text that was just written.
		f.dst = f.dst[:start]
		f.writeBase64(name, *v)
	}
}

// headers declares an object of strings.
func (f *fields) headers(v *map[string]string, p presence, keywords, doc string) {
	switch f.task {
	case writing:
		if !p.omits(len(*v) == 0, *v == nil) {
			f.write("headers")
			f.dst = appendHeaders(f.dst, *v)
		}
	case reading:
		if f.at("headers") {
			*v = f.r.headers()
			f.next()
		}
	default:
		f.describe("headers", TextMap, p, keywords, doc)
	}
}

// texts declares an array of strings. If there are more than `most`, a reader keeps one more than
// allowed, so that the validation of the request refuses it.
func texts[T ~string](f *fields, name string, v *[]T, most int, p presence, keywords, doc string) {
	switch f.task {
	case writing:
		if p.omits(len(*v) == 0, *v == nil) {
			return
		}
		f.write(name)
		f.dst = append(f.dst, '[')
		for i, s := range *v {
			if i > 0 {
				f.dst = append(f.dst, ',')
			}
			f.dst = appendString(f.dst, s)
		}
		f.dst = append(f.dst, ']')

	case reading:
		if f.at(name) {
			*v = readTexts[T](&f.r, name, most)
			f.next()
		}

	default:
		f.describe(name, Text, p, keywords, doc).List = true
	}
}

// ints declares an array of integers. A writer leaves out an empty one.
func (f *fields) ints(name string, v *[]int, most int, keywords, doc string) {
	switch f.task {
	case writing:
		if len(*v) == 0 {
			return
		}
		f.write(name)
		f.dst = append(f.dst, '[')
		for i, n := range *v {
			if i > 0 {
				f.dst = append(f.dst, ',')
			}
			f.dst = strconv.AppendInt(f.dst, int64(n), 10)
		}
		f.dst = append(f.dst, ']')

	case reading:
		if f.at(name) {
			*v = f.r.ints(name, most)
			f.next()
		}

	default:
		f.describe(name, Integer, optional, keywords, doc).List = true
	}
}

// integer declares a required integer.
func (f *fields) integer(name string, v *int64, doc string) { f.int64(name, v, required, "", doc) }

// integers declares an object of integers. doc lists their names.
func (f *fields) integers(name, doc string, form func()) {
	if f.task == describing {
		f.describe(name, IntegerMap, required, "", doc)
		return
	}
	f.nested(name, false, required, "", form)
}
