package archtest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// plant parses files that are not in the tree.
func plant(t *testing.T, files map[string]string) []source {
	t.Helper()
	var planted []source
	for name, text := range files {
		s, err := parse(name, text)
		if err != nil {
			t.Fatal(err)
		}
		planted = append(planted, s)
	}
	return planted
}

func importing(paths ...string) string {
	var b strings.Builder
	b.WriteString("package x\n")
	for _, p := range paths {
		fmt.Fprintf(&b, "import _ %q\n", p)
	}
	return b.String()
}

func TestDependencyRuleFindsPlantedFaults(t *testing.T) {
	t.Parallel()
	forbidden := []struct{ file, path string }{
		{"job.go", "net/http"},
		{"job.go", "modernc.org/sqlite"},
		{"job.go", module + "/internal/wire"},
		{"job.go", module + "/internal/clock"},
		{"job.go", module + "/contract"},
		{"contract/plan.go", module + "/internal/wire"},
		{"contract/plan.go", "net/http"},
		{"internal/clock/clock.go", module + "/contract"},
		{"sqliteengine/open.go", module + "/redisengine"},
		{"redisengine/open.go", module + "/worker"},
		{"httpengine/open.go", module + "/server/native"},
		{"sqliteengine/open.go", module + "/open"},
		{"worker/run.go", module + "/sqliteengine"},
		{"worker/run.go", "golang.org/x/sync/errgroup"},
		{"server/server.go", module + "/open"},
		{"server/native/routes.go", module + "/httpengine"},
		{"internal/wire/json.go", module + "/sqliteengine"},
		{"dulytest/engine.go", module + "/sqliteengine"},
		{"sqliteengine/push.go", module + "/internal/model"},
		{"worker/run.go", module + "/enginetest"},
		{"sqliteengine/push.go", "pgregory.net/rapid"},
		{"server/server.go", "go.opentelemetry.io/otel/trace"},
		{"server/native/routes.go", module + "/server/dashboard"},
		{"server/dashboard/login.go", module + "/httpengine"},
		{"server/dashboard/login.go", module + "/server/admin"},
	}
	for _, f := range forbidden {
		if len(importFaults(plant(t, map[string]string{f.file: importing(f.path)}))) == 0 {
			t.Errorf("%s may import %s", f.file, f.path)
		}
	}

	allowed := []struct{ file, path string }{
		{"contract/plan.go", module + "/internal/clock"},
		{"contract/plan.go", module},
		{"internal/clock/clock.go", module},
		{"job.go", "crypto/rand"},
		{"job_test.go", module + "/dulytest"},
		{"sqliteengine/open.go", module},
		{"sqliteengine/open.go", module + "/sqliteengine/internal/sql"},
		{"sqliteengine/open_test.go", module + "/enginetest"},
		{"httpengine/http.go", module + "/internal/wire"},
		{"open/open.go", module + "/sqliteengine"},
		{"cmd/duly/internal/cli/serve.go", module + "/sqliteengine"},
		{"dulytest/engine.go", module + "/internal/model"},
		{"enginetest/model.go", "pgregory.net/rapid"},
		{"otelduly/engine.go", "go.opentelemetry.io/otel/trace"},
	}
	for _, f := range allowed {
		for _, fault := range importFaults(plant(t, map[string]string{f.file: importing(f.path)})) {
			t.Error(fault)
		}
	}

	shared := map[string]string{
		"server/native/a.go": importing(module, module+"/internal/wire", module+"/internal/batch"),
		"httpengine/a.go":    importing(module, module+"/internal/wire", module+"/internal/batch"),
	}
	if got := sharedFaults(plant(t, shared)); len(got) != 1 || !strings.Contains(got[0], "internal/batch") {
		t.Errorf("shared packages: %q", got)
	}
}

func TestClockRulesFindPlantedFaults(t *testing.T) {
	t.Parallel()
	const sleeps = "package x\nimport \"time\"\nfunc f() { time.Sleep(1) }\n"
	tests := []struct {
		name  string
		check func([]source) []string
		file  string
		text  string
		want  int
	}{
		{"Now", clockFaults, "worker/a.go", "package x\nimport \"time\"\nvar t = time.Now()\n", 1},
		{"AsValue", clockFaults, "server/a.go", "package x\nimport \"time\"\nvar now = time.Now\n", 1},
		{"Renamed", clockFaults, "a.go", "package x\nimport clk \"time\"\nvar t = clk.Since(clk.Time{})\n", 1},
		{"Dot", clockFaults, "a.go", "package x\nimport . \"time\"\nvar t = Now()\n", 1},
		{"Timers", clockFaults, "a.go", "package x\nimport \"time\"\nvar a, b, c = time.After(1), time.NewTimer(1), time.NewTicker(1)\n", 3},
		{"Arithmetic", clockFaults, "a.go", "package x\nimport \"time\"\nvar d = time.Second + time.Duration(3)\n", 0},
		{"InTheRootsClock", clockFaults, "clock.go", "package x\nimport \"time\"\nvar t = time.Now()\n", 0},
		{"InTheClock", clockFaults, "internal/clock/a.go", "package x\nimport \"time\"\nvar t = time.Now()\n", 0},
		{"InATest", clockFaults, "worker/a_test.go", "package x\nimport \"time\"\nvar t = time.Now()\n", 0},
		{"TestSleeps", sleepFaults, "worker/a_test.go", sleeps, 1},
		{"BubbleSleeps", sleepFaults, "worker/a_test.go", strings.Replace(sleeps, "func", "import _ \"testing/synctest\"\nfunc", 1), 0},
		{"LongSuiteSleeps", sleepFaults, "test/chaos/a_test.go", sleeps, 0},
		{"MathRand", randFaults, "server/auth/a.go", importing("math/rand/v2"), 1},
		{"CryptoRand", randFaults, "server/auth/a.go", importing("crypto/rand"), 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := tt.check(plant(t, map[string]string{tt.file: tt.text})); len(got) != tt.want {
				t.Errorf("%d faults, want %d: %q", len(got), tt.want, got)
			}
		})
	}
}

