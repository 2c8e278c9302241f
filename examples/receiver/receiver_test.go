package main

import (
	"bufio"
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly/internal/eventually"
	"github.com/dulymq/duly/server/webhook/seal"
	"github.com/dulymq/duly/server/webhook/sign"
)

// C16.41: the samples in Go, Node and Python accept what duly signs, and refuse
// what was changed, is old, or has the signature of somebody else.
func TestSamplesVerifyDeliveries(t *testing.T) {
	t.Parallel()
	samples := map[string]struct {
		start func(t *testing.T, secret string) (url string)
		v1a   bool
	}{
		"Go": {func(t *testing.T, secret string) string {
			s := httptest.NewServer(receiver(secret, func(string, []byte) error { return nil }))
			t.Cleanup(s.Close)
			return s.URL
		}, true},
		"Node":   {func(t *testing.T, secret string) string { return start(t, secret, "node", "receiver.mjs") }, true},
		"Python": {func(t *testing.T, secret string) string { return start(t, secret, "python3", "receiver.py") }, false},
	}

	for name, sample := range samples {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDeliveries(t)
			t.Run("v1", func(t *testing.T) {
				t.Parallel()
				d.verifiedBy(t, sample.start(t, d.pair.V1.Reveal()))
			})
			if sample.v1a {
				t.Run("v1a", func(t *testing.T) {
					t.Parallel()
					d.verifiedBy(t, sample.start(t, d.pair.V1a.Public()))
				})
			}
		})
	}
}

// start runs a sample that is a program of its own, on a free port.
func start(t *testing.T, secret, program, file string) (url string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		t.Skip("there is no " + program)
	}
	cmd := exec.CommandContext(t.Context(), program, file, "0")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "WEBHOOK_SECRET=" + secret, "LC_ALL=C.UTF-8"}
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})

	lines := make(chan string, 100)
	go func() {
		for s := bufio.NewScanner(out); s.Scan(); {
			select {
			case lines <- s.Text():
			default: // nobody reads the later lines
			}
		}
	}()
	line := eventually.Receive(t, "the address of "+file, lines)
	url, ok := strings.CutPrefix(line, "listening on ")
	if !ok {
		t.Fatalf("%s prints %q first", file, line)
	}
	return url
}

// A sample does not start without a secret: an empty key would let anybody sign.
func TestSamplesNeedASecret(t *testing.T) {
	t.Parallel()
	for program, file := range map[string]string{"node": "receiver.mjs", "python3": "receiver.py"} {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(program); err != nil {
				t.Skip("there is no " + program)
			}
			for _, secret := range []string{"", "whsec_", "AAAA"} {
				cmd := exec.CommandContext(t.Context(), program, file, "0")
				cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "WEBHOOK_SECRET=" + secret}
				out, err := cmd.CombinedOutput()
				if err == nil || !strings.Contains(string(out), "WEBHOOK_SECRET is") {
					t.Errorf("with %q it says %s, %v", secret, out, err)
				}
			}
		})
	}
}

// deliveries makes requests as the dispatcher does.
type deliveries struct {
	ring *seal.Ring
	set  sign.Set
	pair sign.Pair
	now  time.Time
}

func newDeliveries(t *testing.T) deliveries {
	ring, err := seal.Parse(seal.NewKey())
	if err != nil {
		t.Fatal(err)
	}
	pair := sign.NewPair()
	return deliveries{ring, sign.NewSet(ring, "shop", "", pair), pair, time.Now()}
}

var body = []byte(`{"paid": 17, "note": "ä.1\n"}`)

// signed returns the headers of a request that one set signs.
func (d deliveries) signed(t *testing.T, set sign.Set, at time.Time) http.Header {
	t.Helper()
	signer, _, err := set.Signer(d.ring, sign.Versions{V1: true, V1a: true}, d.now)
	if err != nil {
		t.Fatal(err)
	}
	id := sign.ID("shop", "orders", "o.42", false)
	signature, err := signer.Sign(id, at, body)
	if err != nil {
		t.Fatal(err)
	}
	h := http.Header{}
	h.Set(sign.HeaderID, id)
	h.Set(sign.HeaderTimestamp, sign.Timestamp(at))
	h.Set(sign.HeaderSignature, signature)
	return h
}

// verifiedBy posts good and bad deliveries to a receiver with the secret of d.
func (d deliveries) verifiedBy(t *testing.T, url string) {
	rotated, err := d.set.Rotate(d.ring, sign.NewPair(), d.now, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	ended, err := d.set.Rotate(d.ring, sign.NewPair(), d.now, 0)
	if err != nil {
		t.Fatal(err)
	}

	fresh := d.signed(t, d.set, d.now)
	with := func(name, value string) http.Header {
		h := fresh.Clone()
		h.Set(name, value)
		return h
	}
	const good, bad = http.StatusNoContent, http.StatusUnauthorized
	tests := map[string]struct {
		headers http.Header
		body    []byte
		want    int
	}{
		"as sent":                 {fresh, body, good},
		"during a rotation":       {d.signed(t, rotated, d.now), body, good},
		"after a rotation":        {d.signed(t, ended, d.now), body, bad},
		"changed body":            {fresh, append([]byte(" "), body...), bad},
		"no body":                 {fresh, nil, bad},
		"changed ID":              {with(sign.HeaderID, "shop/orders/o~43"), body, bad},
		"changed timestamp":       {with(sign.HeaderTimestamp, sign.Timestamp(d.now.Add(time.Second))), body, bad},
		"no timestamp":            {with(sign.HeaderTimestamp, ""), body, bad},
		"no number as timestamp":  {with(sign.HeaderTimestamp, "1e9"), body, bad},
		"from ten minutes ago":    {d.signed(t, d.set, d.now.Add(-10*time.Minute)), body, bad},
		"from ten minutes ahead":  {d.signed(t, d.set, d.now.Add(10*time.Minute)), body, bad},
		"no signature":            {with(sign.HeaderSignature, ""), body, bad},
		"signature of no version": {with(sign.HeaderSignature, "v9,AAAA v1, v1a, ,"), body, bad},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader(tt.body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header = tt.headers
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != tt.want {
				t.Errorf("status %d, want %d", resp.StatusCode, tt.want)
			}
		})
	}
}

// An error of the handler is a failed try, and a receiver without a secret
// accepts nothing.
func TestReceiverRefuses(t *testing.T) {
	t.Parallel()
	d := newDeliveries(t)
	tests := map[string]struct {
		secret string
		handle error
		body   []byte
		want   int
	}{
		"a failed handler": {d.pair.V1.Reveal(), errors.New("boom"), body, http.StatusInternalServerError},
		"no secret":        {"", nil, body, http.StatusUnauthorized},
		"an empty secret":  {"whsec_", nil, body, http.StatusUnauthorized},
		"a private key":    {d.pair.V1a.Reveal(), nil, body, http.StatusUnauthorized},
		"a large body":     {d.pair.V1.Reveal(), nil, make([]byte, maxBody+1), http.StatusRequestEntityTooLarge},
	}

	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := httptest.NewRecorder()
			r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(tt.body))
			r.Header = d.signed(t, d.set, d.now)
			receiver(tt.secret, func(string, []byte) error { return tt.handle }).ServeHTTP(w, r)
			if w.Code != tt.want {
				t.Errorf("status %d, want %d", w.Code, tt.want)
			}
		})
	}
}
