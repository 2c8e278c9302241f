//go:build !unix

package cli

import (
	"context"
	"os"
	"os/exec"
	"strconv"
)

// shell returns a command that runs a line in the system's shell.
func shell(ctx context.Context, line string) *exec.Cmd {
	return exec.CommandContext(ctx, "cmd.exe", "/C", line)
}

// newProcessGroup does nothing, because killGroup finds the processes by their parents.
func newProcessGroup(*exec.Cmd) {}

// killGroup kills p and its descendants. Windows has no signal that asks a program to end.
func killGroup(p *os.Process, _ bool) error {
	// taskkill also ends the children, which Kill leaves running.
	if exec.Command("taskkill", "/T", "/F", "/PID", strconv.Itoa(p.Pid)).Run() == nil {
		return nil
	}
	return p.Kill()
}
