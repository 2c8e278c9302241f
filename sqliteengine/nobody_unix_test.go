//go:build unix

package sqliteengine

import (
	"os"
	"os/exec"
	"syscall"
)

// asNobody runs a command without root's permission to write everywhere.
func asNobody(cmd *exec.Cmd) {
	if os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
}
