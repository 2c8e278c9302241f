//go:build unix

package cli

import (
	"context"
	"os"
	"os/exec"
	"syscall"
)

// shell runs a line as the system's shell does.
func shell(ctx context.Context, line string) *exec.Cmd {
	return exec.CommandContext(ctx, "/bin/sh", "-c", line)
}

// ownGroup makes the command the leader of a process group. A Ctrl-C at the
// terminal then reaches duly alone, which decides what becomes of the job.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// endGroup ends every process of the group that p leads: by KILL at once, else
// by TERM.
func endGroup(p *os.Process, atOnce bool) error {
	sig := syscall.SIGTERM
	if atOnce {
		sig = syscall.SIGKILL
	}
	if err := syscall.Kill(-p.Pid, sig); err != nil && err != syscall.ESRCH {
		return err
	}
	return nil
}
