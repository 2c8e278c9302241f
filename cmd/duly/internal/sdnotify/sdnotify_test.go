//go:build unix

package sdnotify

import (
	"net"
	"os"
	"path/filepath"
	"testing"
)

func TestNotifySendsAllLinesInOneDatagram(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "n") // short, because the length of a socket's path is limited
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

	if err := New(path).Notify(Ready, Status("serves\nwell")); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 100)
	n, err := l.Read(b)
	if got := string(b[:n]); err != nil || got != "READY=1\nSTATUS=serves well" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestNotifyWithoutManager(t *testing.T) {
	t.Parallel()
	if err := New("").Notify(Ready); err != nil {
		t.Error(err)
	}
	if err := New(filepath.Join(t.TempDir(), "none")).Notify(Ready); err == nil {
		t.Error("no error for a socket that does not exist")
	}
}
