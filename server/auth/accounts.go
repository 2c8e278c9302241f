package auth

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/dulymq/duly"
)

// ReadAccounts reads a file with a line NAME:PASSWORD for each account; empty
// lines and those that begin with # are left out. The file must be readable by
// its owner alone. It answers [duly.ErrInvalid] for a line that is no account.
func ReadAccounts(path string) (accounts []Account, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := ownersAlone(f); err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimRight(lines.Text(), "\r")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, password, ok := strings.Cut(line, ":")
		if !ok {
			return nil, duly.Errorf(duly.CodeInvalid, "%s: line %d is not of the form NAME:PASSWORD", path, n)
		}
		a, err := NewAccount(name, password)
		if err != nil {
			return nil, duly.Errorf(duly.CodeInvalid, "%s: line %d: %s", path, n, strings.TrimPrefix(err.Error(), string(duly.CodeInvalid)+": "))
		}
		accounts = append(accounts, a)
	}
	if lines.Err() == nil && len(accounts) == 0 {
		return nil, duly.Errorf(duly.CodeInvalid, "%s has no account in it", path)
	}
	return accounts, lines.Err()
}

// credentials is the variable with the folder in which a service manager hands
// its service what is for that alone.
const credentials = "CREDENTIALS_DIRECTORY"

// ownersAlone refuses a file that somebody else could read: what it holds is no
// secret any more. Of a credential the mode does not tell: systemd lets the
// service read it by an access list, which shows as a right of the group.
func ownersAlone(f *os.File) error {
	if dir := os.Getenv(credentials); dir != "" && filepath.Dir(f.Name()) == filepath.Clean(dir) {
		return nil
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("%s can be read by others (mode %04o); if nobody has, chmod 600 it, else change what is in it", f.Name(), info.Mode().Perm())
	}
	return nil
}
