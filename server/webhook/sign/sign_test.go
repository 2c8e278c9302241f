package sign

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/server/webhook/seal"
)

func TestID(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ got, want string }{
		"C16.46 an ID of duly's client": {ID("shop", "orders", "01JABCDEFGHJKMNPQRSTVWXYZ0", true),
			"01JABCDEFGHJKMNPQRSTVWXYZ0"},
		"C16.46 an own ID":             {ID("shop", "orders", "42", false), "shop/orders/42"},
		"C16.45 the same ID elsewhere": {ID("shop", "refunds", "42", false), "shop/refunds/42"},
		"C16.45 an own ID that is a ULID": {ID("shop", "orders", "01JABCDEFGHJKMNPQRSTVWXYZ0", false),
			"shop/orders/01JABCDEFGHJKMNPQRSTVWXYZ0"},
		"C16.47 dots":                {ID("a.b", "c.d", "e.f.g", false), "a~b/c~d/e~f~g"},
		"C16.48 a notice":            {NoticeID(ID("shop", "orders", "42", false), Done), "shop/orders/42/done"},
		"C16.48 a notice of a death": {NoticeID("01J", Dead), "01J/dead"},
	}
	for name, tt := range tests {
		if tt.got != tt.want {
			t.Errorf("%s: %s, want %s", name, tt.got, tt.want)
		}
	}
}

// C16.45: two different jobs never have the same webhook-id. C16.44: one job always has the same
// webhook-id.
func FuzzID(f *testing.F) {
	f.Add("a", "b", "c.d", true, "a", "b", "c", false)
	f.Add("a.b", "c", "d", false, "a", "b.c", "d", false)
	f.Add("a", "b", "c:d", false, "a", "b", "c_d", false)

	f.Fuzz(func(t *testing.T, n1, q1, i1 string, g1 bool, n2, q2, i2 string, g2 bool) {
		for _, job := range [][3]string{{n1, q1, i1}, {n2, q2, i2}} {
			if contract.ValidateQueue(duly.QueueRef{Namespace: job[0], Name: job[1]}) != nil ||
				contract.ValidateID(job[2]) != nil || job[0] == "" {
				t.Skip("not a job")
			}
		}
		// IDs of duly's client are unique in all queues.
		same := i1 == i2 && g1 == g2 && (g1 || n1 == n2 && q1 == q2)
		first, second := ID(n1, q1, i1, g1), ID(n2, q2, i2, g2)
		if (first == second) != same {
			t.Errorf("%s/%s/%s (%v) and %s/%s/%s (%v) have the IDs %s and %s", n1, q1, i1, g1, n2, q2, i2, g2, first,
				second)
		}
		for _, end := range []string{Done, Dead} {
			if NoticeID(first, end) == second {
				t.Errorf("a notice of %s has the ID of a job, %s", first, second)
			}
		}
	})
}

// C16.47: two different combinations of ID, timestamp and body have different signed texts.
func FuzzSignedText(f *testing.F) {
	f.Add("a.1", int64(2), []byte("x"), "a", int64(1), []byte("2.x"))
	f.Add("a", int64(1), []byte("2.x"), "a", int64(12), []byte(".x"))
	f.Add("a", int64(-1), []byte(""), "a", int64(1), []byte(""))
	ring, err := seal.Parse(seal.NewKey())
	if err != nil {
		f.Fatal(err)
	}
	signer, _, err := NewSet(ring, "n", "", NewPair()).Signer(ring, Versions{}, time.Time{})
	if err != nil {
		f.Fatal(err)
	}

	f.Fuzz(func(t *testing.T, id1 string, at1 int64, body1 []byte, id2 string, at2 int64, body2 []byte) {
		first, err1 := signer.Sign(id1, time.Unix(at1, 0), body1)
		second, err2 := signer.Sign(id2, time.Unix(at2, 0), body2)
		if strings.Contains(id1, ".") && err1 == nil {
			t.Errorf("Sign accepts the ID %q", id1)
		}
		if err1 != nil || err2 != nil {
			return
		}
		same := id1 == id2 && at1 == at2 && bytes.Equal(body1, body2)
		if (first == second) != same {
			t.Errorf("%q, %d, %q and %q, %d, %q: equal signatures are %v", id1, at1, body1, id2, at2, body2,
				first == second)
		}
	})
}

func TestSignRefusesBadIDs(t *testing.T) {
	t.Parallel()
	s := newSigner(Versions{V1: true}, []Pair{NewPair()})
	for _, id := range []string{"", "a.b", "a b", "a\r\nx: y", "a\x00", "ä", "a\x7f"} {
		if header, err := s.Sign(id, time.Time{}, nil); err == nil {
			t.Errorf("Sign accepts %q: %s", id, header)
		}
	}
}

