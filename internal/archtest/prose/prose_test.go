package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMeasureFindsEachFault plants one fault of each kind and checks that only the figure of that
// fault changes.
func TestMeasureFindsEachFault(t *testing.T) {
	t.Parallel()
	long := "package p\n\nfunc f() {\n" + strings.Repeat("\tg()\n", 60) + "}\n"
	for _, c := range []struct{ name, file, text, figure string }{
		{"comment", "a.go", "package p\n\n// It tells nothing.\n", "tell"},
		{"string", "a.go", "package p\n\n// A comment.\nvar s = `it stands here`\n", "stand"},
		{"Lua", "a.lua", "-- whoever calls it\n", "whoever"},
		{"SQL", "a.sql", "-- begins anew\n", "anew"},
		{"page", "a.md", "It runs for ever.\n", "anew"},
		{"long sentence", "a.md", strings.Repeat("word\n", 31) + "end.\n" + strings.Repeat("Two words.\n", 9), "sentences over"},
		{"average", "a.md", strings.Repeat("word ", 20) + "end.", "words per sentence"},
		{"test", "a_test.go", "package p\n\nfunc TestWhatIsThere(t int) {}\n", "tests and errors"},
		{"error", "a.go", "package p\n\nvar e = errors.New(\"who calls it\")\n", "tests and errors"},
		{"invalid field", "a.go", "package p\n\nvar e = contract.Invalid(\"name\", \"who calls it\")\n", "tests and errors"},
		{"dense", "a.go", strings.Replace(long, strings.Repeat("\tg()\n", 30), "\t// A reason.\n", 1), "without a blank line"},
		{"long function", "a.go", strings.Replace(long, "\tg()\n", "\t// A reason.\n\n\t// Another.\n\t// Third.\n", 1), "over 60 lines"},
		{"wide line", "a.sql", strings.Repeat("x", 141), "columns"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			if err := os.WriteFile(filepath.Join(root, c.file), []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}

			m, err := measureTree(root)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range m.figures() {
				if bad := f.value > f.most; bad != strings.HasPrefix(f.name, c.figure) && bad != strings.Contains(f.name, c.figure) {
					t.Errorf("%s is %s, %s: %q", f.name, f.text(), f.boundText(), m.places)
				}
			}
			if len(m.places) == 0 && c.name != "average" {
				t.Error("no place is listed")
			}
		})
	}
}

// TestMeasureFindsNothingInGoodText measures text without faults.
func TestMeasureFindsNothingInGoodText(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for file, text := range map[string]string{
		"a.md": "# What a heading says\n\n| a | " + strings.Repeat("wide ", 40) + " |\n\n```sh\n" +
			strings.Repeat("word ", 25) + "\n```\n\n- Short. See [the page](docs/page.md).\n",
		"a.go":          "package p\n\n// F returns an understanding of a standard.\nfunc F() {}\n",
		"testdata/a.md": "Whoever tells.\n",
	} {
		path := filepath.Join(root, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}

	m, err := measureTree(root)
	if err != nil {
		t.Fatal(err)
	}
	if len(m.places) > 0 {
		t.Errorf("it lists %q", m.places)
	}
	if m.sentences != 2 || m.sentenceWords != 4 {
		t.Errorf("it counts %d sentences of %d words, want 2 of 4", m.sentences, m.sentenceWords)
	}
}

// TestSampleIsTheSameForASeed draws twice with one seed, and once with another seed.
func TestSampleIsTheSameForASeed(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	var text strings.Builder
	text.WriteString("package p\n")
	for i := range 200 {
		fmt.Fprintf(&text, "\n// F%d returns %d.\nfunc F%d() error { return errors.New(\"error %d\") }\n", i, i, i, i)
	}
	if err := os.WriteFile(filepath.Join(root, "a.go"), []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	draw := func(seed uint64) string {
		m, err := measureTree(root)
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		m.sample.print(&b, seed)
		return b.String()
	}

	one := draw(7)
	if one != draw(7) {
		t.Error("a seed has two samples")
	}
	if one == draw(8) {
		t.Error("two seeds have the same sample")
	}
	for _, want := range []string{"COMMENTS: 100 of 200", "ERRORS: 40 of 200", "TESTS: 0 of 0"} {
		if !strings.Contains(one, want) {
			t.Errorf("the sample has no %q", want)
		}
	}
}
