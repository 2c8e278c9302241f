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
	"github.com/dulymq/duly/contract"
)

// isOperator reports whether another server admits a secret as that of an operator.
func (r *rig) isOperator(secret string) bool {
	_, err := r.another().Check(r.t.Context(), Credentials{Header: "Bearer " + strings.TrimSpace(secret)}, Operator, "any")
	return err == nil
}

func (r *rig) firstToken(folder string) (note string) {
	r.t.Helper()
	note, err := r.FirstToken(r.t.Context(), folder)
	if err != nil {
		r.t.Fatal(err)
	}
	return note
}

// A first start creates a token in a file that only its owner can read. Later starts keep the
// token.
func TestFirstStartCreatesAToken(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	folder := t.TempDir()
	path := filepath.Join(folder, TokenFile)
	works := func() bool {
		b, _ := os.ReadFile(path)
		return r.isOperator(string(b))
	}
	if r.firstToken(folder); !works() {
		t.Fatal("the token in the file does not work")
	}
	if info, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}

	was, _ := os.ReadFile(path)
	if note := r.firstToken(folder); note != "" || !works() {
		t.Errorf("the second start: %q", note)
	}
	if is, _ := os.ReadFile(path); !bytes.Equal(is, was) {
		t.Error("the second start wrote another token")
	}

	os.Remove(path)
	if note := r.firstToken(folder); !strings.Contains(note, "DULY_TOKEN") {
		t.Errorf("without the file: %q", note)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("a token was created although the store has some")
	}

	os.WriteFile(path, []byte(NewSecret()), 0o600)
	if note := r.firstToken(folder); !strings.Contains(note, "does not know") || works() {
		t.Errorf("with an unknown token: %q", note)
	}
}

// If the process dies after it has written the file, the next start stores the file's token.
func TestFirstTokenAfterCrash(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	folder, secret := t.TempDir(), NewSecret()
	if err := os.WriteFile(filepath.Join(folder, TokenFile), []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	if r.firstToken(folder); !r.isOperator(secret) {
		t.Error("the token in the file does not work")
	}
}

// If no token can create others, the note names the command that creates a token.
func TestFirstTokenNoteWithoutFile(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	put := func(namespace string, rights contract.Right) {
		t.Helper()
		token := contract.Token{Hash: hashOf(NewSecret()), Namespace: namespace, Rights: rights}
		if err := r.cfg.Registry.PutToken(t.Context(), token); err != nil {
			t.Fatal(err)
		}
	}

	const command = "duly token create --namespace '*' --rights admin,produce,consume --url"
	put("shop", contract.RightAdmin)
	if note := r.firstToken(t.TempDir()); !strings.Contains(note, command) {
		t.Errorf("without an operator's token: %q", note)
	}
	put(contract.AllNamespaces, contract.RightAdmin)
	if note := r.firstToken(t.TempDir()); !strings.Contains(note, "one of them as DULY_TOKEN") {
		t.Errorf("with one: %q", note)
	}
}

// The next start does not store a revoked token again, although it was in the file and
// the store has no other token.
func TestRevokedFirstTokenStaysRevoked(t *testing.T) {
	t.Parallel()
	ada, _ := NewAccount("ada", "correct horse")
	r := newRig(t, ada)
	folder := t.TempDir()
	path := filepath.Join(folder, TokenFile)
	r.firstToken(folder)
	revoked, _ := os.ReadFile(path)
	if err := r.Revoke(t.Context(), hashOf(strings.TrimSpace(string(revoked)))); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file is still there: %v", err)
	}

	next := r.another(ada)
	if next.firstToken(folder); r.isOperator(string(revoked)) {
		t.Error("the revoked token works again")
	}
	created, _ := os.ReadFile(path)
	if !r.isOperator(string(created)) {
		t.Error("the next start has created no valid token")
	}

	// Revoking another token keeps the file.
	secret := next.create("*", contract.RightAdmin)
	if err := next.Revoke(t.Context(), hashOf(secret)); err != nil {
		t.Fatal(err)
	}
	if is, _ := os.ReadFile(path); !bytes.Equal(is, created) {
		t.Error("revoking another token has changed the file")
	}
}

// Revoke fails while the token file is not readable: a later start could store the token
// again.
func TestRevokeWithUnreadableFile(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("files have no mode")
	}
	ada, _ := NewAccount("ada", "correct horse")
	r := newRig(t, ada)
	folder := t.TempDir()
	path := filepath.Join(folder, TokenFile)
	r.firstToken(folder)
	text, _ := os.ReadFile(path)

	hash := hashOf(strings.TrimSpace(string(text)))
	os.Chmod(path, 0o644)
	err := r.Revoke(t.Context(), hash)
	r.wantCode("while others can read it", err, duly.CodeConflict)
	if err != nil && !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("%v does not say what to do", err)
	}
	if !r.isOperator(string(text)) {
		t.Error("the token was revoked")
	}

	os.Chmod(path, 0o600)
	if err := r.Revoke(t.Context(), hash); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file is still there: %v", err)
	}
}

func TestFirstTokenRefusesInvalidFile(t *testing.T) {
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
		t.Error("a token was stored")
	}
}
