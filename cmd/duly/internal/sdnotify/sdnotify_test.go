//go:build unix

package sdnotify

import (
	"net"
	"os"
	"path/filepath"
	"testing"
)

func TestOneDatagramHasAllLines(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "n") // short: a socket's path has a bound
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "s")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := New(path).Tell(Ready, Status("serves\nwell")); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 100)
	n, err := l.Read(b)
	if got := string(b[:n]); err != nil || got != "READY=1\nSTATUS=serves well" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestWithoutAManagerNobodyIsTold(t *testing.T) {
	t.Parallel()
	if err := New("").Tell(Ready); err != nil {
		t.Error(err)
	}
	if err := New(filepath.Join(t.TempDir(), "none")).Tell(Ready); err == nil {
		t.Error("a socket that is not there is no error")
	}
}
