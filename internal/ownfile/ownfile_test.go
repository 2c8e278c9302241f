//go:build unix

package ownfile

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// described is the stat of a file with a given owner, group and mode.
type described struct {
	fs.FileInfo
	uid, gid uint32
	mode     fs.FileMode
}

func (d described) Mode() fs.FileMode  { return d.mode }
func (d described) ModTime() time.Time { return time.Time{} }
func (d described) Sys() any           { return &syscall.Stat_t{Uid: d.uid, Gid: d.gid} }

func TestFilesOfOthersAreRefused(t *testing.T) {
	t.Parallel()
	const me = 1000
	for _, tt := range []struct {
		uid  uint32
		mode fs.FileMode
		want string
	}{
		// Root may own the file, because root can read everything anyway.
		{me, 0o600, ""}, {me, 0o400, ""}, {0, 0o600, ""},
		{1001, 0o600, "belongs to another user"}, {1001, 0o644, "belongs to another user"},
		{me, 0o640, "read by others"}, {me, 0o604, "read by others"}, {me, 0o602, "read by others"}, {0, 0o644, "read by others"},
	} {
		err := checkFile("f", described{uid: tt.uid, mode: tt.mode}, me)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("a file of %d with mode %o: %v, want %q", tt.uid, tt.mode, err, tt.want)
		}
	}
}

func TestFoldersThatOthersWriteToAreRefused(t *testing.T) {
	t.Parallel()
	const me = 1000
	for _, tt := range []struct {
		uid, gid uint32
		mode     fs.FileMode
		want     string
	}{
		{me, me, 0o700, ""}, {me, 50, 0o755, ""}, {0, 0, 0o755, ""},
		// The group may be the user's own group, or root's.
		{me, me, 0o775, ""}, {0, me, 0o775, ""}, {me, 0, 0o770, ""},
		{1001, me, 0o700, "belongs to another user"},
		{me, 50, 0o775, "written to by others"}, {me, me, 0o702, "written to by others"}, {0, 0, 0o777 | fs.ModeSticky, "written to by others"},
	} {
		err := checkFolder("d", described{uid: tt.uid, gid: tt.gid, mode: tt.mode | fs.ModeDir}, me)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("a folder of %d:%d with mode %o: %v, want %q", tt.uid, tt.gid, tt.mode, err, tt.want)
		}
	}
}

// Open and CheckFolder check real files against this user.
func TestRealFilesAndFolders(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "secret")
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if f, err := Open(path); err != nil {
		t.Error(err)
	} else {
		f.Close()
	}
	os.Chmod(dir, 0o755)
	if err := CheckFolder(dir); err != nil {
		t.Error(err)
	}
	os.Chmod(path, 0o644)
	os.Chmod(dir, 0o777)
	if _, err := Open(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a file that others read: %v", err)
	}
	if err := CheckFolder(dir); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("a folder that others write to: %v", err)
	}

	if os.Geteuid() != 0 {
		return // skipped, because only root can give a file to another user
	}
	os.Chmod(path, 0o600)
	os.Chmod(dir, 0o700)
	if err := os.Chown(path, 4242, -1); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path); err == nil || !strings.Contains(err.Error(), "another user") {
		t.Errorf("a file of another user: %v", err)
	}
	if err := os.Chown(dir, 4242, -1); err != nil {
		t.Fatal(err)
	}
	if err := CheckFolder(dir); err == nil || !strings.Contains(err.Error(), "another user") {
		t.Errorf("a folder of another user: %v", err)
	}
}

func TestAPipeWithoutAWriterReadsAsEmpty(t *testing.T) {
	t.Parallel()
	pipe := filepath.Join(t.TempDir(), "accounts")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skip("the file system has no named pipes:", err)
	}
	f, err := Open(pipe)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if text, err := io.ReadAll(f); err != nil || len(text) > 0 {
		t.Errorf("read %q, %v", text, err)
	}
}

// CheckFile accepts a pipe, because a shell passes the output of a command as a pipe: duly serve
// --admin-accounts <(…).
func TestAPipeIsReadToItsEnd(t *testing.T) {
	t.Parallel()
	pipe := filepath.Join(t.TempDir(), "accounts")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skip("the file system has no named pipes:", err)
	}
	write, err := os.OpenFile(pipe, os.O_RDWR, 0) // opens even without a reader
	if err != nil {
		t.Fatal(err)
	}
	f, err := Open(pipe)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	go func() {
		io.WriteString(write, "ops:hash\n")
		write.Close()
	}()
	if text, err := io.ReadAll(f); err != nil || string(text) != "ops:hash\n" {
		t.Errorf("read %q, %v", text, err)
	}
}
