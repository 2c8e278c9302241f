package lua

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestEveryScriptHasALibrary checks that every script belongs to exactly one library.
func TestEveryScriptHasALibrary(t *testing.T) {
	t.Parallel()
	var all []string
	for _, c := range concerns {
		all = append(all, c.scripts...)
	}
	slices.Sort(all)
	if names := Names(); !slices.Equal(all, names) {
		t.Errorf("the libraries have %v, the files are %v", all, names)
	}
}

var topLevel = regexp.MustCompile(`(?m)^local (?:function )?(\w+(?:,\s*\w+)*)`)

// TestNamesOfALibraryDoNotCollide checks that no key or argument has the name of a piece's
// function or constant. The functions of a library share one scope, so a call would overwrite it.
func TestNamesOfALibraryDoNotCollide(t *testing.T) {
	t.Parallel()
	for _, c := range concerns {
		owner := map[string]string{}
		for _, name := range c.pieces {
			text, err := os.ReadFile("include/" + name + ".lua")
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range topLevel.FindAllStringSubmatch(string(text), -1) {
				for local := range strings.SplitSeq(m[1], ",") {
					local = strings.TrimSpace(local)
					if other, taken := owner[local]; taken && other != name {
						t.Errorf("library %s: pieces %s and %s both define %s", c.name, other, name, local)
					}
					owner[local] = name
				}
			}
		}

		for _, name := range c.scripts {
			s, err := readScript(name)
			if err != nil {
				t.Fatal(err)
			}
			for _, used := range slices.Concat(s.keys.fixed, s.keys.group, s.args.fixed, s.args.group) {
				if piece, taken := owner[used]; taken {
					t.Errorf("library %s: script %s and piece %s both have the name %s", c.name, name, piece, used)
				}
			}
		}
	}
}
