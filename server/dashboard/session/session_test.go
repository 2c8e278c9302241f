package session

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
)

func newSealer(t *testing.T, key []byte, cookie string) *Sealer {
	t.Helper()
	s, err := NewSealer(key, cookie)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// S5: a cookie that was changed, or sealed by another key or for another cookie, is refused.
func TestCookie(t *testing.T) {
	t.Parallel()
	key, now := NewKey(), clock.NewFake().Now()
	sealer := newSealer(t, key, "duly_ui_7778")
	want := New(Login{Credential: [32]byte{1, 2, 3}}, now)
	cookie := sealer.Seal(want)
	got, err := sealer.Open(cookie, now)
	if err != nil || got.ID != want.ID || got.Login != want.Login || !got.Issued.Equal(now) {
		t.Fatalf("opened %+v, %v, want %+v", got, err, want)
	}
	if strings.Contains(cookie, want.ID) {
		t.Error("the cookie shows the session's ID")
	}

	for i := range cookie {
		changed := []byte(cookie)
		changed[i] ^= 4
		if _, err := sealer.Open(string(changed), now); !errors.Is(err, duly.ErrUnauthorized) {
			t.Fatalf("a cookie with another byte %d gives %v", i, err)
		}
	}
	for name, other := range map[string]*Sealer{
		"key": newSealer(t, NewKey(), "duly_ui_7778"), "cookie": newSealer(t, key, "duly_ui_7779"),
	} {
		if _, err := other.Open(cookie, now); !errors.Is(err, duly.ErrUnauthorized) {
			t.Errorf("another %s opens the session: %v", name, err)
		}
	}
	for _, text := range []string{"", "x", "====", cookie[:20]} {
		if _, err := sealer.Open(text, now); !errors.Is(err, duly.ErrUnauthorized) {
			t.Errorf("%q opens a session: %v", text, err)
		}
	}
}

// A session ends 12 h after its login, and 30 min after its last use.
func TestSessionExpires(t *testing.T) {
	t.Parallel()
	now := clock.NewFake().Now()
	sealer := newSealer(t, NewKey(), "c")
	for _, tt := range []struct {
		name         string
		issued, used time.Duration // ago
		ok           bool
	}{
		{"New", 0, 0, true},
		{"NearIdle", IdleLimit, IdleLimit - 1, true},
		{"Idle", IdleLimit, IdleLimit, false},
		{"NearEnd", Lifetime - 1, 0, true},
		{"End", Lifetime, 0, false},
		{"Future", -time.Hour, -time.Hour, false},
	} {
		s := Session{ID: "x", Issued: now.Add(-tt.issued), Used: now.Add(-tt.used)}
		if _, err := sealer.Open(sealer.Seal(s), now); (err == nil) != tt.ok {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	s := New(Login{Account: "ada"}, now)
	if s.Stale(now.Add(time.Minute)) || !s.Stale(now.Add(time.Minute+1)) {
		t.Error("a cookie is not renewed after a minute")
	}
}

// A login code opens one session within a minute.
func TestCodes(t *testing.T) {
	t.Parallel()
	fake := clock.NewFake()
	codes := &Codes{Clock: fake}
	one, ada := Login{Credential: [32]byte{1}}, Login{Account: "ada"}
	first, second := codes.Create(one), codes.Create(ada)
	if login, ok := codes.Redeem(first); !ok || login != one {
		t.Errorf("the code opens a session of %+v, %v", login, ok)
	}
	if _, ok := codes.Redeem(first); ok {
		t.Error("a code opens two sessions")
	}
	if login, ok := codes.Redeem(second); !ok || login != ada {
		t.Errorf("the code opens a session of %+v, %v", login, ok)
	}
	if _, ok := codes.Redeem("x"); ok {
		t.Error("an unknown code opens a session")
	}

	old := codes.Create(one)
	fake.Advance(CodeLifetime)
	if _, ok := codes.Redeem(old); ok {
		t.Error("an old code opens a session")
	}
	dropped := codes.Create(one)
	for range maxCodes {
		codes.Create(one)
	}
	if _, ok := codes.Redeem(dropped); ok || len(codes.codes) != maxCodes {
		t.Errorf("%d codes are in memory", len(codes.codes))
	}
}

func TestLoadKey(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), KeyFile)
	if _, err := LoadKey(path, false); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file gives %v", err)
	}
	key, err := LoadKey(path, true)
	if err != nil || len(key) != KeySize {
		t.Fatalf("made the key %x, %v", key, err)
	}
	if again, err := LoadKey(path, true); err != nil || !bytes.Equal(key, again) {
		t.Errorf("the second start has the key %x, %v, want %x", again, err, key)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Errorf("others may read the key: %v, %v", info.Mode(), err)
	}
	if err := os.WriteFile(path, []byte("short\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadKey(path, true); err == nil || !strings.Contains(err.Error(), "64") {
		t.Errorf("a wrong key gives %v", err)
	}
}
