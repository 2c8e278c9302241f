package auth

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/dulymq/duly"
)

// opens tells whether a secret is an operator's, on a server of its own.
func (r *rig) opens(secret string) bool {
	_, err := r.another().Check(r.t.Context(), Claim{Header: "Bearer " + strings.TrimSpace(secret)}, Operator, "any")
	return err == nil
}

func (r *rig) first(folder string) (note string) {
	r.t.Helper()
	note, err := r.FirstToken(r.t.Context(), folder)
	if err != nil {
		r.t.Fatal(err)
	}
	return note
}

func TestTheFirstTokenIsMadeOnceAndReadByItsOwnerAlone(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	folder := t.TempDir()
	path := filepath.Join(folder, TokenFile)
	works := func() bool {
		b, _ := os.ReadFile(path)
		return r.opens(string(b))
	}
	if r.first(folder); !works() {
		t.Fatal("the token in the file does not work")
	}
	if info, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	was, _ := os.ReadFile(path)
	if note := r.first(folder); note != "" || !works() {
		t.Errorf("the second start: %q", note)
	}
	if is, _ := os.ReadFile(path); !bytes.Equal(is, was) {
		t.Error("the second start wrote another token")
	}
	os.Remove(path)
	if note := r.first(folder); !strings.Contains(note, "DULY_TOKEN") {
		t.Errorf("without the file: %q", note)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("a token was made although there are some")
	}
	os.WriteFile(path, []byte(NewSecret()), 0o600)
	if note := r.first(folder); !strings.Contains(note, "not known") || works() {
		t.Errorf("with a token that is not known: %q", note)
	}
}

// What if the process dies between the file and the store?
func TestAFirstTokenThatWasLeftBehindIsTaken(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	folder, secret := t.TempDir(), NewSecret()
	if err := os.WriteFile(filepath.Join(folder, TokenFile), []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	if r.first(folder); !r.opens(secret) {
		t.Error("it does not work")
	}
}

// Where no token may make others, the note names the command that makes one.
func TestTheNoteWithoutAFileNamesWhatHelps(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	put := func(namespace string, rights duly.Right) {
		t.Helper()
		token := duly.Token{Hash: hashOf(NewSecret()), Namespace: namespace, Rights: rights}
		if err := r.cfg.Registry.PutToken(t.Context(), token); err != nil {
			t.Fatal(err)
		}
	}
	const command = "duly token create --namespace '*' --rights admin,produce,consume --url"
	put("shop", duly.RightAdmin)
	if note := r.first(t.TempDir()); !strings.Contains(note, command) {
		t.Errorf("without an operator's token: %q", note)
	}
	put(duly.AllNamespaces, duly.RightAdmin)
	if note := r.first(t.TempDir()); !strings.Contains(note, "one of them as DULY_TOKEN") {
		t.Errorf("with one: %q", note)
	}
}

// A token that was revoked does not come back with the next start, although it
// lay in the file and the store has no other.
func TestARevokedFirstTokenDoesNotComeBack(t *testing.T) {
	t.Parallel()
	ada, _ := NewAccount("ada", "correct horse")
	r := newRig(t, ada)
	folder := t.TempDir()
	path := filepath.Join(folder, TokenFile)
	r.first(folder)
	revoked, _ := os.ReadFile(path)
	if err := r.Revoke(t.Context(), hashOf(strings.TrimSpace(string(revoked)))); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file is still there: %v", err)
	}
	next := r.another(ada)
	if next.first(folder); r.opens(string(revoked)) {
		t.Error("the revoked token works again")
	}
	made, _ := os.ReadFile(path)
	if !r.opens(string(made)) {
		t.Error("the next start has left no token that works")
	}
	// Another token's revocation leaves the file alone.
	secret := next.make("*", duly.RightAdmin)
	if err := next.Revoke(t.Context(), hashOf(secret)); err != nil {
		t.Fatal(err)
	}
	if is, _ := os.ReadFile(path); !bytes.Equal(is, made) {
		t.Error("the file went with another token")
	}
}

// A token is not revoked as long as it can't be seen whether the file has it: a
// start would store it again once the file can be read.
func TestATokenWhoseFileCanNotBeReadIsNotRevoked(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("files have no mode")
	}
	ada, _ := NewAccount("ada", "correct horse")
	r := newRig(t, ada)
	folder := t.TempDir()
	path := filepath.Join(folder, TokenFile)
	r.first(folder)
	text, _ := os.ReadFile(path)
	hash := hashOf(strings.TrimSpace(string(text)))
	os.Chmod(path, 0o644)
	err := r.Revoke(t.Context(), hash)
	r.wants("while others can read it", err, duly.CodeConflict)
	if err != nil && !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("%v does not say what to do", err)
	}
	if !r.opens(string(text)) {
		t.Error("it was revoked")
	}
	os.Chmod(path, 0o600)
	if err := r.Revoke(t.Context(), hash); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file is still there: %v", err)
	}
}

func TestATokenFileThatIsNoSecretIsRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for what, mode := range map[string]os.FileMode{"nonsense": 0o600, NewSecret(): 0o644} {
		if runtime.GOOS == "windows" && mode != 0o600 {
			continue
		}
		folder := t.TempDir()
		os.WriteFile(filepath.Join(folder, TokenFile), []byte(what), mode)
		if _, err := r.FirstToken(t.Context(), folder); err == nil {
			t.Errorf("mode %o was taken", mode)
		}
	}
	if known, _ := r.Any(t.Context()); known {
		t.Error("it went into the registry")
	}
}
