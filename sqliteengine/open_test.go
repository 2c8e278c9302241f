package sqliteengine

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/proctest"
	"github.com/dulymq/duly/sqliteengine/internal/sqliteconn"
)

func TestMain(m *testing.M) {
	proctest.Main(m, proctest.Roles{"restore": runRestore, "fire": runFiring, "limit": runLimiting, "open": func(args []string) error {
		e, err := Open(context.Background(), Config{Path: args[0]})
		fmt.Println(err)
		if err == nil {
			return e.Close()
		}
		return nil
	}})
}

// elsewhere opens the file in another process and returns the error.
func elsewhere(t *testing.T, path string, change func(*exec.Cmd)) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], path)
	cmd.Env = proctest.Environ("open")
	if change != nil {
		change(cmd)
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("the other process: %v, %s", err, out)
	}
	return strings.TrimSpace(string(out))
}

// C11.21, fault D10: a second process gets a clear error.
func TestSecondProcessIsRefused(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "duly.db")
	e := mustOpen(t, path)
	says := elsewhere(t, path, nil)
	for _, want := range []string{"unavailable", path, strconv.Itoa(os.Getpid()), "stop it first"} {
		if !strings.Contains(says, want) {
			t.Errorf("the error in the second process is %q, want %q in it", says, want)
		}
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if says := elsewhere(t, path, nil); says != "<nil>" {
		t.Errorf("after the first engine was closed, the second process gets %q", says)
	}
}

func mustOpen(t *testing.T, path string) *Engine {
	t.Helper()
	e, err := Open(t.Context(), Config{Path: path, Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// C11.21: the lock also works within one process, and for every path that leads to the file.
func TestSecondOpenInOneProcessIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "duly.db")
	mustOpen(t, path)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}

	fileLink := filepath.Join(link, "other.db")
	if err := os.Symlink(path, fileLink); err != nil {
		t.Fatal(err)
	}

	for _, name := range []string{path, filepath.Join(dir, ".", "duly.db"), filepath.Join(link, "duly.db"), fileLink} {
		_, err := Open(t.Context(), Config{Path: name, Logger: quiet()})
		if !errors.Is(err, duly.ErrUnavailable) || !strings.Contains(err.Error(), "this process") {
			t.Errorf("opening %s again answers %v", name, err)
		}
	}
}

func TestFilesAreReadableByOwnerOnly(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a", "b")
	e := mustOpen(t, filepath.Join(dir, "duly.db"))
	if _, err := e.Push(t.Context(), []duly.Job{{Queue: "q"}}); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder is %v, %v", info.Mode(), err)
	}

	files, err := os.ReadDir(dir)
	if err != nil || len(files) < 3 {
		t.Fatalf("the folder has %d files, %v", len(files), err)
	}

	for _, f := range files {
		if info, err := f.Info(); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s is %v, %v", f.Name(), info.Mode(), err)
		}
	}
}

