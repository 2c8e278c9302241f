package archtest

import (
	"fmt"
	"go/ast"
	"testing"
)

// decorators are the types of the server that embed an engine, with their purposes. Other code that
// wants to see calls must be an observer of server/observe. A test of package server checks that a
// push passes at most two decorators.
var decorators = map[string]string{
	"server/observe.Engine":       "it calls the observers",
	"server/pools.observedEngine": "it names the pool that a call has reached",
	"server/pools.stepEngine":     "it makes the steps of a move, and no call of a caller passes it",
}

// decoratorFaults lists types of the server that embed an engine and are not in the map. It also
// lists types of the map that do not exist.
func decoratorFaults(files []source) []string {
	var faults []string
	found := map[string]bool{}
	for _, s := range files {
		if s.isTest() || !under(s.dir(), "server") {
			continue
		}
		ast.Inspect(s.ast, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok || !embedsEngine(spec.Type) {
				return true
			}
			name := s.dir() + "." + spec.Name.Name
			if found[name] = true; decorators[name] == "" {
				faults = append(faults, fmt.Sprintf("%s: %s decorates an engine; make it an observer of server/observe",
					s.at(spec.Pos()), name))
			}
			return true
		})
	}

	for name := range decorators {
		if !found[name] {
			faults = append(faults, name+" is in the list of decorators, and does not exist")
		}
	}
	return faults
}

// embedsEngine reports whether a type is a struct that embeds contract.Engine or
// duly.Engine.
func embedsEngine(t ast.Expr) bool {
	s, ok := t.(*ast.StructType)
	if !ok {
		return false
	}
	for _, f := range s.Fields.List {
		sel, ok := f.Type.(*ast.SelectorExpr)
		if !ok || len(f.Names) > 0 || sel.Sel.Name != "Engine" {
			continue
		}
		if pkg, ok := sel.X.(*ast.Ident); ok && (pkg.Name == "contract" || pkg.Name == "duly") {
			return true
		}
	}
	return false
}

func TestEngineHasFewDecorators(t *testing.T) {
	t.Parallel()
	report(t, decoratorFaults(tree(t)))
}

func TestDecoratorsFindsPlantedFaults(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		"type e struct{ contract.Engine }":          1,
		"type e struct{ n int; duly.Engine }":       1,
		"type e struct{ engine contract.Engine }":   0,
		"type e struct{ contract.Registry }":        0,
		"func f() { type e struct{ duly.Engine } }": 1,
	} {
		planted := plant(t, map[string]string{"server/x/a.go": "package x\n" + text})
		if got := len(decoratorFaults(planted)) - len(decorators); got != want {
			t.Errorf("%s: %d faults, want %d", text, got, want)
		}
	}
}
