package release

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Target is a platform with a binary of its own.
type Target struct{ OS, Arch string }

// Targets are the platforms of a release.
var Targets = []Target{
	{"linux", "amd64"}, {"linux", "arm64"},
	{"darwin", "amd64"}, {"darwin", "arm64"},
	{"windows", "amd64"}, {"windows", "arm64"},
}

// String returns the platform as names of files have it: linux_amd64.
func (t Target) String() string { return t.OS + "_" + t.Arch }

// program returns the name of the binary.
func (t Target) program() string {
	if t.OS == "windows" {
		return "duly.exe"
	}
	return "duly"
}

// env returns the variables that decide what the go command builds. Each variable is set, because
// values of the machine would change the bytes.
func (t Target) env() []string {
	return []string{
		"GOOS=" + t.OS, "GOARCH=" + t.Arch, "GOAMD64=v1", "GOARM64=v8.0",
		"CGO_ENABLED=0", "GOFLAGS=-mod=readonly", "GOWORK=off", "GOEXPERIMENT=",
	}
}

// Stamp has the facts about the source that `duly version` prints.
type Stamp struct {
	Version string
	Commit  string
	Date    string // date of the commit, in RFC 3339
}

// LDFlags returns the flags of the linker that store the stamp in a binary of
// cmd/duly.
func (s Stamp) LDFlags() string {
	return fmt.Sprintf("-X main.version=%s -X main.commit=%s -X main.date=%s", s.Version, s.Commit, s.Date)
}

// compile builds the binary of a platform, static and stripped.
func (b *builder) compile(ctx context.Context, t Target, to string) error {
	// The stamp replaces what the go command would store of the repository: because that depends on
	// tags, which a clone may not have.
	_, err := b.run(ctx, b.Root, t.env(), b.Go, "build", "-trimpath", "-buildvcs=false",
		"-ldflags", "-s -w "+b.stamp.LDFlags(), "-o", to, "./cmd/duly")
	return err
}

// notices returns the licences of Go and of every module that a platform's binary
// links. The licences ask for it.
func (b *builder) notices(ctx context.Context, t Target) ([]byte, error) {
	goroot, err := b.run(ctx, b.Root, nil, b.Go, "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	const form = `{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}	{{.Dir}}{{end}}{{end}}`
	// The linked modules differ between platforms.
	list, err := b.run(ctx, b.Root, t.env(), b.Go, "list", "-deps", "-f", form, "./cmd/duly")
	if err != nil {
		return nil, err
	}
	modules := slices.Compact(slices.Sorted(strings.Lines(list + "\n")))

	var out bytes.Buffer
	out.WriteString("duly links the following modules. Their licences apply to their parts.\n")
	if err := writeLicences(&out, "The Go standard library", goroot); err != nil {
		return nil, err
	}
	for _, line := range modules {
		name, dir, found := strings.Cut(strings.TrimSpace(line), "\t")
		if !found {
			continue // the line is about a package of the standard library
		}
		if err := writeLicences(&out, name, dir); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), nil
}

// writeLicences writes the files in dir whose names begin with LICENSE, COPYING or
// NOTICE.
func writeLicences(out *bytes.Buffer, name, dir string) error {
	files, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	found := false
	for _, f := range files {
		upper := strings.ToUpper(f.Name())
		if f.IsDir() || !slices.ContainsFunc([]string{"LICENSE", "COPYING", "NOTICE"}, func(prefix string) bool {
			return strings.HasPrefix(upper, prefix)
		}) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			return err
		}
		found = true
		fmt.Fprintf(out, "\n%s\n%s: %s\n\n", strings.Repeat("=", 80), name, f.Name())
		writeText(out, text)
	}

	// Without its licence, a module may not be distributed.
	if !found {
		return fmt.Errorf("%s has no licence file in %s", name, dir)
	}
	return nil
}

// writeText writes a string with LF line ends and without spaces at line ends.
func writeText(out *bytes.Buffer, text []byte) {
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		out.Write(bytes.TrimRight(lines.Bytes(), " \t\r\f"))
		out.WriteByte('\n')
	}
}
