package cli

import (
	"context"
	"errors"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// versionView is the JSON of `duly version`.
type versionView struct {
	Version  string `json:"version"`            // v1.2.3, or (devel)
	Revision string `json:"revision,omitempty"` // of the source, with "+dirty" if it has changes
	Go       string `json:"go"`
	Platform string `json:"platform"` // os/arch
}

func versionCommand(a *app) *cobra.Command {
	cmd := a.command("version", "Print the version of this binary",
		`Prints the version, the revision of the source, the Go version and the platform.`,
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
	if v.Revision != "" {
		p.printf(" (%s)", v.Revision)
	}
	p.printf(", %s, %s\n", v.Go, v.Platform)
	return nil
}

// version returns the version that the go command stored in the binary.
func (a *app) version() versionView {
	v := versionView{Version: "(devel)", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if ok && info.Main.Version != "" {
		v.Version = info.Main.Version
	}
	if a.env.Version != "" {
		v.Version = a.env.Version
		return v
	}
	if !ok {
		return v
	}

	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			v.Revision = s.Value[:min(12, len(s.Value))] + v.Revision
		case s.Key == "vcs.modified" && s.Value == "true":
			v.Revision += "+dirty"
		}
	}
	return v
}
