package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// verdict is the result of the tests for a mutant.
type verdict string

const (
	killed   verdict = "killed"
	hung     verdict = "hung"
	survived verdict = "survived"
	invalid  verdict = "invalid"
)

// runner builds and runs the tests of mutants.
type runner struct {
	root    string        // the module's folder
	scratch string        // for overlays and test binaries
	limit   time.Duration // the least time for one package's tests
	usual   map[suite]time.Duration
	folders map[string][]string // by package: the folders of its tests and their dependencies
	killers killers
}

// suite selects tests of a package.
type suite struct {
	pkg string // for example ./worker
	run string // a pattern for go test -run; "" means all tests
}

// outcome is a verdict with the test that found the mutant.
type outcome struct {
	verdict verdict
	by      string
}

// baseline runs the packages without a mutant and stores how long each takes. If a test fails
// without a mutant, every verdict would be worthless.
func (r *runner) baseline(ctx context.Context, suites []suite) error {
	for _, s := range suites {
		if _, known := r.usual[s]; known {
			continue
		}

		begin := time.Now()
		// The usual time is not known yet, so this limit only ends a hang.
		o, err := r.test(ctx, s, "", time.Hour)
		if err != nil {
			return err
		}
		if o.verdict != survived {
			return fmt.Errorf("the tests of %s fail without a mutant: %s %s", s.pkg, o.verdict, o.by)
		}
		r.usual[s] = time.Since(begin)
	}

	return nil
}

// run returns the outcome of the tests for one mutant.
func (r *runner) run(ctx context.Context, t target, m mutant) (outcome, error) {
	source, err := os.ReadFile(filepath.Join(r.root, m.file))
	if err != nil {
		return outcome{}, err
	}
	overlay, err := r.overlay(m, m.apply(string(source)))
	if err != nil {
		return outcome{}, err
	}

	// A test that found a mutant of this file is likely to find another mutant.
	first := r.killers.pattern(m.file)
	for _, s := range t.tests {
		// Tests that do not contain the file can't find the mutant.
		if depends, err := r.depends(ctx, s.pkg, m.file); err != nil {
			return outcome{}, err
		} else if !depends {
			continue
		}

		// A busy machine may need more than the usual time.
		o, err := r.test(ctx, s, overlay, max(r.limit, 3*r.usual[s]), first)
		if err != nil || o.verdict != survived {
			r.killers.add(m.file, o.by)
			return o, err
		}
	}

	return outcome{verdict: survived}, nil
}

// depends reports whether the tests of a package are built with a file. It returns true for every
// file that is not a Go file, because it may be embedded.
func (r *runner) depends(ctx context.Context, pkg, file string) (bool, error) {
	if filepath.Ext(file) != ".go" {
		return true, nil
	}

	// go list is slow, so its answer is kept for all mutants.
	if r.folders[pkg] == nil {
		list := exec.CommandContext(ctx, "go", "list", "-test", "-deps", "-f", "{{.Dir}}", pkg)
		list.Dir = r.root
		out, err := list.Output()
		if err != nil {
			return false, fmt.Errorf("go list %s: %w", pkg, err)
		}
		r.folders[pkg] = strings.Fields(string(out))
	}

	return slices.Contains(r.folders[pkg], filepath.Join(r.root, filepath.Dir(file))), nil
}

// overlay writes the changed file and the overlay that makes the compiler read it.
func (r *runner) overlay(m mutant, text string) (string, error) {
	changed := filepath.Join(r.scratch, "changed"+filepath.Ext(m.file))
	if err := os.WriteFile(changed, []byte(text), 0o600); err != nil {
		return "", err
	}

	// With an overlay the source stays as it is, even if the run is killed.
	list, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(r.root, m.file): changed}})
	if err != nil {
		return "", err
	}
	name := filepath.Join(r.scratch, "overlay.json")

	return name, os.WriteFile(name, list, 0o600)
}

// test builds the tests of one package and runs them until one fails. Tests that match first run
// before the others.
func (r *runner) test(ctx context.Context, s suite, overlay string, limit time.Duration, first ...string) (outcome,
	error) {
	binary := filepath.Join(r.scratch, "tests")
	build := exec.CommandContext(ctx, "go", "test", "-c", "-ldflags=-s -w", "-o", binary)
	if overlay != "" {
		build.Args = append(build.Args, "-overlay", overlay)
	}
	build.Args = append(build.Args, s.pkg)
	build.Dir = r.root
	if text, err := build.CombinedOutput(); err != nil {
		// An interrupted build says nothing about the mutant.
		if ctx.Err() != nil {
			return outcome{}, ctx.Err()
		}
		if overlay == "" {
			return outcome{}, fmt.Errorf("build the tests of %s: %w\n%s", s.pkg, err, text)
		}
		// A change that does not compile can't be tested.
		return outcome{verdict: invalid}, nil
	}

	// The limit is only for the tests, not for the build.
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()

	patterns := append(slices.DeleteFunc(first, func(p string) bool { return p == "" }), s.run)
	for _, pattern := range patterns {
		o, err := r.watch(ctx, binary, filepath.Join(r.root, s.pkg), pattern)
		if err != nil || o.verdict != survived {
			return o, err
		}
	}

	return outcome{verdict: survived}, nil
}

// watch runs a test binary and kills it at the first failed test, because the other tests do not
// matter.
func (r *runner) watch(ctx context.Context, binary, folder, pattern string) (outcome, error) {
	// ctx is the limit. A timeout of the binary itself would look like a failed test.
	tests := exec.CommandContext(ctx, binary, "-test.v", "-test.failfast", "-test.timeout", "0", "-test.run", pattern)
	tests.Dir = folder
	// A child of a killed test may keep the pipe open.
	tests.WaitDelay = 5 * time.Second
	out, err := tests.StdoutPipe()
	if err != nil {
		return outcome{}, err
	}
	// A panic is written to standard error.
	tests.Stderr = tests.Stdout
	if err := tests.Start(); err != nil {
		return outcome{}, err
	}

	by := failure(bufio.NewReader(out))
	if by != "" {
		if err := tests.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return outcome{}, err
		}
	}
	err = tests.Wait()

	switch {
	case by != "":
		return outcome{verdict: killed, by: by}, nil
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return outcome{verdict: hung}, nil
	case ctx.Err() != nil:
		return outcome{}, ctx.Err()
	case err != nil:
		return outcome{verdict: killed, by: "exit: " + err.Error()}, nil
	}

	return outcome{verdict: survived}, nil
}

// failure reads the tests' output up to the first failure and returns its name. It returns "" if
// the output ends without one.
func failure(out *bufio.Reader) string {
	for {
		line, err := out.ReadString('\n')
		text := strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(text, "--- FAIL: "); ok {
			return strings.Fields(name)[0]
		}
		if strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") {
			return strings.TrimSpace(line)
		}
		if err != nil {
			return ""
		}
	}
}
