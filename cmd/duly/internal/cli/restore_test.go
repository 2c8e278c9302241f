package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dulymq/duly/open"
)

// restoreRig has a store in a data folder with the job "after", and a backup of it
// with the job "before".
func restoreRig(t *testing.T) (r *rig, store, backup string) {
	t.Helper()
	r = newRig(t)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	store, backup = filepath.Join(dir, "data", storeFile), filepath.Join(dir, "backup.db")
	r.vars = map[string]string{"DULY_URL": open.File(store)}

	for _, args := range [][]string{
		{"push", "q", "x", "--id", "before"},
		{"backup", backup},
		{"job", "delete", "q", "before"},
		{"push", "q", "x", "--id", "after"},
	} {
		if code, _, errs := r.real(args...); code != exitOK {
			t.Fatalf("%v: exit %d, %s", args, code, errs)
		}
	}

	return r, store, backup
}

// names returns the IDs of the jobs of a store.
func (r *rig) names(store string) string {
	r.t.Helper()
	code, out, errs := r.real("job", "list", "q", "--json", "--url", open.File(store))
	if code != exitOK {
		r.t.Fatalf("the list of %s: exit %d, %s", store, code, errs)
	}
	var ids []string
	for line := range strings.Lines(out) {
		var job struct{ ID string }
		if err := json.Unmarshal([]byte(line), &job); err != nil {
			r.t.Fatal(err)
		}
		ids = append(ids, job.ID)
	}
	return strings.Join(ids, " ")
}

// C15.55: restore replaces the store by a backup and prints the name of the old store. It
// finds the store of a server that is not running.
func TestRestoreReplacesTheStore(t *testing.T) {
	t.Parallel()
	r, store, backup := restoreRig(t)
	code, out, errs := r.real("restore", backup)
	kept := store + ".before-restore-20300101-000000"
	want := "restored " + store + " from " + backup + ": 1 job, "
	if code != exitOK || errs != "" || !strings.HasPrefix(out, want) ||
		!strings.HasSuffix(out, "the old store is "+kept+"; remove it when you no longer need it\n") {
		t.Errorf("exit %d, %q, %s", code, out, errs)
	}
	if got := r.names(store) + ", " + r.names(kept); got != "before, after" {
		t.Errorf("the store and the old one have %q", got)
	}

	r.vars = map[string]string{"DULY_DATA": filepath.Dir(store)}
	code, out, errs = r.real("restore", kept, "--discard-old", "--json")
	var view map[string]any
	if err := json.Unmarshal([]byte(out), &view); code != exitOK || err != nil {
		t.Fatalf("exit %d, %v, %q, %s", code, err, out, errs)
	}
	if view["file"] != store || view["from"] != kept || view["jobs"] != 1.0 || view["kept"] != nil {
		t.Errorf("it prints %s", out)
	}
	if got := r.names(store); got != "after" {
		t.Errorf("the store has %q", got)
	}
}

// restore reads a backup from a pipe, and finds the store in the user's state folder.
func TestRestoreFromStandardInput(t *testing.T) {
	t.Parallel()
	r, store, backup := restoreRig(t)
	text, _ := read(t, backup)
	r.stdin = text
	state := filepath.Join(t.TempDir(), "state")
	r.vars = map[string]string{"XDG_STATE_HOME": state}
	if err := os.MkdirAll(state, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Dir(store), filepath.Join(state, "duly")); err != nil {
		t.Fatal(err)
	}
	if code, out, errs := r.real("restore", "-"); code != exitOK || !strings.Contains(out, " from -: 1 job, ") {
		t.Errorf("exit %d, %q, %s", code, out, errs)
	}
	if got := r.names(filepath.Join(state, "duly", storeFile)); got != "before" {
		t.Errorf("the store has %q", got)
	}
}

func TestRestoreShowsStages(t *testing.T) {
	t.Parallel()
	r, _, backup := restoreRig(t)
	r.tty = true
	code, _, errs := r.real("restore", backup)
	if code != exitOK || !strings.Contains(errs, "copy  [") || !strings.Contains(errs, "check  [") {
		t.Errorf("exit %d, %q", code, errs)
	}
}

// C15.35: errors of restore have hints of their own.
func TestErrorsOfRestoreHaveHints(t *testing.T) {
	t.Parallel()
	r, store, backup := restoreRig(t)
	bad := filepath.Join(t.TempDir(), "bad.db")
	if err := os.WriteFile(bad, []byte("my thesis"), 0o600); err != nil {
		t.Fatal(err)
	}
	const help = "; see: duly restore --help\n"

	for _, tt := range []struct {
		vars map[string]string
		args []string
		code int
		want string
	}{
		{nil, nil, exitUsage, "duly: invalid: duly restore needs FILE" + help},
		{map[string]string{}, []string{backup}, exitUsage,
			"duly: invalid: no duly.db in ./duly-data; name the store to restore: --url sqlite:PATH" + help},
		{nil, []string{backup + "x"}, exitFailed,
			"duly: not_found: the backup " + backup + "x can't be read: no such file or directory; check the path\n"},
		{nil, []string{store}, exitUsage,
			"duly: invalid: " + store + " is the store itself; give the file of a backup" + help},
		{nil, []string{bad}, exitFailed,
			"duly: corrupt: " + bad + " is not a file of duly: it is not a SQLite file; it was left as it is, " +
				"give another path\n"},
		{nil, []string{backup, "--url", "http://127.0.0.1:1"}, exitFailed,
			"duly: unsupported: a server can't replace the store that it has open; stop it, " +
				"and name the store by sqlite:PATH; write: duly restore FILE --url sqlite:PATH\n"},
		{nil, []string{backup, "--url", "redis://127.0.0.1:1"}, exitFailed,
			"duly: unsupported: a backup is the file of a store; restore a Redis by the RDB and AOF files of " +
				"its server\n"},
		{nil, []string{backup, "--url", "sqlite:x?colour=blue"}, exitUsage,
			"duly: invalid: --url has the unknown option \"colour\""},
	} {
		was := r.vars
		if tt.vars != nil {
			r.vars = tt.vars
		}
		code, out, errs := r.real(append([]string{"restore"}, tt.args...)...)
		r.vars = was
		if code != tt.code || out != "" || !strings.HasPrefix(errs, tt.want) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%v: exit %d, %q, %q; want %q", tt.args, code, out, errs, tt.want)
		}
	}

	r.tty = true
	code, _, errs := r.real("restore", "-")
	if code != exitUsage || !strings.Contains(errs, "standard input is a terminal") {
		t.Errorf("exit %d, %s", code, errs)
	}
	if got := r.names(store); got != "after" {
		t.Errorf("the store has %q", got)
	}
}
