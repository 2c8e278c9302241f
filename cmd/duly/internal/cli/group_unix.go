//go:build unix

package cli

import (
	"context"
	"os"
	"os/exec"
	"syscall"
)

// shell returns a command that runs a line in the system's shell.
func shell(ctx context.Context, line string) *exec.Cmd {
	return exec.CommandContext(ctx, "/bin/sh", "-c", line)
}

// newProcessGroup makes the command the leader of a process group. So Ctrl-C at the
// terminal signals only duly, which then drains.
func newProcessGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// killGroup sends TERM to every process of the group of p, or KILL if force is set.
func killGroup(p *os.Process, force bool) error {
	sig := syscall.SIGTERM
	if force {
		sig = syscall.SIGKILL
	}
	// ESRCH means that the group has already ended, which is the caller's aim.
	if err := syscall.Kill(-p.Pid, sig); err != nil && err != syscall.ESRCH {
		return err
	}
	return nil
}
