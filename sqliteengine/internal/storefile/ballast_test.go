package storefile

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

func TestBallastGrowsAndIsCut(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "duly.db")
	b := OpenBallast(path)
	size := func(want int64) {
		t.Helper()
		info, err := os.Stat(path + BallastSuffix)
		if err != nil || info.Size() != want || b.size != want || runtime.GOOS != "windows" &&
			info.Mode().Perm() != 0o600 {
			t.Errorf("the ballast is %d bytes and has %+v, %v, want %d bytes", b.size, info, err, want)
		}
	}

	if err := b.Grow(300_000); err != nil {
		t.Fatal(err)
	}

	size(300_000)
	if err := b.Cut(100_000); err != nil {
		t.Fatal(err)
	}

	size(100_000)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if b = OpenBallast(path); b.size != 100_000 {
		t.Errorf("opened again the ballast is %d bytes", b.size)
	}
	if err := writeNoise(b.f, 50_000, 200_000); err != nil {
		t.Fatal(err)
	}

	b.size = 250_000
	size(250_000)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
}

// A ballast never replaces a file that is not a ballast.
func TestBallastReplacesNothing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "duly.db")
	if err := os.MkdirAll(path+BallastSuffix, 0o700); err != nil {
		t.Fatal(err)
	}
	b := OpenBallast(path)
	if err := b.Grow(1); err == nil || b.size != 0 {
		t.Errorf("a folder became a ballast of %d bytes, %v", b.size, err)
	}
}
