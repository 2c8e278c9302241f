// Command release builds the files of a release; docs/release.md has the steps.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/dulymq/duly/internal/release"
)

func main() {
	version := flag.String("version", "", "the version, such as v1.2.3")
	out := flag.String("out", "dist", "the folder for the files")
	goCommand := flag.String("go", "go", "the go command")
	flag.Parse()

	if err := run(*version, *out, *goCommand); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// run builds from the clone in the working folder.
func run(version, out, goCommand string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	root, err := os.Getwd()
	if err != nil {
		return err
	}
	if out, err = filepath.Abs(out); err != nil {
		return err
	}
	return release.Run(ctx, release.Config{
		Root: root, Out: out, Version: version, Go: goCommand, Log: os.Stdout,
	})
}
