package cli

import (
	"context"
	"crypto/tls"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// backup refuses the name of a store in use, also with --force, because the store would
// lose everything that is written later.
func TestBackupRefusesStoreInUse(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.vars = map[string]string{"DULY_URL": "http://t@host", "DULY_ADMIN_URL": "http://host:1"}
	store := filepath.Join(t.TempDir(), "duly.db")
	names := []string{store, store + "-wal", store + "-shm", store + "-lock", store + "-ballast"}

	for _, name := range names {
		if err := os.WriteFile(name, []byte("the store"), 0o600); err != nil {
			t.Fatal(err)
		}
	}

	for _, name := range names {
		var out, errs strings.Builder
		env := r.env(&out, &errs, "backup", name, "--force")
		env.OpenAdmin = func(context.Context, string, string, *tls.Config) (Admin, error) { return copying{}, nil }
		if code := Run(t.Context(), env); code != exitFailed || !strings.Contains(errs.String(), "choose another name") {
			t.Errorf("backup %s: exit %d, %s", name, code, errs.String())
		}
		if text, _ := read(t, name); text != "the store" {
			t.Errorf("%s holds %q now", name, text)
		}
	}
}
