package link

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/redistest"
)

// TestMain checks that no goroutine is left. The client library lets a goroutine sleep for five
// seconds before it closes connections that a cluster has dropped, so the check is repeated.
func TestMain(m *testing.M) {
	code := m.Run()
	err := goleak.Find()
	for range 10 {
		if err != nil {
			err = goleak.Find()
		}
	}
	if err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// open connects to a URL for the duration of the test.
func open(t *testing.T, url string) *Link {
	t.Helper()
	return openWith(t, url, testLog(t))
}

func openWith(t *testing.T, url string, log *slog.Logger) *Link {
	t.Helper()
	l, err := tryOpen(t, url, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

func tryOpen(t *testing.T, url string, log *slog.Logger) (*Link, error) {
	t.Helper()
	o, err := ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	return Open(t.Context(), o, log)
}

var (
	echo  = NewScript("echo", "#!lua flags=no-writes\nreturn {KEYS[1], ARGV[1]}", true)
	count = NewScript("count", "#!lua\nreturn redis.call('INCRBY', KEYS[1], ARGV[1])", false)
)

func increment(key string, by int) Call {
	return Call{Script: count, Keys: []string{key}, Args: []string{fmt.Sprint(by)}}
}

func TestRunByHashAndAsTextIfUnknown(t *testing.T) {
	t.Parallel()
	s, p := redistest.Shared(t)
	l := open(t, s.URL())
	key := p + ":n"
	for i := range 3 {
		msg, err := l.Run(t.Context(), increment(key, 1))
		if err != nil {
			t.Fatal(err)
		}
		if n, _ := msg.AsInt64(); n != int64(i+1) {
			t.Errorf("run %d returned %d", i, n)
		}
	}
	msg, err := l.Run(t.Context(), Call{Script: echo, Keys: []string{key}, Args: []string{"a\x00\r\nb"}})
	if got, _ := msg.AsStrSlice(); err != nil || len(got) != 2 || got[1] != "a\x00\r\nb" {
		t.Errorf("echo returned %q, %v", got, err)
	}
}

func TestRunAllKeepsTheOrder(t *testing.T) {
	t.Parallel()
	s, p := redistest.Shared(t)
	l := open(t, s.URL())
	var calls []Call
	for i := range 50 {
		calls = append(calls, increment(fmt.Sprintf("%s:%d", p, i), i))
	}
	bad := NewScript("bad", "#!lua\nreturn redis.call('HGET', KEYS[1], 'f')", false)
	calls = append(calls, Call{Script: bad, Keys: []string{p + ":0"}})
	results := l.RunAll(t.Context(), calls)
	for i, r := range results[:50] {
		if n, _ := r.Msg.AsInt64(); r.Err != nil || n != int64(i) {
			t.Errorf("call %d returned %d, %v", i, n, r.Err)
		}
	}
	if err := results[50].Err; !errors.Is(err, duly.ErrCorrupt) {
		t.Errorf("a key of another type returned %v", err)
	}
}
