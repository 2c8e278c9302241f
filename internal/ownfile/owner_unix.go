//go:build unix

package ownfile

import (
	"io/fs"
	"syscall"
)

// modes reports whether files have an owner and a mode on this system.
const modes = true

// dontWait makes Open return at once for a named pipe without a writer.
const dontWait = syscall.O_NONBLOCK

// trusted reports whether the owner of a file is this user or root.
func trusted(info fs.FileInfo, me int) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && (st.Uid == 0 || int(st.Uid) == me)
}

// writable reports whether other users can write. A group counts as other users, except root's
// group and the user's own group. By convention the user's own group has the user's number.
func writable(info fs.FileInfo, me int) bool {
	if info.Mode().Perm()&0o002 != 0 {
		return true
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	own := ok && (st.Gid == 0 || int(st.Gid) == me)
	return info.Mode().Perm()&0o020 != 0 && !own
}
