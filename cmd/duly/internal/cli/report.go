package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/dulymq/duly"
)

// report prints the error of a command and returns the exit status.
func (a *app) report(cmd *cobra.Command, err error) int {
	switch {
	case errors.Is(err, errReported):
		return exitFailed
	case errors.Is(err, syscall.EPIPE) && !errors.As(err, new(*duly.Error)):
		// The reader of standard output is gone. A broken connection is an error of the
		// contract instead.
		return exitOK
	}

	code := duly.CodeOf(err)
	// Before a command runs, every error is about its command line.
	if errors.As(err, new(usageError)) || !a.started {
		code = duly.CodeInvalid
	}
	a.printError(code, withFlagNames(cmd, err), a.hint(cmd, code, err))
	if code == duly.CodeInvalid {
		return exitUsage
	}
	return exitFailed
}

// flagNamedError is an error whose text names flags instead of fields.
type flagNamedError struct {
	error
	text string
}

func (e flagNamedError) Error() string { return e.text }
func (e flagNamedError) Unwrap() error { return e.error }

// withFlagNames replaces the names of bad fields by the flags of the command:
// max_stalls becomes --max-stalls.
func withFlagNames(cmd *cobra.Command, err error) error {
	var e *duly.Error
	if !errors.As(err, &e) || len(e.Fields) == 0 {
		return err
	}

	text := err.Error()
	for _, f := range e.Fields {
		problem := f.Problem
		// Two fields may share a problem: "and due are both set".
		if both, found := strings.CutPrefix(problem, "and "); found {
			other, rest, _ := strings.Cut(both, " ")
			problem = "and " + flagNameOf(cmd, other) + " " + rest
		}
		problem = setFields.ReplaceAllStringFunc(problem, func(advice string) string { return setFlags(cmd, advice) })
		text = strings.Replace(text, f.Field+" "+f.Problem, flagNameOf(cmd, f.Field)+" "+problem, 1)
	}
	return flagNamedError{err, text}
}

// setFields matches the advice to set other fields: "set rate or max_leased too", "set adapt to none".
var setFields = regexp.MustCompile(`\bset ([a-z_]+)(?: or ([a-z_]+))? (?:too\b|to )`)

// setFlags returns such advice with the flags of the command: "give --adapt none". Without these flags
// it returns the advice unchanged.
func setFlags(cmd *cobra.Command, advice string) string {
	fields := setFields.FindStringSubmatch(advice)[1:]
	text := "give"
	for i, field := range fields {
		if field == "" {
			continue
		}
		flag := flagNameOf(cmd, field)
		if flag == field {
			return advice
		}
		if i > 0 {
			text += " or"
		}
		text += " " + flag
	}
	if strings.HasSuffix(advice, "too") {
		return text + " too"
	}
	return text + " "
}

// flagNameOf returns the command's flag for a field, or the field if there is none.
func flagNameOf(cmd *cobra.Command, field string) string {
	name := flagName(field)
	flag := cmd.Flags().Lookup(name)
	if flag == nil {
		// A repeated flag has the singular of the field: --header for headers.
		flag = cmd.Flags().Lookup(strings.TrimSuffix(name, "s"))
	}
	if flag == nil && field == "from" { // the field of a seek
		flag = cmd.Flags().Lookup("to")
	}
	if flag == nil {
		return field
	}
	return "--" + flag.Name
}

// flagName spells a field's name like a flag.
func flagName(field string) string {
	return strings.NewReplacer("limits.", "limit-", "defaults.", "", ".", "-", "_", "-").Replace(field)
}

// message returns an error's text on one line, without its code and without secrets.
func (a *app) message(err error) string {
	text := err.Error()
	if errors.Is(err, context.Canceled) {
		text = "interrupted"
	}
	var e *duly.Error
	isContract := errors.As(err, &e)
	// The text of an engine's own error says more than this one.
	if errors.Is(err, context.DeadlineExceeded) && (!isContract || e.Cause == context.DeadlineExceeded) {
		text = "no answer in time"
	}

	// The code is printed in front of the text, or in a field of its own.
	if isContract {
		text = strings.Replace(text, string(e.Code)+": ", "", 1)
	}

	text = uniqueLines(text)

	// Secrets are removed last, because any step above may bring one in.
	for _, s := range a.secrets {
		text = strings.ReplaceAll(text, s, "***")
	}
	return oneLine(text)
}

// uniqueLines joins the lines of a text and leaves out repeated ones. errors.Join puts
// each error on a line.
func uniqueLines(text string) string {
	var unique []string
	for line := range strings.SplitSeq(text, "\n") {
		repeats := func(earlier string) bool { return line == earlier || strings.HasSuffix(line, ": "+earlier) }

		// A line that wraps an earlier one adds only its prefix.
		if !slices.ContainsFunc(unique, repeats) {
			unique = append(unique, line)
		}
	}
	return strings.Join(unique, "; ")
}

// errorView is the JSON of an error, with the names of the HTTP API.
type errorView struct {
	Code   duly.Code   `json:"code"`
	Detail string      `json:"detail"`
	Fields []fieldView `json:"fields,omitempty"`
	State  *duly.State `json:"state,omitempty"`
	Next   string      `json:"next,omitempty"` // hint that is printed with the error
}

type fieldView struct {
	Field   string `json:"field"`
	Problem string `json:"problem"`
}

func (a *app) errorView(code duly.Code, err error, hint string) *errorView {
	v := &errorView{Code: code, Detail: a.message(err), Next: hint}
	var e *duly.Error
	if errors.As(err, &e) {
		for _, f := range e.Fields {
			v.Fields = append(v.Fields, fieldView(f))
		}

		// A nil pointer is left out of the JSON. The zero state would look like a state.
		if e.State != duly.StateNone {
			v.State = &e.State
		}
	}
	return v
}

// printError prints an error and its hint on one line of standard error.
func (a *app) printError(code duly.Code, err error, hint string) {
	if a.wantsJSON() {
		line, _ := json.Marshal(map[string]any{"error": a.errorView(code, err, hint)})
		a.errorLine(line)
		return
	}
	text := a.message(err)
	if hint != "" {
		text += "; " + hint
	}

	// An error of this machine has this code too, but the word would suggest a bug in duly.
	if code != duly.CodeInternal || errors.As(err, new(*duly.Error)) {
		text = string(code) + ": " + text
	}
	fmt.Fprintf(a.env.Stderr, "duly: %s\n", text)
}

// wantsJSON reports whether --json is set. It searches the arguments if the command line
// failed before its flags were parsed.
func (a *app) wantsJSON() bool {
	if a.started || a.json {
		return a.json
	}
	for _, arg := range a.env.Args[1:] {
		// After "--" there are no flags, so a later --json is an argument.
		if arg == "--" {
			break
		}
		if arg == "--json" || arg == "--json=true" {
			return true
		}
	}
	return false
}
