package logcursor

import (
	"errors"
	"slices"
	"testing"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

func TestParseIsTheInverseOfNext(t *testing.T) {
	places := []Place{{Ordinal: 1}, {Ordinal: 1<<40 - 1, Seen: 1<<48 - 1}, {Ordinal: 7, Seen: 1}}
	from, err := contract.ParseFrom(Next(places))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := Parse(from.Next, 3); err != nil || !slices.Equal(got, places) {
		t.Errorf("%s is parsed as %v, %v; want %v", from.Next, got, err, places)
	}
}

func TestParseRefusesOtherTexts(t *testing.T) {
	for _, text := range []string{"", "0", "-1", "1-", "1--1", "x", "1.2", "1.", "1099511627776", "1-zzzzzzzzzzz", "1- 1"} {
		if got, err := Parse(text, 1); !errors.Is(err, duly.ErrInvalid) {
			t.Errorf("%q is parsed as %v, %v; want invalid", text, got, err)
		}
	}
}
