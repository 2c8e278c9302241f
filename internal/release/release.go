// Package release builds the files of a release: archives of the binary for each
// platform, container images, Debian packages, SBOMs and checksums.
//
// Two runs on the same commit with the same Go version write the same bytes. Every
// time in a file is the time of the commit, and no file holds a path, a user or the
// environment of the machine.
package release

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Config says what to build and from which folder.
type Config struct {
	Root    string // root folder of the clone
	Out     string // folder for the files; it must not exist, or be empty
	Version string // version, like v1.2.3 or v1.2.3-rc.1
	Go      string // path of the go command; default go
	Log     io.Writer
}

// tagForm is the form of a release's version.
var tagForm = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.]+)?$`)

// Run builds every file of the release into c.Out.
func Run(ctx context.Context, c Config) error {
	c.Go = cmp.Or(c.Go, "go")
	b, err := newBuilder(ctx, c)
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "duly-release-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	b.work = work

	if err := b.prepare(ctx); err != nil {
		return err
	}
	for _, t := range Targets {
		if err := b.target(ctx, t); err != nil {
			return fmt.Errorf("%s: %w", t, err)
		}
	}
	// The checksums cover every file in the folder, so they are written last.
	return writeSums(c.Out)
}

// builder builds one release.
type builder struct {
	Config
	stamp Stamp
	date  time.Time // date of the commit, which is the time of every file
	work  string    // path of a temporary folder

	shared []entry // files that every archive contains
	roots  []byte  // root certificates for the image
}

// newBuilder validates the configuration and reads the commit.
func newBuilder(ctx context.Context, c Config) (*builder, error) {
	if !tagForm.MatchString(c.Version) {
		return nil, fmt.Errorf("version %q does not have the form v1.2.3 or v1.2.3-rc.1", c.Version)
	}
	log, err := os.ReadFile(filepath.Join(c.Root, "CHANGELOG.md"))
	if err != nil {
		return nil, err
	}
	// The archives contain the changelog, so a missing section can't be added later.
	if heading := "\n## [" + c.Version[1:] + "]"; !strings.Contains(string(log), heading) {
		return nil, fmt.Errorf("CHANGELOG.md has no section %q: add it before the release", heading[1:])
	}
	if err := makeEmpty(c.Out); err != nil {
		return nil, err
	}

	b := &builder{Config: c}
	return b, b.readCommit(ctx)
}

// makeEmpty creates a folder, or fails if it holds a file, which the checksums would
// take for a part of the release.
func makeEmpty(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	files, err := os.ReadDir(dir)
	if err == nil && len(files) > 0 {
		return fmt.Errorf("%s is not empty: remove it first", dir)
	}
	return err
}

// readCommit reads the commit and its time. SOURCE_DATE_EPOCH replaces the time.
func (b *builder) readCommit(ctx context.Context) error {
	changes, err := b.run(ctx, b.Root, nil, "git", "status", "--porcelain")
	if err != nil {
		return err
	}
	// The stamp names a commit, so the files must be exactly those of the commit.
	if changes != "" {
		return errors.New("the clone has changes that are not committed: commit or stash them first")
	}
	commit, err := b.run(ctx, b.Root, nil, "git", "rev-parse", "HEAD")
	if err != nil {
		return err
	}
	seconds := os.Getenv("SOURCE_DATE_EPOCH")
	if seconds == "" {
		if seconds, err = b.run(ctx, b.Root, nil, "git", "show", "-s", "--format=%ct", "HEAD"); err != nil {
			return err
		}
	}
	n, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH is %q, must be a number of seconds", seconds)
	}

	// UTC keeps the machine's time zone out of the files.
	b.date = time.Unix(n, 0).UTC()
	b.stamp = Stamp{Version: b.Version, Commit: commit, Date: b.date.Format(time.RFC3339)}
	return nil
}

// prepare builds the tools, and the files that are the same for every platform.
func (b *builder) prepare(ctx context.Context) error {
	b.logf("build the tools")
	tools := filepath.Join(b.work, "tools") + string(filepath.Separator)
	folder := filepath.Join(b.Root, "packaging", "tools")
	if _, err := b.run(ctx, folder, nil, b.Go, "build", "-trimpath", "-buildvcs=false", "-o", tools, "tool"); err != nil {
		return err
	}
	roots, err := b.run(ctx, b.work, nil, tools+"cacerts")
	if err != nil {
		return err
	}
	// run cuts the last line end, which a PEM file needs.
	b.roots = []byte(roots + "\n")

	for _, name := range []string{"CHANGELOG.md", "LICENSE", "README.md"} {
		text, err := os.ReadFile(filepath.Join(b.Root, name))
		if err != nil {
			return err
		}
		b.shared = append(b.shared, entry{name: name, mode: 0o644, body: text})
	}
	for _, shell := range shells {
		script, err := b.run(ctx, b.Root, nil, b.Go, "run", "./cmd/duly", "completion", shell)
		if err != nil {
			return err
		}
		b.shared = append(b.shared, entry{name: "completions/duly." + shell, mode: 0o644, body: []byte(script + "\n")})
	}
	return nil
}

// shells have a completion script in each archive.
var shells = []string{"bash", "fish", "powershell", "zsh"}

// target builds the files of one platform.
func (b *builder) target(ctx context.Context, t Target) error {
	b.logf("build %s", t)
	binary := filepath.Join(b.work, t.String(), t.program())
	if err := b.compile(ctx, t, binary); err != nil {
		return err
	}
	body, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	notices, err := b.notices(ctx, t)
	if err != nil {
		return err
	}
	files := append([]entry{
		{name: t.program(), mode: 0o755, body: body},
		{name: "NOTICES.txt", mode: 0o644, body: notices},
	}, b.shared...)

	if err := b.sbom(ctx, t, binary); err != nil {
		return err
	}
	// The unit, the image and the package are for Linux only.
	if t.OS != "linux" {
		return b.archive(t, files)
	}
	unit, err := os.ReadFile(filepath.Join(b.Root, "packaging", "systemd", "duly.service"))
	if err != nil {
		return err
	}
	files = append(files, entry{name: "duly.service", mode: 0o644, body: unit})
	return errors.Join(b.archive(t, files), b.image(t, body), b.deb(ctx, t, files))
}

// path returns the path of a file of the release.
func (b *builder) path(format string, args ...any) string {
	return filepath.Join(b.Out, "duly_"+b.Version[1:]+"_"+fmt.Sprintf(format, args...))
}

// run runs a program in a folder and returns its output without the last line end. The error
// contains the text that the program wrote to its standard error.
func (b *builder) run(ctx context.Context, dir string, env []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	// The last value of a variable counts, so env overrides the machine's.
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	var errs strings.Builder
	cmd.Stderr = &errs

	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", filepath.Base(name), err, strings.TrimSpace(errs.String()))
	}
	return strings.TrimRight(string(out), "\n"), nil
}

func (b *builder) logf(format string, args ...any) {
	if b.Log != nil {
		fmt.Fprintf(b.Log, format+"\n", args...)
	}
}
