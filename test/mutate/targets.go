package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// target is a set of source files and the packages that test them.
type target struct {
	name    string
	sources []string // patterns of files, relative to the module's root
	tests   []suite  // the fastest first
}

// all returns one suite per package, with all tests of that package.
func all(packages ...string) (suites []suite) {
	for _, p := range packages {
		suites = append(suites, suite{pkg: p})
	}

	return suites
}

// overHTTP is the conformance suite over the API and the HTTP engine.
var overHTTP = suite{"./test/conformance", "TestHTTPOverTheModel|TestDeleteOverHTTP|TestReadme"}

// targets lists what is mutated, in the order of the report.
var targets = []target{
	{"sqlite-sql", []string{"sqliteengine/sql/*.sql"}, all("./sqliteengine")},
	{"sqliteengine", []string{"sqliteengine/*.go", "sqliteengine/internal/*/*.go"}, all("./sqliteengine")},
	{"redis-lua", []string{"redisengine/lua/*.lua", "redisengine/lua/include/*.lua"},
		all("./redisengine/lua", "./redisengine")},
	{"redisengine", []string{"redisengine/*.go", "redisengine/lua/*.go", "redisengine/internal/[^l]*/*.go"},
		all("./redisengine/lua", "./redisengine/internal/catalog", "./redisengine/internal/jobs", "./redisengine")},
	{"redis-link", []string{"redisengine/internal/link/*.go"}, all("./redisengine/internal/link", "./redisengine")},
	{"batch", []string{"internal/batch/*.go"}, all("./internal/batch", "./httpengine", "./worker")},
	{"waiters", []string{"internal/waiters/*.go"}, all("./internal/waiters", "./sqliteengine")},
	{"httpengine", []string{"httpengine/*.go"}, append(all("./httpengine", "./server"), overHTTP)},
	{"wire", []string{"internal/wire/*.go"}, append(all("./internal/wire", "./httpengine", "./server"), overHTTP)},
	{"worker", []string{"worker/*.go"}, all("./worker")},
	{"server", []string{
		"server/*.go", "server/admin/*.go", "server/auth/*.go", "server/metrics/*.go", "server/native/*.go",
		"server/poll/*.go", "server/route/*.go", "server/cancelfeed/*.go",
	}, append(all("./server/route", "./server/auth", "./server/cancelfeed", "./server/metrics", "./server/native",
		"./server", "./server/lmstfy"), overHTTP)},
	{"lmstfy", []string{"server/lmstfy/*.go"}, all("./server/lmstfy")},
	{"webhook", []string{"server/webhook/*.go", "server/webhook/outcome/*.go", "server/webhook/sign/*.go",
		"server/webhook/seal/*.go"},
		all("./server/webhook/outcome", "./server/webhook/seal", "./server/webhook/sign", "./server/webhook")},
	{"gate", []string{"internal/aimd/*.go", "server/webhook/gate/*.go"}, all("./internal/aimd", "./server/webhook/gate")},
	{"guard", []string{"server/webhook/guard/*.go"}, all("./server/webhook/guard", "./server/webhook")},
	{"pools", []string{"server/pools/*.go"}, all("./server/pools")},
}

// files returns the target's source files below root, without tests, generated files and files of
// other platforms.
func (t target) files(root string) ([]string, error) {
	var names []string
	for _, pattern := range t.sources {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return nil, fmt.Errorf("pattern %s: %w", pattern, err)
		}

		for _, file := range found {
			name, err := filepath.Rel(root, file)
			if err != nil {
				return nil, err
			}
			if !skipped(filepath.ToSlash(name)) {
				names = append(names, filepath.ToSlash(name))
			}
		}
	}
	// A file may match several patterns.
	slices.Sort(names)

	return slices.Compact(names), nil
}

// skipped reports whether a file contains nothing that a test on this machine runs.
func skipped(name string) bool {
	for _, end := range []string{"_test.go", "doc.go", "_windows.go", "_darwin.go", "_other.go"} {
		if strings.HasSuffix(name, end) {
			return true
		}
	}

	return false
}

// mutants returns every mutant of the target, sorted by file and position.
func (t target) mutants(root string) ([]mutant, error) {
	names, err := t.files(root)
	if err != nil {
		return nil, err
	}

	var all []mutant
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return nil, err
		}
		found, err := mutate(name, string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, found...)
	}

	return all, nil
}

// mutate returns the mutants of one file. The extension selects the language.
func mutate(name, text string) ([]mutant, error) {
	switch filepath.Ext(name) {
	case ".go":
		return mutateGo(name, text)
	case ".lua":
		return mutateText(name, text, lua), nil
	case ".sql":
		return mutateText(name, text, sql), nil
	}

	return nil, fmt.Errorf("no rules for %s files", filepath.Ext(name))
}
