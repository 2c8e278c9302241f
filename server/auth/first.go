package auth

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/durable"
	"github.com/dulymq/duly/internal/ownfile"
)

// Files that a server writes to its data folder, for the command line of the same user.
const (
	TokenFile    = "token"
	URLFile      = "url"
	AdminURLFile = "admin-url"
)

// FirstToken gives a local server a token that its own user can read: an admin token for all
// namespaces, in the token file of the folder. If neither the registry nor the folder has a token,
// it creates one. Otherwise it keeps the existing ones. note is a line for the log that says what
// the user must do, or "".
func (g *Guard) FirstToken(ctx context.Context, folder string) (note string, err error) {
	path := filepath.Join(folder, TokenFile)
	g.mu.Lock()
	g.file = path
	g.mu.Unlock()
	any, err := g.Any(ctx)
	if err != nil {
		return "", err
	}

	// The file is written before the token is stored. After a crash between the two, the next start
	// stores the token.
	secret, err := readSecret(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && any:
		return g.noteMissingFile(ctx, path)
	case errors.Is(err, fs.ErrNotExist):
		secret = NewSecret()
		if err := durable.WriteFile(path, secret+"\n"); err != nil {
			return "", err
		}
	case err != nil:
		return "", err
	}
	hash, ok := Hash(secret)
	if !ok {
		return "", fmt.Errorf("%s does not contain a token; write a token into the file, or delete it", path)
	}

	if any {
		_, err := g.cfg.Registry.FindToken(ctx, hash)
		if errors.Is(err, duly.ErrNotFound) {
			return fmt.Sprintf("this store does not know the token in %s: set another one as DULY_TOKEN for the command line, "+
				"or write it into that file", path), nil
		}
		return "", err
	}
	t := contract.Token{Hash: hash, Namespace: contract.AllNamespaces, Rights: contract.RightAdmin,
		Description: "made at the first start", CreatedAt: g.cfg.Clock.Now()}
	return "", g.cfg.Registry.PutToken(ctx, t)
}

// noteMissingFile returns a note for a registry with tokens and a folder without a token file. If
// no token can create others, the user must create one in the store itself.
func (g *Guard) noteMissingFile(ctx context.Context, path string) (string, error) {
	operator, err := g.AnyOperatorToken(ctx)
	if err != nil {
		return "", err
	}
	if operator {
		return fmt.Sprintf("this store has tokens, but %s is missing: set one of them as DULY_TOKEN for the command line, "+
			"or write it into that file", path), nil
	}
	return fmt.Sprintf("this store has tokens, but no admin token for all namespaces, and %s is missing: "+
		"create one with duly token create --namespace '*' --rights admin,produce,consume --url and the engine's URL "+
		"(for a SQLite file while no server uses it), and write it into that file", path), nil
}

// removeFile deletes the token file if it contains the token with that hash. Otherwise a later
// start that finds no token in the store would store the revoked token again.
func (g *Guard) removeFile(hash [32]byte) error {
	g.mu.RLock()
	path := g.file
	g.mu.RUnlock()
	if path == "" {
		return nil
	}

	secret, err := readSecret(path)
	// The user may have replaced the token in the file.
	switch held, ok := Hash(secret); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil: // a later start may be able to read the file and store the token
		return contract.Errorf(duly.CodeConflict,
			"the file that may contain this token can't be read: %v; fix that, then revoke the token again", err)
	case !ok || held != hash:
		return nil
	}
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// readSecret reads a file with one secret. The file must satisfy [ownfile.Check].
func readSecret(path string) (string, error) {
	f, err := ownfile.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()

	b, err := io.ReadAll(io.LimitReader(f, 1<<10))
	return strings.TrimSpace(string(b)), err
}
