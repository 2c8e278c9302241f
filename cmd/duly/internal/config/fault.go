package config

import (
	"errors"
	"fmt"
	"strings"

	"github.com/dulymq/duly"
)

// Origin is where a value comes from. The zero Origin is the default.
type Origin struct {
	// Place is a file, a variable as DULY_DRAIN, or a flag as --drain.
	Place string
	// Line is that of a file, from 1 on; 0 where it is not known.
	Line int
	file bool
}

// String is the origin as people look for it: "duly.toml:3".
func (o Origin) String() string {
	switch {
	case o.Place == "":
		return "default"
	case o.Line > 0:
		return fmt.Sprintf("%s:%d", o.Place, o.Line)
	}
	return o.Place
}

// Fault is one thing that is wrong with a configuration.
type Fault struct {
	Origin Origin
	// Key is the setting, as the file spells it; "" where it is about the whole
	// file.
	Key string
	// Problem says what is wrong, which bound it breaks and what to do.
	Problem string
}

// String is the fault in a line.
func (f Fault) String() string {
	switch {
	case f.Origin.Place == "":
		return f.Key + " " + f.Problem
	case !f.Origin.file:
		return f.Origin.Place + " " + f.Problem
	case f.Key == "":
		return f.Origin.String() + ": " + f.Problem
	}
	return f.Origin.String() + ": " + f.Key + " " + f.Problem
}

// Faults is everything that is wrong with a configuration; as an error it is
// [duly.ErrInvalid].
type Faults []Fault

// Error implements error.
func (f Faults) Error() string {
	lines := make([]string, len(f))
	for i := range f {
		lines[i] = f[i].String()
	}
	return strings.Join(lines, "; ")
}

// Unwrap makes it the contract's error for bad input.
func (f Faults) Unwrap() error { return duly.ErrInvalid }

// add notes a fault.
func (f *Faults) add(at Origin, key, format string, args ...any) {
	*f = append(*f, Fault{at, key, fmt.Sprintf(format, args...)})
}

// problemOf is an error of the contract without its code and without the name
// of its field, which stands before it.
func problemOf(err error) string {
	var e *duly.Error
	if !errors.As(err, &e) {
		return err.Error()
	}
	if len(e.Fields) == 1 {
		return e.Fields[0].Problem
	}
	return e.Message
}
