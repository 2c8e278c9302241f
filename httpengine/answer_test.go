package httpengine

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
)

// An answer is refused only if its length, announced or not, is above the bound.
func TestLongAnswersAreRefused(t *testing.T) {
	t.Parallel()
	const most = 100
	l := &link{}
	for length, ok := range map[int]bool{0: true, 1: true, most - 1: true, most: true, most + 1: false,
		2 * most: false} {
		for _, stated := range []int64{-1, int64(length)} {
			text := strings.Repeat("x", length)
			got, err := l.readAll(&http.Response{ContentLength: stated}, strings.NewReader(text), most)
			if ok && (got != text || err != nil) || !ok && duly.CodeOf(err) != duly.CodeUnavailable {
				t.Errorf("%d bytes, stated %d: %d bytes, %v", length, stated, len(got), err)
			}
		}
	}
}

// Half of a pause is random. A server's Retry-After applies up to a bound.
func TestPausesAfterFailuresAreRandomAndBounded(t *testing.T) {
	t.Parallel()
	for n, most := range map[int]time.Duration{1: minBackoff, 2: 2 * minBackoff, 5: 16 * minBackoff, 6: maxBackoff,
		1000: maxBackoff} {
		least, longest := time.Hour, time.Duration(0)
		for range 5000 {
			d := backoff(n, duly.ErrUnavailable)
			least, longest = min(least, d), max(longest, d)
		}
		if least < most/2 || least > most*55/100 || longest >= most || longest < most*95/100 {
			t.Errorf("after %d failures the pause is from %s to %s, want it from %s to %s", n, least, longest, most/2,
				most)
		}
	}

	for after, want := range map[time.Duration]time.Duration{7 * time.Second: 7 * time.Second,
		time.Hour: 2 * maxBackoff} {
		err := fmt.Errorf("poll: %w", &duly.Error{Code: duly.CodeUnavailable, RetryAfter: after})
		if got := backoff(1, err); got != want {
			t.Errorf("after Retry-After %s the pause is %s, want %s", after, got, want)
		}
	}
}

// C13.11: errors after which the server has certainly not read the request.
func TestNotSentMeansThatTheServerReadNothing(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		err  error
		want bool
	}{
		{&net.OpError{Op: "dial", Err: errors.New("refused")}, true},
		{&net.OpError{Op: "remote error", Err: errors.New("tls: certificate required")}, true},
		{&net.OpError{Op: "remote error", Err: errors.New("tls: internal error")}, false},
		{&net.OpError{Op: "read", Err: errors.New("tls: certificate required")}, false},
		{fmt.Errorf("get: %w", tls.RecordHeaderError{}), true},
		{&tls.CertificateVerificationError{Err: errors.New("unknown authority")}, true},
		{io.ErrUnexpectedEOF, false},
	} {
		if got := NotSent(tt.err); got != tt.want {
			t.Errorf("%v: %t, want %t", tt.err, got, tt.want)
		}
	}
}

// An error is replaced only to hide a token in its text.
func TestOnlyATokenIsScrubbed(t *testing.T) {
	t.Parallel()
	broken := fmt.Errorf("read of short: %w", io.ErrUnexpectedEOF)
	for token, kept := range map[string]bool{"": true, "short": true, "a-long-secret": true, "unexpected": false} {
		err := (&link{address: address{token: token}}).scrub(broken)
		if errors.Is(err, io.ErrUnexpectedEOF) != kept || kept == strings.Contains(err.Error(), hidden) {
			t.Errorf("with the token %q the error is %v", token, err)
		}
	}
}

// A string that JSON would change is refused.
func TestTextsThatJSONWouldChange(t *testing.T) {
	t.Parallel()
	const bad = "a\xff"
	for _, tt := range []struct {
		headers map[string]string
		texts   []string
		want    bool
	}{
		{nil, nil, true}, {nil, []string{"a", "ü"}, true}, {nil, []string{"a", bad}, false},
		{nil, []string{bad, "a"}, false},
		{map[string]string{"n": "ü"}, nil, true}, {map[string]string{"n": bad}, nil, false},
		{map[string]string{bad: "v"}, nil, false},
	} {
		if got := isUTF8(tt.headers, tt.texts...); got != tt.want {
			t.Errorf("%q, %q: %t, want %t", tt.headers, tt.texts, got, tt.want)
		}
	}
}

func TestRetryAfterIsReadInSeconds(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{"": 0, "soon": 0, "-1": 0, "0": 0, "1": time.Second,
		"86400": 24 * time.Hour, "86401": 24 * time.Hour} {
		if got := retryAfter(&http.Response{Header: http.Header{"Retry-After": {text}}}); got != want {
			t.Errorf("Retry-After %q is %s, want %s", text, got, want)
		}
	}
}
