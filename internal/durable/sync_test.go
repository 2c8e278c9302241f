package durable_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly/internal/durable"
	"github.com/dulymq/duly/internal/proctest"
)

func TestMain(m *testing.M) {
	proctest.Main(m, proctest.Roles{"writer": func(args []string) error { return durable.WriteFile(args[0], "text") }})
}

// C11.29: the file is synced, then renamed, then its folder is synced. Without
// the last sync a power cut may take the new name back.
func TestAFolderIsSyncedAfterTheRename(t *testing.T) {
	t.Parallel()
	proctest.Need(t, "strace")
	path := filepath.Join(t.TempDir(), "token")
	trace := filepath.Join(t.TempDir(), "trace")
	strace := []string{"strace", "-f", "--seccomp-bpf", "-y", "-o", trace, "-e", "trace=fsync,rename,renameat,renameat2"}
	if err := proctest.Start(t, proctest.Options{Before: strace}, "writer", path).Wait(time.Minute); err != nil {
		t.Fatal(err)
	}

	text, err := os.ReadFile(trace)
	if err != nil {
		t.Fatal(err)
	}
	var steps []string
	for line := range strings.Lines(string(text)) {
		switch {
		// strace splits a call into two lines if another thread runs in between.
		case !strings.Contains(line, "= 0") && !strings.Contains(line, "<unfinished"):
		case strings.Contains(line, "rename"):
			steps = append(steps, "rename")
		case strings.Contains(line, "<"+filepath.Dir(path)+">"):
			steps = append(steps, "sync of the folder")
		case strings.Contains(line, "<"+filepath.Dir(path)):
			steps = append(steps, "sync of the file")
		}
	}
	if got, want := strings.Join(steps, ", "), "sync of the file, rename, sync of the folder"; got != want {
		t.Errorf("the steps are %q, want %q, in the trace\n%s", got, want, text)
	}
}
