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
	"github.com/dulymq/duly/internal/durable"
	"github.com/dulymq/duly/internal/ownfile"
)

// The files that a server leaves in its data folder for the command line of
// the same user.
const (
	TokenFile    = "token"
	URLFile      = "url"
	AdminURLFile = "admin-url"
)

// FirstToken sees to it that a local server has a token that its own user can
// read: an admin token for all namespaces in the folder's token file. Where
// neither the registry nor the folder has one, it makes one; else it uses what
// is there. note is a line for the log where the user has to do something.
func (g *Guard) FirstToken(ctx context.Context, folder string) (note string, err error) {
	path := filepath.Join(folder, TokenFile)
	g.mu.Lock()
	g.file = path
	g.mu.Unlock()
	known, err := g.Any(ctx)
	if err != nil {
		return "", err
	}
	secret, err := readSecret(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && known:
		return g.noteNoFile(ctx, path)
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
		return "", fmt.Errorf("%s does not hold a token; put one there, or delete the file", path)
	}
	if known {
		_, err := g.cfg.Registry.FindToken(ctx, hash)
		if errors.Is(err, duly.ErrNotFound) {
			return fmt.Sprintf("the token in %s is not known to this store: give the command line another one as DULY_TOKEN, or write it into that file", path), nil
		}
		return "", err
	}
	t := duly.Token{Hash: hash, Namespace: duly.AllNamespaces, Rights: duly.RightAdmin,
		Description: "made at the first start", CreatedAt: g.cfg.Clock.Now()}
	return "", g.cfg.Registry.PutToken(ctx, t)
}

// noteNoFile says what helps where there are tokens, and none in the file. If
// none of them may make others, one has to be made in the store itself.
func (g *Guard) noteNoFile(ctx context.Context, path string) (string, error) {
	able, err := g.AnyOperatorToken(ctx)
	if err != nil {
		return "", err
	}
	if able {
		return fmt.Sprintf("there are tokens, but no file %s: give the command line one of them as DULY_TOKEN, or write it into that file", path), nil
	}
	return fmt.Sprintf("there are tokens, but none that may administer, and no file %s: make one with duly token create --namespace '*' --rights admin,produce,consume "+
		"--url and the engine's URL (that of a file while no server has it), and write it into that file", path), nil
}

// removeFile removes the token file if it holds the secret of that token: a
// start that found no token in the store would else take it for one that was
// left behind.
func (g *Guard) removeFile(hash [32]byte) error {
	g.mu.RLock()
	path := g.file
	g.mu.RUnlock()
	if path == "" {
		return nil
	}
	secret, err := readSecret(path)
	switch held, ok := Hash(secret); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil: // once it can be read, a start may take what is in it
		return duly.Errorf(duly.CodeConflict, "the file that may hold this token can't be read: %v; then revoke the token again", err)
	case !ok || held != hash:
		return nil // it has nothing that a start would take, or another token
	}
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// readSecret reads a file with one secret, see [ownfile.Check].
func readSecret(path string) (string, error) {
	f, err := ownfile.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()

	b, err := io.ReadAll(io.LimitReader(f, 1<<10))
	return strings.TrimSpace(string(b)), err
}
