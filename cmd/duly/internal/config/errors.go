package config

import (
	"errors"
	"fmt"
	"strings"

	"github.com/dulymq/duly"
)

// Origin is the source of a value. The zero Origin is the default.
type Origin struct {
	// Source is the path of a file, a variable such as DULY_DRAIN, or a flag such as --drain.
	Source string
	// Line is the line in the file, counted from 1, or 0 if it is unknown.
	Line int

	file bool
}

// String returns the origin as an editor expects it: "duly.toml:3".
func (o Origin) String() string {
	switch {
	case o.Source == "":
		return "default"
	case o.Line > 0:
		return fmt.Sprintf("%s:%d", o.Source, o.Line)
	}
	return o.Source
}

// Error is one mistake in a configuration.
type Error struct {
	Origin Origin
	// Key is the setting as the file spells it, or "" if the error is about the whole file.
	Key string
	// Problem says what is wrong and what to do, such as "is 7777, must be text in quotes".
	Problem string
}

// Error implements error. The text names the origin and the setting.
func (e Error) Error() string {
	switch {
	case e.Origin.Source == "":
		return e.Key + " " + e.Problem
	case !e.Origin.file: // a variable or a flag names its setting
		return e.Origin.Source + " " + e.Problem
	case e.Key == "":
		return e.Origin.String() + ": " + e.Problem
	}
	return e.Origin.String() + ": " + e.Key + " " + e.Problem
}

// Errors lists all mistakes in a configuration. It is a [duly.ErrInvalid].
type Errors []Error

// Error implements error.
func (e Errors) Error() string {
	texts := make([]string, len(e))
	for i := range e {
		texts[i] = e[i].Error()
	}
	return strings.Join(texts, "; ")
}

// Unwrap returns the contract's error for bad input.
func (e Errors) Unwrap() error { return duly.ErrInvalid }

// add appends an error.
func (e *Errors) add(origin Origin, key, format string, args ...any) {
	*e = append(*e, Error{origin, key, fmt.Sprintf(format, args...)})
}

// problemOf returns the text of an error without its code and without the name of its
// field, because the caller prints the setting's name before it.
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
