package archtest

import (
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// The layers of the tree, by their folders.
var (
	engines = []string{"redisengine", "sqliteengine", "httpengine"}
	servers = []string{"worker", "server"}
	// choosers may import an engine, because they assemble a program.
	choosers = []string{"cmd", "open", "examples", "test"}
	// support is code for the tests of users and of duly. No other code may import it.
	support = []string{"enginetest", "dulytest", "test", "internal/bench/gaugetest", "internal/eventually",
		"internal/logtest", "internal/memnet", "internal/certtest", "internal/porttest", "internal/redistest",
		"internal/proctest", "internal/faultproxy"}
	// testModules are linked into tests only.
	testModules = []string{"pgregory.net/rapid", "go.uber.org/goleak", "github.com/anishathalye/porcupine",
		"github.com/standard-webhooks/standard-webhooks", "github.com/netresearch/go-cron", "github.com/chromedp"}
)

// inputOutput has the packages for input and output, which the root package must not import.
var inputOutput = []string{"os", "os/exec", "net", "net/http", "database/sql", "syscall"}

// importRule checks one import. A non-test file of the package in the folder `from` imports `path`.
// If the path is in this module, `to` is its folder, else "".
type importRule struct {
	name    string
	forbids func(from, path, to string) bool
}

var importRules = []importRule{
	{"the root imports the standard library alone, and does no I/O", func(from, path, _ string) bool {
		return from == "." && (!standard(path) || slices.Contains(inputOutput, path))
	}},
	{"contract imports the root and three internal packages alone, and does no I/O", func(from, path, to string) bool {
		return from == "contract" && (!standard(path) && !slices.Contains([]string{".", "internal/clock", "internal/cron",
			"internal/hook"}, to) ||
			slices.Contains(inputOutput, path))
	}},
	{"internal/clock imports the standard library and the root alone", func(from, path, to string) bool {
		return from == "internal/clock" && !standard(path) && to != "."
	}},
	{"engines never import each other", func(from, _, to string) bool {
		return under(from, engines...) && under(to, engines...) && top(from) != top(to)
	}},
	{"engines import neither worker nor server nor what chooses engines", func(from, _, to string) bool {
		return under(from, engines...) && (under(to, servers...) || under(to, choosers...))
	}},
	{"worker and server import no engine, nor what chooses one", func(from, _, to string) bool {
		return under(from, servers...) && (under(to, engines...) || under(to, choosers...))
	}},
	{"only cmd, open, examples and test choose an engine", func(from, _, to string) bool {
		return under(to, engines...) && !under(from, choosers...) && top(from) != top(to)
	}},
	{"the reference model and test support are linked into tests only", func(from, _, to string) bool {
		return under(to, append([]string{"internal/model"}, support...)...) &&
			!under(from, append([]string{"internal/model"}, support...)...)
	}},
	{"modules for tests are linked into tests only", func(from, path, _ string) bool {
		return under(path, testModules...) && !under(from, support...)
	}},
	{"OpenTelemetry is linked where it is asked for", func(from, path, _ string) bool {
		return under(path, "go.opentelemetry.io") && !under(from, "otelduly", "server/traces", "cmd")
	}},
	{"a template keeps every exported method in the binary, which grows by half", func(from, path, _ string) bool {
		return slices.Contains([]string{"text/template", "html/template"}, path)
	}},
	{"only server imports the dashboard", func(from, _, to string) bool {
		return under(to, "server/dashboard") && from != "server" && !under(from, "server/dashboard", "test")
	}},
	{"the dashboard calls the engine in this process", func(from, path, to string) bool {
		return under(from, "server/dashboard") && to != "" && !under(to, "server/dashboard") && !slices.Contains([]string{
			".", "contract", "internal/durable", "internal/ownfile", "internal/queueplan", "internal/schedule", "internal/turns",
			"internal/why", "internal/wire",
			"server/audit", "server/auth", "server/failures", "server/jobfilter", "server/operations", "server/operations/spec",
			"server/route"}, to)
	}},
	{"worker takes no module", func(from, path, to string) bool {
		return under(from, "worker") && to == "" && !standard(path)
	}},
}

// top returns the first folder of a package.
func top(dir string) string {
	first, _, _ := strings.Cut(dir, "/")
	return first
}

// standard reports whether an import path belongs to Go's own library.
func standard(path string) bool {
	return !strings.Contains(top(path), ".")
}

// folder returns the folder of a package of this module, or "" for another module's package.
func folder(path string) string {
	if path == module {
		return "."
	}
	rest, ok := strings.CutPrefix(path, module+"/")
	if !ok {
		return ""
	}
	return rest
}

// importFaults checks every import of the non-test files.
func importFaults(files []source) []string {
	var faults []string
	for _, s := range files {
		if s.isTest() {
			continue
		}
		for _, i := range s.imports() {
			for _, r := range importRules {
				if r.forbids(s.dir(), i.path, folder(i.path)) {
					faults = append(faults, fmt.Sprintf("%s imports %s: %s", s.at(i.pos), i.path, r.name))
				}
			}
		}
	}
	return faults
}

// sharedFaults lists the packages that server/native and httpengine share without permission. The
// two sides of the wire may share internal/wire, the root, the contract, and the packages that
// these import.
func sharedFaults(files []source) []string {
	uses := func(dir string) map[string]bool {
		set := map[string]bool{}
		for _, s := range files {
			if s.isTest() || !under(s.dir(), dir) {
				continue
			}
			for _, i := range s.imports() {
				if to := folder(i.path); to != "" && !under(to, dir) {
					set[to] = true
				}
			}
		}
		return set
	}

	var faults []string
	remote := uses("httpengine")
	for to := range uses("server/native") {
		if remote[to] && !slices.Contains([]string{".", "contract", "internal/clock", "internal/hook", "internal/wire"}, to) {
			faults = append(faults, fmt.Sprintf("server/native and httpengine both import %s: they share internal/wire and "+
				"nothing else", to))
		}
	}

	return faults
}

func TestDependencyRule(t *testing.T) {
	t.Parallel()
	files := tree(t)
	report(t, importFaults(files))
	report(t, sharedFaults(files))
}

// A package may be an allowed import although its own imports are not allowed. So this test asks
// the go command for all packages that a program links if it imports one package.
func TestImportingOnePackageDoesNotPullInAnother(t *testing.T) {
	t.Parallel()
	tests := []struct {
		dir       string
		noModules bool     // whether it may link only the standard library and this module
		forbids   []string // import paths that are forbidden, with all paths below them
	}{
		{dir: ".", noModules: true, forbids: append(within("contract", "internal"), "net/http", "database/sql",
			"time/tzdata")},
		{dir: "internal/cron", noModules: true, forbids: []string{"time/tzdata", "net/http"}},
		{dir: "contract", noModules: true, forbids: append(within(slices.Concat(engines, servers)...), "net/http",
			"database/sql", "time/tzdata")},
		{dir: "worker", noModules: true, forbids: append(within(engines...), module+"/server", "net/http")},
		{dir: "dulytest", noModules: true, forbids: append(within(engines...), module+"/server")},
		{dir: "sqliteengine", forbids: append(within(servers...), "go.opentelemetry.io", "net/http", "github.com/spf13")},
		{dir: "redisengine", forbids: append(within(servers...), "go.opentelemetry.io", "net/http", "modernc.org",
			"github.com/spf13")},
		{dir: "httpengine", forbids: append(within(servers...), "go.opentelemetry.io", "modernc.org", "github.com/spf13")},
		{dir: "otelduly", forbids: append(within(engines...), module+"/server", "go.opentelemetry.io/otel/sdk",
			"go.opentelemetry.io/otel/exporters")},
		{dir: "server", forbids: append(within(engines...), "go.opentelemetry.io", "modernc.org", "github.com/spf13")},
	}

	files := tree(t)
	for _, tt := range tests {
		t.Run(tt.dir, func(t *testing.T) {
			t.Parallel()
			if !hasPackage(files, tt.dir) {
				t.Skipf("no package %s in the tree", tt.dir)
			}
			for _, path := range dependencies(t, tt.dir) {
				foreign := !standard(path) && folder(path) == ""
				if under(path, tt.forbids...) || tt.noModules && foreign {
					t.Errorf("%s pulls in %s", tt.dir, path)
				}
			}
		})
	}
}

// within returns the import paths of folders of this module.
func within(dirs ...string) []string {
	paths := make([]string, len(dirs))
	for i, d := range dirs {
		paths[i] = module + "/" + d
	}
	return paths
}

// dependencies lists everything that the package in dir is linked with.
func dependencies(t *testing.T, dir string) []string {
	t.Helper()
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "./"+dir)
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, bytes.TrimSpace(exit.Stderr))
		}
		t.Fatalf("go list -deps ./%s: %v", dir, err)
	}
	return strings.Fields(string(out))
}
