package cron

import "fmt"

// Error names a bad field of a schedule, and says what to write instead. The callers
// return it to their users as an error with the code "invalid".
type Error struct {
	Field   string // spec, zone, start or end
	Problem string
}

// Error implements error.
func (e *Error) Error() string { return e.Field + " " + e.Problem }

// bad returns the error of an expression.
func bad(format string, args ...any) error {
	return &Error{Field: "spec", Problem: fmt.Sprintf(format, args...)}
}

// badZone returns the error of the name of a zone.
func badZone(format string, args ...any) error {
	return &Error{Field: "zone", Problem: fmt.Sprintf(format, args...)}
}