// C16.51: a new secret has 32 random bytes, and a user's has 24 to 64.
func TestParseSecret(t *testing.T) {
	t.Parallel()
	encoded := func(prefix string, n int) string {
		return prefix + base64.StdEncoding.EncodeToString(slices.Repeat([]byte{7}, n))
	}
	fresh := NewV1a()
	whole := prefixV1a + base64.StdEncoding.EncodeToString(fresh.key().ed)
	mixed := slices.Concat(fresh.key().ed[:32], NewV1a().key().ed[32:])

	good := []string{NewV1().Reveal(), fresh.Reveal(), encoded(prefixV1, 24), encoded(prefixV1, 64),
		encoded(prefixV1a, 32)}
	for _, text := range good {
		if s, err := ParseSecret(text); err != nil || s.Reveal() != text {
			t.Errorf("%s: %v", text[:10], err)
		}
	}
	if s, err := ParseSecret(whole); err != nil || s.Reveal() != fresh.Reveal() || s.Public() != fresh.Public() {
		t.Errorf("a private key with its public half: %v", err)
	}
	if n := len(NewV1().key().hmac); n != 32 {
		t.Errorf("a new secret has %d bytes, want 32", n)
	}

	bad := []string{"", "canary", "whsec_canary!", encoded(prefixV1, 23), encoded(prefixV1, 65),
		encoded(prefixV1a, 31), encoded(prefixV1a, 33),
		encoded(prefixPublic, 32), prefixV1a + "canary!", prefixV1a + base64.StdEncoding.EncodeToString(mixed)}
	for _, text := range bad {
		_, err := ParseSecret(text)
		if !errors.Is(err, duly.ErrInvalid) {
			t.Errorf("%q: %v, want invalid", text, err)
			continue
		}
		if len(text) > 10 && strings.Contains(err.Error(), text[6:]) || strings.Contains(err.Error(), "canary") {
			t.Errorf("the error repeats the secret: %v", err)
		}
	}
}

// C16.57: no form of printing shows a secret, not even if it is inside another value.
func TestSecretsPrintAsHidden(t *testing.T) {
	t.Parallel()
	pair := NewPair()
	signer := newSigner(Versions{}, []Pair{pair})
	if _, err := signer.Sign("a", time.Time{}, nil); err != nil { // its pooled hashes hold the key
		t.Fatal(err)
	}
	outer := struct {
		Secret Secret
		secret Secret
		pair   Pair
		signer Signer
	}{pair.V1, pair.V1a, pair, *signer}

	var out strings.Builder
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		fmt.Fprintf(&out, verb+verb+verb, outer, &outer, pair)
	}
	text, err := json.Marshal(map[string]any{"secret": pair.V1, "pair": pair})
	if err != nil {
		t.Fatal(err)
	}
	out.Write(text)
	slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "secret", pair.V1, "pair", pair, "outer", outer)
	slog.New(slog.NewTextHandler(&out, nil)).Info("x", "secret", pair.V1, "pair", pair, "outer", outer)

	for _, raw := range [][]byte{pair.V1.key().hmac, pair.V1a.key().ed.Seed()} {
		for _, form := range []string{string(raw), base64.StdEncoding.EncodeToString(raw), fmt.Sprintf("%x", raw),
			fmt.Sprint(raw)} {
			if strings.Contains(out.String(), strings.Trim(form, "[]")) {
				t.Errorf("a print shows a key as %.20q…", form)
			}
		}
	}
	if !strings.Contains(out.String(), hidden) {
		t.Error("nothing prints as [secret]")
	}
}

func TestParseVersions(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Versions{"": {V1: true}, "v1": {V1: true}, "v1a": {V1a: true},
		"v1 v1a": {true, true}} {
		if got, err := ParseVersions(strings.Fields(text)); err != nil || got != want {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	if _, err := ParseVersions([]string{"v2"}); !errors.Is(err, duly.ErrInvalid) {
		t.Errorf("v2: %v, want invalid", err)
	}
}

// C16.52: without a secret, Signer fails.
func TestSignerFailsWithoutASecret(t *testing.T) {
	t.Parallel()
	ring, err := seal.Parse(seal.NewKey())
	if err != nil {
		t.Fatal(err)
	}
	set := NewSet(ring, "shop", "", NewPair())
	set.Generations[0].Until = time.Unix(100, 0)

	for _, s := range []Set{{Namespace: "shop"}, set} {
		if signer, _, err := s.Signer(ring, Versions{}, time.Unix(100, 0)); !errors.Is(err, ErrNoSecret) ||
			signer != nil {
			t.Errorf("%d generations: %v, want ErrNoSecret", len(s.Generations), err)
		}
	}

	if _, err := (Set{}).Open(ring); !errors.Is(err, ErrNoSecret) {
		t.Errorf("Open of an empty set: %v", err)
	}
	if p, err := set.Open(ring); err != nil || p.V1.Reveal() == "" || p.V1a.Public() == "" {
		t.Errorf("Open: %v", err)
	}
}

// BenchmarkSign measures a signature of a body of 1 KiB.
func BenchmarkSign(b *testing.B) {
	body := bytes.Repeat([]byte("x"), 1024)
	for name, v := range map[string]Versions{"v1": {V1: true}, "v1a": {V1a: true}} {
		b.Run(name, func(b *testing.B) {
			s := newSigner(v, []Pair{NewPair()})
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Sign("shop/orders/42", time.Unix(1700000000, 0), body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