// makeStore creates a store with a few jobs and closes it.
func makeStore(t *testing.T, path string) {
	t.Helper()
	e, err := Open(t.Context(), Config{Path: path, Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	for range 50 {
		if _, err := e.Push(t.Context(), []duly.Job{{Queue: "q", Body: make([]byte, 900)}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
}

// C11.28, C13.15, C13.14: opening a file of another program, a damaged file or a file of a newer
// version returns a clear error and does not change the file.
func TestForeignFilesStayUnchanged(t *testing.T) {
	t.Parallel()
	good := filepath.Join(t.TempDir(), "good.db")
	makeStore(t, good)
	ours, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}

	foreign := filepath.Join(t.TempDir(), "foreign.db")
	c, err := sqliteconn.Open(foreign, sqliteconn.Create)
	if err == nil {
		err = errors.Join(c.Exec("CREATE TABLE users (name TEXT)"), c.Close())
	}
	if err != nil {
		t.Fatal(err)
	}

	foreignBytes, err := os.ReadFile(foreign)
	if err != nil {
		t.Fatal(err)
	}

	changed := func(change func(b []byte) []byte) []byte { return change(bytes.Clone(ours)) }
	for _, test := range []struct {
		name  string
		bytes []byte
		code  duly.Code
		says  string
	}{
		{"text", bytes.Repeat([]byte("dear diary, nothing happened today. "), 4), duly.CodeCorrupt, "not a SQLite file"},
		{"short", []byte("x"), duly.CodeCorrupt, "not a SQLite file"},
		{"foreign", foreignBytes, duly.CodeCorrupt, "another program"},
		{"newer", changed(func(b []byte) []byte {
			binary.BigEndian.PutUint32(b[60:], uint32(current.version()+1))
			return b
		}), duly.CodeUnsupported, "newer version"},
		{"no version", changed(func(b []byte) []byte {
			binary.BigEndian.PutUint32(b[60:], 0)
			return b
		}), duly.CodeCorrupt, "no layout"},
		{"cut", ours[:len(ours)-pageSize], duly.CodeCorrupt, "shorter than its header says"},
		{"first page", changed(func(b []byte) []byte {
			copy(b[100:pageSize], bytes.Repeat([]byte{0xa5}, pageSize))
			return b
		}), duly.CodeCorrupt, "damaged"},
		{"every other page", changed(func(b []byte) []byte {
			for at := pageSize; at < len(b); at += pageSize {
				copy(b[at:at+pageSize], bytes.Repeat([]byte{0xa5}, pageSize))
			}
			return b
		}), duly.CodeCorrupt, "damaged"},
	} {
		path := filepath.Join(t.TempDir(), "duly.db")
		if err := os.WriteFile(path, test.bytes, 0o600); err != nil {
			t.Fatal(err)
		}
		e, err := Open(t.Context(), Config{Path: path, Logger: quiet()})
		if err == nil {
			e.Close()
		}
		if duly.CodeOf(err) != test.code || !strings.Contains(fmt.Sprint(err), test.says) ||
			!strings.Contains(fmt.Sprint(err), path) {
			t.Errorf("%s: answered %v, want %s with %q and the path", test.name, err, test.code, test.says)
		}
		after, err := os.ReadFile(path)
		if err != nil || !bytes.Equal(after, test.bytes) {
			t.Errorf("%s: the file has changed, %v", test.name, err)
		}
	}
}

func TestUnwritablePathsAreReported(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(file, "duly.db"), dir} {
		_, err := Open(t.Context(), Config{Path: path, Logger: quiet()})
		if code := duly.CodeOf(err); code != duly.CodeUnavailable && code != duly.CodeInvalid ||
			!strings.Contains(err.Error(), dir) {
			t.Errorf("%s: answered %v", path, err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "duly.db")); err == nil {
		t.Error("something was made after all")
	}
}

// An empty file, such as one made by mktemp, becomes a new store.
func TestEmptyFileIsANewStore(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "duly.db")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	e := mustOpen(t, path)
	if _, err := e.Push(t.Context(), []duly.Job{{Queue: "q"}}); err != nil {
		t.Error(err)
	}
}

// The files of an interrupted creation do not prevent the next creation.
func TestPartialStoreIsReplaced(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "duly.db")
	for _, end := range []string{"-new", "-new-wal", "-new-journal"} {
		if err := os.WriteFile(path+end, []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	mustOpen(t, path)
	if left, _ := filepath.Glob(path + "-new*"); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
}

// within copies the test binary to a folder where every user may run the copy.
func within(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "store.test")
	if err := os.WriteFile(path, text, 0o755); err != nil {
		t.Fatal(err)
	}
	reach(t, filepath.Dir(path))
	return path
}

// reach allows every user to enter a folder of the test.
func reach(t *testing.T, dir string) {
	t.Helper()
	for ; len(dir) > len(os.TempDir()); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

func TestReadOnlyFolderIsReported(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("a folder can't be made read-only by its mode")
	}

	dir := t.TempDir()
	binary := within(t)
	open := func(t *testing.T, what string) {
		says := elsewhere(t, filepath.Join(dir, "duly.db"), func(cmd *exec.Cmd) {
			cmd.Path = binary
			asNobody(cmd)
		})
		if !strings.HasPrefix(says, "unavailable") || !strings.Contains(says, dir) ||
			!strings.Contains(says, "not writable") || strings.Contains(says, "goroutine") {
			t.Errorf("%s: the error is %q", what, says)
		}
	}

	reach(t, dir)
	if err := os.Chmod(dir, 0o555); err != nil {
		t.Fatal(err)
	}

	open(t, "a new file")
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}

	makeStore(t, filepath.Join(dir, "duly.db"))
	before, err := os.ReadFile(filepath.Join(dir, "duly.db"))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Chmod(filepath.Join(dir, "duly.db"), 0o444), os.Chmod(dir, 0o555)); err != nil {
		t.Fatal(err)
	}

	open(t, "a file that is there")
	after, err := os.ReadFile(filepath.Join(dir, "duly.db"))
	if err != nil || !bytes.Equal(before, after) {
		t.Errorf("the file has changed, %v", err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
}

// A new connection waits while another one has the file locked, for example the first connection,
// which recovers the WAL.
func TestConnectWaitsForLockedFile(t *testing.T) {
	t.Parallel()
	e := openNew(t)
	copied := filepath.Join(t.TempDir(), "copy.db")
	f, err := os.Create(copied)
	if err == nil {
		err = errors.Join(e.Backup(t.Context(), f), f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}

	holder, err := sqliteconn.Open(copied, sqliteconn.ReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close()

	if err := holder.Exec("BEGIN EXCLUSIVE"); err != nil {
		t.Fatal(err)
	}

	done := make(chan error, 1)
	go func() {
		c, err := (&store{cfg: Config{Path: copied}.withDefaults()}).connect(sqliteconn.ReadOnly)
		if err == nil {
			err = c.close()
		}
		done <- err
	}()

	select {
	case err := <-done:
		t.Fatalf("it does not wait: %v", err)
	case <-time.After(100 * time.Millisecond):
	}

	if err := holder.Exec("COMMIT"); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Errorf("once the file is free: %v", err)
	}
}
