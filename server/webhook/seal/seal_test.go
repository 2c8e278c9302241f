package seal

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func ring(t *testing.T, keys ...string) *Ring {
	t.Helper()
	r, err := Parse(strings.Join(keys, "\n"))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

var place = Place{Kind: "secret", Namespace: "shop", Target: "crm", Generation: 7}

// C16.54: a sealed text hides its content, and can be opened only with its own place.
func TestSealedTextOpensInItsPlaceOnly(t *testing.T) {
	t.Parallel()
	r := ring(t, NewKey())
	text := []byte("whsec_canary")
	sealed := r.Seal(text, place)
	if bytes.Contains(sealed, text) {
		t.Error("the sealed text shows its content")
	}
	if got, err := r.Open(sealed, place); err != nil || !bytes.Equal(got, text) {
		t.Errorf("Open returns %q, %v, want %q", got, err, text)
	}
	if bytes.Equal(sealed, r.Seal(text, place)) {
		t.Error("one text seals to the same bytes twice")
	}

	others := map[string]Place{
		"kind":       {"headers", "shop", "crm", 7},
		"namespace":  {"secret", "shop2", "crm", 7},
		"target":     {"secret", "shop", "erp", 7},
		"no target":  {"secret", "shop", "", 7},
		"generation": {"secret", "shop", "crm", 8},
		"joined":     {"secret", "shopcrm", "", 7},
	}
	for name, other := range others {
		if got, err := r.Open(sealed, other); !errors.Is(err, ErrDamaged) {
			t.Errorf("another %s: Open returns %q, %v, want ErrDamaged", name, got, err)
		}
	}
}

// C16.54: a change of any byte is noticed.
func TestChangedTextDoesNotOpen(t *testing.T) {
	t.Parallel()
	r := ring(t, NewKey())
	sealed := r.Seal([]byte("text"), place)
	for i := range sealed {
		changed := bytes.Clone(sealed)
		changed[i] ^= 1
		if _, err := r.Open(changed, place); err == nil {
			t.Errorf("Open accepts a text with byte %d changed", i)
		}
		if _, err := r.Open(sealed[:i], place); err == nil {
			t.Errorf("Open accepts the first %d bytes", i)
		}
	}
}

// C16.55: the first key seals, every key opens.
func TestFirstKeySealsAndEveryKeyOpens(t *testing.T) {
	t.Parallel()
	first, second := NewKey(), NewKey()
	before, during, after := ring(t, first), ring(t, second, "# the key of last year", "", first), ring(t, second)

	sealed := before.Seal([]byte("text"), place)
	if _, err := during.Open(sealed, place); err != nil {
		t.Errorf("the second key does not open: %v", err)
	}
	if during.Current(sealed) || !before.Current(sealed) {
		t.Error("Current does not say which key sealed")
	}
	if _, err := after.Open(sealed, place); !errors.Is(err, ErrUnknownKey) {
		t.Errorf("without its key, Open returns %v, want ErrUnknownKey", err)
	}

	again := during.Seal([]byte("text"), place)
	if _, err := after.Open(again, place); err != nil {
		t.Errorf("the new first key does not seal: %v", err)
	}
	if !during.Current(again) {
		t.Error("Current is false for a text that the first key sealed")
	}
}

func TestParseRefusesInvalidKeys(t *testing.T) {
	t.Parallel()
	long := NewKey() + "AAAA"
	for _, text := range []string{"", "\n# nothing\n", "dulykey_", "dulykey_canary", strings.TrimPrefix(NewKey(), Prefix),
		long, NewKey() + "\ncanary"} {
		r, err := Parse(text)
		if err == nil {
			t.Errorf("%q gives %d keys", text, len(r.keys))
			continue
		}
		if strings.Contains(err.Error(), "canary") || strings.Contains(err.Error(), long) {
			t.Errorf("the error repeats a key: %v", err)
		}
	}
}

// C16.56: the first start creates the file, with mode 0600. Later starts read it.
func TestFirstStartCreatesTheKeyFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "push.key")
	r, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	sealed := r.Seal([]byte("text"), place)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("the mode is %v, want 0600", info.Mode())
	}

	again, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := again.Open(sealed, place); err != nil {
		t.Errorf("after a restart: %v", err)
	}
}

// C16.56: Create never replaces an existing file, whatever its content is.
func TestCreateReplacesNoFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "push.key")
	if err := os.WriteFile(path, []byte("not a key\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Create(path); err == nil || strings.Contains(err.Error(), "not a key\n") {
		t.Errorf("Create returns %v, want an error that names the line", err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "not a key\n" {
		t.Errorf("the file holds %q, %v", text, err)
	}
}

func TestLoadRefusesAFileThatOthersCanRead(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("files have no mode here")
	}
	path := filepath.Join(t.TempDir(), "push.key")
	if err := os.WriteFile(path, []byte(NewKey()), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path); err == nil {
		t.Error("Load accepts a file with mode 0644")
	}
	if _, err := Load(filepath.Join(t.TempDir(), "missing")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}

// C16.54: no bytes make Open panic. Open refuses all bytes that the ring did not seal.
func FuzzOpen(f *testing.F) {
	r, err := Parse(NewKey())
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte{})
	f.Add(append([]byte{version}, r.keys[0].number[:]...))
	f.Add(r.Seal([]byte("text"), Place{}))
	f.Fuzz(func(t *testing.T, sealed []byte) {
		if text, err := r.Open(sealed, place); err == nil {
			t.Errorf("%x opens as %q", sealed, text)
		}
	})
}
