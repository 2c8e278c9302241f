package cli

import (
	"context"
	"errors"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

// Build names the source of a binary. The build of a release sets it. Otherwise it
// is empty, and version uses what the go command stored in the binary.
type Build struct {
	Version string // v1.2.3
	Commit  string // of the source, 40 digits
	Date    string // of the commit, RFC 3339
}

// versionView is the JSON of `duly version`.
type versionView struct {
	Version  string `json:"version"`          // v1.2.3, or (devel)
	Commit   string `json:"commit,omitempty"` // of the source, with "+dirty" if it has changes
	Date     string `json:"date,omitempty"`   // of the commit
	Go       string `json:"go"`
	Platform string `json:"platform"` // os/arch
}

func versionCommand(a *app) *cobra.Command {
	cmd := a.command("version", "Print the version of this binary",
		`Prints the version, the commit of the source and its date, the Go version and the platform.`,
		`  duly version
  duly version --json`,
		func(_ context.Context, p *printer, _ []string) error { return a.printVersion(p) })
	cmd.Args = noArgs
	return cmd
}

// versionFlag makes `duly --version` print the version like `duly version`.
func (a *app) versionFlag(root *cobra.Command) {
	requested := root.Flags().Bool("version", false, "print the version of this binary")
	help := root.RunE
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if !*requested || len(args) > 0 {
			return help(cmd, args)
		}

		// This function runs outside command, which sets started for the others.
		a.started = true
		p := a.newPrinter()
		return errors.Join(a.printVersion(p), p.flush())
	}
}

func (a *app) printVersion(p *printer) error {
	v := a.version()
	if p.json {
		return p.value(v)
	}

	p.printf("duly %s", v.Version)
	if v.Commit != "" {
		p.printf(" (commit %s", shortCommit(v.Commit))
		if v.Date != "" {
			p.printf(", %s", v.Date)
		}
		p.printf(")")
	}
	p.printf(", %s, %s\n", v.Go, v.Platform)
	return nil
}

// shortCommit shortens a commit to 12 digits, which are unique in any repository. It
// keeps the suffix "+dirty".
func shortCommit(commit string) string {
	digits, suffix, dirty := strings.Cut(commit, "+")
	digits = digits[:min(12, len(digits))]
	if !dirty {
		return digits
	}
	return digits + "+" + suffix
}

// version returns the version of the binary: that of the release's build, or what
// the go command stored in the binary.
func (a *app) version() versionView {
	v := versionView{Version: "(devel)", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if b := a.env.Build; b.Version != "" {
		v.Version, v.Commit, v.Date = b.Version, b.Commit, b.Date
		return v
	}

	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	// `go install MODULE@VERSION` stores the version without a commit. A build in a
	// clone stores a commit too.
	if info.Main.Version != "" {
		v.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			// No order of the settings is promised, so "+dirty" may be there before the revision.
			v.Commit = s.Value + v.Commit
		case s.Key == "vcs.modified" && s.Value == "true":
			v.Commit += "+dirty"
		case s.Key == "vcs.time":
			v.Date = s.Value
		}
	}
	return v
}
