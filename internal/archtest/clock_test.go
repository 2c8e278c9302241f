package archtest

import (
	"fmt"
	"go/ast"
	"slices"
	"testing"
)

// wallTime are the functions of package time that read or follow the
// machine's clock. Everything else of the package is arithmetic.
var wallTime = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}

// rootClock is the file of the system's clock, which internal/clock hands on.
const rootClock = "clock.go"

// wallTimeAllowed has the places outside internal/clock that may read wall time.
var wallTimeAllowed = []exception{
	{"internal/clock", "it is the clock"},
	{"cmd", "a program shows people how long something took, and waits for a server to come up"},
	{"examples", "a program"},
	{"test", "the long suites time real processes"},
	{"internal/eventually", "it waits for conditions outside of any clock"},
	{"internal/proctest", "it waits for real processes"},
	{"internal/redistest", "it waits for real processes"},
	{"internal/faultproxy", "it delays real connections"},
}

// sleepAllowed has the places where a test may sleep, because it watches something without a clock
// that can be injected.
var sleepAllowed = []exception{
	{"test", "the long suites let real processes run for a while"},
	{"internal/proctest", "it waits for real processes"},
	{"internal/faultproxy", "it delays real connections"},
}

// mathRandAllowed has the places outside tests that may use math/rand. IDs, receipts and tokens
// must use crypto/rand.
var mathRandAllowed = []exception{
	{"cmd", "bench draws the load that it makes"},
	{"test", "fault plans are drawn from a printed seed"},
	{"enginetest", "random operations are drawn from a printed seed"},
}

// calls lists the places where a file names one of the given functions of the package at path, in a
// call or as a value.
func calls(s source, path string, names []string) []string {
	var found []string
	for _, i := range s.imports() {
		if i.path != path {
			continue
		}
		if i.name == "." {
			found = append(found, fmt.Sprintf("%s imports %s with a dot, which hides what is used of it", s.at(i.pos), path))
			continue
		}
		ast.Inspect(s.ast, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if x, ok := sel.X.(*ast.Ident); ok && x.Name == i.name && slices.Contains(names, sel.Sel.Name) {
				found = append(found, fmt.Sprintf("%s uses %s.%s", s.at(sel.Pos()), path, sel.Sel.Name))
			}
			return true
		})
	}

	return found
}

func importsAny(s source, paths ...string) bool {
	return slices.ContainsFunc(s.imports(), func(i imported) bool { return slices.Contains(paths, i.path) })
}

func clockFaults(files []source) []string {
	var faults []string
	for _, s := range files {
		if s.isTest() || s.path == rootClock || excepted(wallTimeAllowed, s.dir()) {
			continue
		}
		for _, c := range calls(s, "time", wallTime) {
			faults = append(faults, c+": time comes from internal/clock")
		}
	}
	return faults
}

// sleepFaults lists tests that sleep. A file that imports testing/synctest may sleep, because
// sleeping inside a bubble takes no real time.
func sleepFaults(files []source) []string {
	var faults []string
	for _, s := range files {
		if !s.isTest() || excepted(sleepAllowed, s.dir()) || importsAny(s, "testing/synctest") {
			continue
		}
		for _, c := range calls(s, "time", []string{"Sleep"}) {
			faults = append(faults, c+": a test waits for what it wants to see, or moves the injected clock")
		}
	}
	return faults
}

func randFaults(files []source) []string {
	var faults []string
	for _, s := range files {
		if !s.isTest() && !excepted(mathRandAllowed, s.dir()) && importsAny(s, "math/rand", "math/rand/v2") {
			faults = append(faults, s.path+" imports math/rand: what nobody may guess comes from crypto/rand, what must "+
				"repeat from a fixed function")
		}
	}
	return faults
}

func TestEveryExceptionHasAReason(t *testing.T) {
	t.Parallel()
	for _, e := range slices.Concat(wallTimeAllowed, sleepAllowed, mathRandAllowed) {
		if e.reason == "" {
			t.Errorf("%s is an exception without a reason", e.folder)
		}
	}
}

func TestTimeIsReadInOnePlace(t *testing.T) {
	t.Parallel()
	report(t, clockFaults(tree(t)))
}

func TestTestsDoNotSleep(t *testing.T) {
	t.Parallel()
	report(t, sleepFaults(tree(t)))
}

func TestRandomnessIsCryptographic(t *testing.T) {
	t.Parallel()
	report(t, randFaults(tree(t)))
}
