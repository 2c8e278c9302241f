package auth

import (
	"bufio"
	"strings"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/ownfile"
)

// ReadAccounts reads a file with a line NAME:PASSWORD for each account. It skips empty
// lines and lines that begin with #. Only the owner may have the right to read the
// file. ReadAccounts returns [duly.ErrInvalid] for any other line.
func ReadAccounts(path string) (accounts []Account, err error) {
	f, err := ownfile.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()

	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimRight(lines.Text(), "\r")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, password, ok := strings.Cut(line, ":")
		if !ok {
			return nil, contract.Errorf(duly.CodeInvalid, "%s: line %d is not of the form NAME:PASSWORD", path, n)
		}
		a, err := NewAccount(name, password)
		if err != nil {
			text := strings.TrimPrefix(err.Error(), string(duly.CodeInvalid)+": ")
			return nil, contract.Errorf(duly.CodeInvalid, "%s: line %d: %s", path, n, text)
		}
		accounts = append(accounts, a)
	}

	if lines.Err() == nil && len(accounts) == 0 {
		return nil, contract.Errorf(duly.CodeInvalid, "%s has no accounts; write a line NAME:PASSWORD into it", path)
	}
	return accounts, lines.Err()
}
