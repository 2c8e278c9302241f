package sign

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"hash"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dulymq/duly/contract"
)

// The headers of Standard Webhooks, in the form of [net/http.Header].
const (
	HeaderID        = "Webhook-Id"
	HeaderTimestamp = "Webhook-Timestamp"
	HeaderSignature = "Webhook-Signature"
)

// Versions selects the signatures of a request. The zero value is v1.
type Versions struct{ V1, V1a bool }

// ParseVersions parses the setting sign of a target: a list of v1 and v1a.
func ParseVersions(names []string) (Versions, error) {
	var v Versions
	for _, name := range names {
		switch name {
		case "v1":
			v.V1 = true
		case "v1a":
			v.V1a = true
		default:
			return Versions{}, contract.Invalid("sign", "has %q, may have only v1 and v1a", name)
		}
	}
	return v.orDefault(), nil
}

func (v Versions) orDefault() Versions {
	if !v.V1 && !v.V1a {
		v.V1 = true
	}
	return v
}

// Signer signs requests with every live secret of one set. It is safe for
// concurrent use.
type Signer struct {
	versions Versions
	pairs    []Pair // pairs of the live generations, the newest first
	macs     []*mac // for each pair, the mac of its v1 key
}

func newSigner(versions Versions, pairs []Pair) *Signer {
	s := &Signer{versions: versions.orDefault(), pairs: pairs}
	for _, p := range pairs {
		// Preparing a key costs as much as a short signature.
		s.macs = append(s.macs, newMAC(p.V1.key().hmac))
	}
	return s
}

var errBadID = errors.New("a webhook-id must not be empty, and must not contain a dot, a space or a control character")

// Sign returns the value of the header webhook-signature: one signature for each
// live secret and each version, the newest secret first. at is rounded down to whole
// seconds, like the header webhook-timestamp ([Timestamp]).
func (s *Signer) Sign(id string, at time.Time, body []byte) (string, error) {
	// A dot separates the parts of the signed text, so an ID must not contain a dot.
	if id == "" || strings.ContainsFunc(id, func(r rune) bool { return r == '.' || r <= ' ' || r >= 0x7f }) {
		return "", errBadID
	}

	head := append(make([]byte, 0, 256), id...)
	head = append(head, '.')
	head = append(head, Timestamp(at)...)
	head = append(head, '.')

	header := make([]byte, 0, 256)
	if s.versions.V1 {
		for _, m := range s.macs {
			header = appendSignature(header, "v1,", m.sum(head, body))
		}
	}
	// Most targets use only v1.
	if !s.versions.V1a {
		return string(header), nil
	}

	// Ed25519 needs the whole text in one piece. Only this version pays for the copy.
	text := slices.Concat(head, body)
	for _, p := range s.pairs {
		header = appendSignature(header, "v1a,", ed25519.Sign(p.V1a.key().ed, text))
	}
	return string(header), nil
}

// Timestamp returns the value of the header webhook-timestamp.
func Timestamp(at time.Time) string { return strconv.FormatInt(at.Unix(), 10) }

// mac makes signatures of v1 with one key. It pools hashes that have read the key, which is
// most of the work for a short body.
type mac struct{ hashes sync.Pool }

func newMAC(key []byte) *mac {
	m := &mac{}
	m.hashes.New = func() any { return hmac.New(sha256.New, key) }
	return m
}

// sum returns the signature of a string in two parts.
func (m *mac) sum(head, body []byte) []byte {
	h := m.hashes.Get().(hash.Hash)
	defer m.hashes.Put(h)
	h.Reset()
	h.Write(head)
	h.Write(body) // reads the body without a copy
	return h.Sum(nil)
}

func appendSignature(header []byte, version string, signature []byte) []byte {
	if len(header) > 0 {
		header = append(header, ' ')
	}
	header = append(header, version...)
	return base64.StdEncoding.AppendEncode(header, signature)
}
