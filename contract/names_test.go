package contract_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// C1.11, C1.12: names and IDs have only allowed characters, and begin with an allowed one.
func TestNamesHaveOnlyAllowedCharacters(t *testing.T) {
	t.Parallel()
	const all = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	kinds := []struct {
		name        string
		check       func(string) error
		first, rest string
		most        int
	}{
		{"queue", func(s string) error { return contract.ValidateQueue(duly.Q(s)) }, all + "-", all + "._-", duly.MaxName},
		{"namespace", contract.ValidateNamespace, all + "-_", all + "._-", duly.MaxName},
		{"id", contract.ValidateID, all + "_", all + "._-:", duly.MaxID},
	}
	for _, k := range kinds {
		for b := range 256 {
			c := string([]byte{byte(b)})
			if err := k.check(c); (err == nil) != strings.Contains(k.first, c) {
				t.Errorf("the %s %q is answered %v", k.name, c, err)
			}
			if err := k.check("a" + c); (err == nil) != strings.Contains(k.rest, c) {
				t.Errorf("the %s %q is answered %v", k.name, "a"+c, err)
			}
		}
		if err := k.check(strings.Repeat("a", k.most)); err != nil {
			t.Errorf("the longest %s: %v", k.name, err)
		}
		err := k.check(strings.Repeat("a", k.most+1))
		var e *duly.Error
		if !errors.As(err, &e) || e.Code != duly.CodeInvalid || e.Fields[0].Field != k.name {
			t.Errorf("a longer %s is answered %v", k.name, err)
		}
	}
	if contract.ValidateID("") == nil || contract.ValidateQueue(duly.Q("")) == nil {
		t.Error("an empty ID or queue is a name")
	}
	if err := contract.ValidateNamespace(""); err != nil {
		t.Errorf("the empty namespace, which is the default one: %v", err)
	}
}

// C2.5: the namespace is default unless one is given.
func TestQueueRefFillsInTheNamespace(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		ref  duly.QueueRef
		text string
	}{
		{duly.Q("a"), "default/a"}, {duly.QueueRef{Name: "a"}, "default/a"}, {duly.QueueRef{Namespace: "x", Name: "a"}, "x/a"},
	} {
		if c.ref.String() != c.text || c.ref.Normal().String() != c.text {
			t.Errorf("%+v is %s, want %s", c.ref, c.ref, c.text)
		}
	}
	if (duly.QueueRef{Name: "a"}).Normal() != duly.Q("a") {
		t.Error("an empty namespace is not the default one")
	}
}

func TestTokensSayWhatTheyAllow(t *testing.T) {
	t.Parallel()
	good := contract.Token{Namespace: "a", Rights: contract.RightConsume}
	for _, c := range []struct {
		field string
		token contract.Token
	}{
		{"", good}, {"", contract.Token{Namespace: contract.AllNamespaces, Rights: contract.RightAdmin | contract.RightConsume}},
		{"namespace", contract.Token{Namespace: "a/b", Rights: contract.RightConsume}}, {"namespace", contract.Token{Namespace: "**", Rights: 1}},
		{"rights", contract.Token{Namespace: "a"}}, {"rights", contract.Token{Namespace: "a", Rights: 8}},
		{"description", contract.Token{Namespace: "a", Rights: 1, Description: strings.Repeat("x", 256)}},
		{"description", contract.Token{Namespace: "a", Rights: 1, Description: "two\nlines"}},
		{"namespace", contract.Token{Rights: 1}},
	} {
		err := c.token.Validate()
		var e *duly.Error
		if errors.As(err, &e) != (c.field != "") || e != nil && e.Fields[0].Field != c.field {
			t.Errorf("%+v is answered %v", c.token, err)
		}
	}
	// C14.26: admin includes produce and consume.
	if !contract.RightAdmin.Includes(contract.RightProduce) || !contract.RightAdmin.Includes(contract.RightConsume) ||
		contract.RightProduce.Includes(contract.RightConsume) || contract.RightConsume.Includes(contract.RightAdmin) ||
		!(contract.RightProduce | contract.RightConsume).Includes(contract.RightConsume) {
		t.Error("a right includes what it should not, or does not what it should")
	}
}

func FuzzNames(f *testing.F) {
	for _, text := range []string{"", "a", "..", "a/b", "_a:b", "-q", "ä", "a\x00"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, err := range []error{contract.ValidateID(text), contract.ValidateNamespace(text), contract.ValidateQueue(duly.Q(text))} {
			if err == nil {
				if strings.ContainsAny(text, "/\\ \x00\n%?#") || text == "." || text == ".." {
					t.Fatalf("%q is a name", text)
				}
				continue
			}
			if !errors.Is(err, duly.ErrInvalid) || strings.ContainsAny(err.Error(), "\x00\n\r\x1b") || len(err.Error()) > 500 {
				t.Fatalf("%q is answered %q", text, err)
			}
		}
	})
}

func TestRightsTravelByName(t *testing.T) {
	t.Parallel()
	for rights := contract.Right(1); rights < 8; rights++ {
		if again, err := contract.ParseRights(rights.Names()); again != rights || err != nil {
			t.Errorf("%v is read as %d, not %d (%v)", rights.Names(), again, rights, err)
		}
	}
	_, err := contract.ParseRights([]string{"produce", "everything"})
	if !errors.Is(err, duly.ErrInvalid) || !strings.Contains(err.Error(), `"everything"`) {
		t.Errorf("an unknown right is refused with %v", err)
	}
}
