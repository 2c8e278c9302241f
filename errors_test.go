package duly_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// C13.1: every code has a sentinel and an HTTP status.
func TestCodesHaveTheStatusOfTheContract(t *testing.T) {
	t.Parallel()
	want := []struct {
		code     duly.Code
		sentinel error
		status   int
	}{
		{"invalid", duly.ErrInvalid, 400}, {"unauthorized", duly.ErrUnauthorized, 401}, {"forbidden", duly.ErrForbidden, 403},
		{"not_found", duly.ErrNotFound, 404}, {"conflict", duly.ErrConflict, 409}, {"lease_lost", duly.ErrLeaseLost, 409},
		{"too_large", duly.ErrTooLarge, 413}, {"limited", duly.ErrLimited, 429}, {"full", duly.ErrFull, 507},
		{"not_durable", duly.ErrNotDurable, 503}, {"unavailable", duly.ErrUnavailable, 503}, {"closed", duly.ErrClosed, 503},
		{"unsupported", duly.ErrUnsupported, 501}, {"corrupt", duly.ErrCorrupt, 500}, {"internal", duly.ErrInternal, 500},
	}
	if got := duly.Codes(); len(got) != len(want) {
		t.Errorf("the catalogue has %d codes, want %d", len(got), len(want))
	}
	for _, w := range want {
		if got := w.code.HTTPStatus(); got != w.status {
			t.Errorf("%s travels with %d, want %d", w.code, got, w.status)
		}
		if duly.CodeOf(w.sentinel) != w.code {
			t.Errorf("the sentinel of %s has the code %s", w.code, duly.CodeOf(w.sentinel))
		}
		made := fmt.Errorf("around: %w", contract.Errorf(w.code, "made elsewhere"))
		for _, other := range want {
			if errors.Is(made, other.sentinel) != (w.code == other.code) {
				t.Errorf("an error of %s is the sentinel of %s: %t", w.code, other.code, w.code != other.code)
			}
		}
		if text := w.sentinel.Error(); !strings.HasPrefix(text, string(w.code)+": ") || len(text) < len(w.code)+5 {
			t.Errorf("the sentinel of %s says %q", w.code, text)
		}
	}
	if duly.Code("no such").HTTPStatus() != 500 {
		t.Error("an unknown code does not travel with 500")
	}
}

func TestForeignErrorsAreInternal(t *testing.T) {
	t.Parallel()
	if duly.CodeOf(nil) != "" || duly.CodeOf(io.EOF) != duly.CodeInternal {
		t.Errorf("nil is %q, EOF is %q", duly.CodeOf(nil), duly.CodeOf(io.EOF))
	}
	if duly.CodeOf(fmt.Errorf("a: %w", fmt.Errorf("b: %w", duly.ErrFull))) != duly.CodeFull {
		t.Error("a wrapped error has lost its code")
	}
}

// C13.2: an error names every bad field and its bound. C13.5: a conflict names
// the state.
func TestErrorsNameEachBadField(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  *duly.Error
		text string
	}{
		{contract.Invalid("tries", "is %d, must be between 1 and %d", 0, 9), "invalid: tries is 0, must be between 1 and 9"},
		{contract.TooLarge("body", "has 2 bytes"), "too_large: body has 2 bytes"},
		{contract.Conflict(duly.StateLeased, "job %q is leased", "x"), `conflict: job "x" is leased`},
		{contract.NotFound(duly.Q("q"), "x"), `not_found: no job "x" in queue default/q`},
	} {
		if c.err.Error() != c.text {
			t.Errorf("it says %q, want %q", c.err, c.text)
		}
		if c.err.Message == "" {
			t.Errorf("%v has no message", c.err)
		}
	}
	if contract.Conflict(duly.StateDead, "x").State != duly.StateDead {
		t.Error("a conflict does not name its state")
	}
	bad := contract.ValidateJob(&duly.Job{Queue: "q", Priority: 5000, Tries: -1, Lease: 1}, 0)
	if text := bad.Error(); strings.Count(text, ";") != 2 || !strings.Contains(text, "1000") || !strings.Contains(text, "65535") {
		t.Errorf("three bad fields are answered %q", text)
	}
}

// C13.7: a job whose only fault is its size is too_large and not invalid.
func TestOnlySizeFaultsAreTooLarge(t *testing.T) {
	t.Parallel()
	large := duly.Job{Queue: "q", Body: make([]byte, 11)}
	if err := contract.ValidateJob(&large, 10); !errors.Is(err, duly.ErrTooLarge) {
		t.Errorf("a large body is answered %v", err)
	}
	large.Priority = 5000
	if err := contract.ValidateJob(&large, 10); !errors.Is(err, duly.ErrInvalid) || !strings.Contains(err.Error(), "body") {
		t.Errorf("a large body and a bad priority are answered %v", err)
	}
}

func TestErrorKeepsItsCause(t *testing.T) {
	t.Parallel()
	err := contract.Errorf(duly.CodeUnavailable, "not reached: %w", io.ErrUnexpectedEOF)
	if !errors.Is(err, io.ErrUnexpectedEOF) || !errors.Is(err, duly.ErrUnavailable) {
		t.Errorf("%v has lost its cause or its code", err)
	}
	hidden := &duly.Error{Code: duly.CodeInternal, Message: "internal error", Cause: errors.New("secret path")}
	if strings.Contains(hidden.Error(), "secret") {
		t.Errorf("it says %q", hidden)
	}
}
