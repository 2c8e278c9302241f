//go:build !unix

package cli

import (
	"context"
	"os"
	"os/exec"
	"strconv"
)

// shell runs a line as the system's shell does.
func shell(ctx context.Context, line string) *exec.Cmd {
	return exec.CommandContext(ctx, "cmd.exe", "/C", line)
}

// ownGroup does nothing: the tree of processes is found by its parents.
func ownGroup(*exec.Cmd) {}

// endGroup ends p and every process below it. There is no gentle way that
// every program understands.
func endGroup(p *os.Process, _ bool) error {
	if exec.Command("taskkill", "/T", "/F", "/PID", strconv.Itoa(p.Pid)).Run() == nil {
		return nil
	}
	return p.Kill()
}
