package duly_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/dulymq/duly"
)

type mail struct{ To string }

func (mail) Kind() string { return "send_mail" }

// named is a body type whose value is its kind.
type named string

func (n named) Kind() string { return string(n) }

func TestPushKindSetsTheHeaderAndTheBody(t *testing.T) {
	t.Parallel()
	e := &pushes{}
	c := duly.NewClient(e, duly.ClientConfig{})
	if _, err := duly.PushKind(t.Context(), c, "q", mail{"ada"}, duly.ID("a"), duly.Header("lang", "de")); err != nil {
		t.Fatal(err)
	}

	j := e.calls[0][0]
	if j.Queue != "q" || j.ID != "a" || string(j.Body) != `{"To":"ada"}` {
		t.Errorf("pushed was %+v", j)
	}
	if len(j.Headers) != 2 || j.Headers["lang"] != "de" || j.Headers[duly.KindHeader] != "send_mail" {
		t.Errorf("the headers are %v", j.Headers)
	}
}

func TestPushKindDoesNotChangeTheHeadersOfAnOption(t *testing.T) {
	t.Parallel()
	shared := map[string]string{"lang": "de"}
	c := duly.NewClient(&pushes{}, duly.ClientConfig{})
	for range 2 {
		_, err := duly.PushKind(t.Context(), c, "q", mail{}, func(j *duly.Job) { j.Headers = shared })
		if err != nil || len(shared) != 1 {
			t.Errorf("the option's headers are %v, %v", shared, err)
		}
	}
}

func TestPushKindRefusesBadInput(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		kind   string
		option duly.Option
		want   string
	}{
		"Space":      {"send mail", duly.ID("a"), `kind is "send mail", must be 1 to 100 of`},
		"Header":     {"a", duly.Header("Duly-Kind", "b"), "headers have Duly-Kind, which PushKind sets; remove it"},
		"SameHeader": {"a", duly.Header(duly.KindHeader, "a"), "headers have duly-kind"},
	} {
		e := &pushes{}
		c := duly.NewClient(e, duly.ClientConfig{})
		_, err := duly.PushKind(t.Context(), c, "q", named(tt.kind), tt.option)
		if !errors.Is(err, duly.ErrInvalid) || !strings.Contains(err.Error(), tt.want) || len(e.calls) > 0 {
			t.Errorf("%s: %v after %d calls, want %q", name, err, len(e.calls), tt.want)
		}
	}
}

type unwritable struct{ F func() }

func (unwritable) Kind() string { return "unwritable" }

func TestPushKindRefusesAValueThatCantBeJSON(t *testing.T) {
	t.Parallel()
	c := duly.NewClient(&pushes{}, duly.ClientConfig{})
	_, err := duly.PushKind(t.Context(), c, "q", unwritable{})
	if !errors.Is(err, duly.ErrInvalid) || !strings.Contains(err.Error(), "body can't be written as JSON") {
		t.Errorf("PushKind returns %v", err)
	}
}

func TestKindsHaveOneToAHundredCharacters(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"a", "7", "Send.mail_2-x", strings.Repeat("a", 100)} {
		if err := duly.ValidateKind(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for bad, want := range map[string]string{
		"":                       `kind is ""`,
		".a":                     `kind is ".a"`,
		"_a":                     `kind is "_a"`,
		"-":                      `kind is "-"`,
		"a b":                    `kind is "a b"`,
		"ä":                      `kind is "ä"`,
		"a/b":                    `kind is "a/b"`,
		strings.Repeat("a", 101): "kind has 101 characters, must be 1 to 100 of A-Z a-z 0-9 . _ - and begin",
	} {
		if err := duly.ValidateKind(bad); !errors.Is(err, duly.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", bad, err, want)
		}
	}
}