func TestCommentRuleFindsPlantedFaults(t *testing.T) {
	t.Parallel()
	const text = `package x

type Bare struct{}

// Fine has one.
type Fine interface {
	// Said has one.
	Said()
	Silent()
}

func (Bare) Method()   {}
func (hidden) Method() {}
func Func()            {}

type hidden struct{}

// A group shares one.
const (
	One = 1
	Two = 2
)

const (
	Three = 3
	Four  = 4 // has its own
)

var (
	// Five has one.
	Five int
	six  int
)

type (
	Alone int
)

// Generic has one.
type Generic[T any] struct{}

func (*Generic[T]) Open() {}
`
	var got []string
	for _, fault := range commentFaults(plant(t, map[string]string{"x/x.go": text})) {
		_, what, _ := strings.Cut(fault, ": ")
		got = append(got, strings.TrimSuffix(what, " has no comment"))
	}
	slices.Sort(got)
	want := []string{"Alone", "Bare", "Func", "Method", "Open", "Silent", "Three", "package x"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

const plantedContract = `# A contract

A rule is marked *(not built yet)*.

## 1. Words

| a | **[C1.1]** one; **[C1.2]** *(not built yet)* two |

## 9. Promise

- **[C9.1]** at least once
- **[C9.3]** fsynced

## 14. HTTP

- **[C14.1]** base
`

func TestContractRuleFindsPlantedFaults(t *testing.T) {
	t.Parallel()
	rules, faults := parseContract(plantedContract)
	if len(faults) > 0 || len(rules) != 5 || rules[rule{1, 2}].built || rules[rule{1, 1}].text != "one;" {
		t.Fatalf("rules %v, faults %q", rules, faults)
	}
	for _, bad := range []string{"**[C9.1]** twice", "**[C2.1]** in the wrong section", "[C9.4] not bold", "*(not built yet)* of no rule"} {
		page := strings.Replace(plantedContract, "- **[C9.3]**", "- "+bad+"\n- **[C9.3]**", 1)
		if _, faults := parseContract(page); len(faults) != 1 {
			t.Errorf("%s: faults %q", bad, faults)
		}
	}

	tests := []struct {
		name    string
		files   map[string]string
		missing string
		unknown int
	}{
		{"Nothing", nil, "C1.1 C9.1 C9.3 C14.1", 0},
		{"CommentsStringsNames", map[string]string{
			"enginetest/push.go":     "package x\n// C1.1 holds.\nfunc a() {}\nvar t = []string{`C9.1`}\n",
			"sqliteengine/a_test.go": "package x\nfunc TestC9_3Sync() {}\n",
			"server/a_test.go":       "package x\nfunc a() {\n\t// C14.1\n}\n",
		}, "", 0},
		{"DomainRulesBelongToTheSuite", map[string]string{
			"sqliteengine/a_test.go": "package x\n// C1.1 C9.1 C9.3 C14.1\nfunc a() {}\n",
		}, "C1.1 C9.1", 0},
		{"OnlyTestsCount", map[string]string{
			"job.go": "package x\n// C1.1 C9.1 C9.3 C14.1\nfunc a() {}\n",
		}, "C1.1 C9.1 C9.3 C14.1", 0},
		{"PassingWordsDoNotCount", map[string]string{
			"enginetest/doc.go": "// C1.1\npackage x\n\n// C9.1\n\nimport \"fmt\"\n",
		}, "C1.1 C9.1 C9.3 C14.1", 0},
		{"UnknownNumber", map[string]string{
			"server/a_test.go": "package x\n// C14.1, C14.2 and C9.30, not RFC9.1\nfunc TestC1_7(){}\n",
		}, "C1.1 C9.1 C9.3", 3},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			files := plant(t, tt.files)
			var missing []string
			for _, r := range untested(rules, files) {
				missing = append(missing, r.String())
			}
			if got := strings.Join(missing, " "); got != tt.missing {
				t.Errorf("without a test: %q, want %q", got, tt.missing)
			}
			if got := unknown(rules, files); len(got) != tt.unknown {
				t.Errorf("unknown: %q, want %d", got, tt.unknown)
			}
		})
	}
}

func TestDependencyPageFindsPlantedFaults(t *testing.T) {
	t.Parallel()
	const page = "| `modernc.org/sqlite` | why |\n\nbrings `modernc.org/libc`\n"
	files := plant(t, map[string]string{"a.go": importing("fmt", module+"/open", "modernc.org/sqlite/lib", "modernc.org/libc")})
	if got := unjustified(files, page); len(got) != 1 || !strings.Contains(got[0], "modernc.org/libc") {
		t.Errorf("got %q", got)
	}
}

func TestNamesOfTestsFindPlantedFaults(t *testing.T) {
	t.Parallel()
	files := plant(t, map[string]string{
		"a/a_test.go":     "package a\nfunc TestThere() {}\n",
		"a/a.go":          "package a\nfunc TestInNoTestFile() {}\n",
		suite + "/job.go": "package enginetest\nvar list = []string{\"Job\", \"IsThere\"}\n",
	})
	page := "`TestThere`, `TestThere/Sub`, `Job/IsThere`, `Reserve`; `TestGone`, `TestGone/Sub`, `TestInNoTestFile`, `Job/IsGone`"
	if got := missingTests(files, "p.md", page); len(got) != 4 {
		t.Errorf("got %q, want 4 faults", got)
	}
}
