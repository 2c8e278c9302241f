package main

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// tolerance is how far the clocks of sender and receiver may differ. An older
// request may be a copy that somebody sends again.
const tolerance = 5 * time.Minute

var (
	errTime      = errors.New("timestamp missing, too old or too new")
	errSignature = errors.New("no signature is right")
)

// verify checks that a request was signed with the secret, a moment ago. The
// secret is whsec_… for v1, or whpk_… (the public key) for v1a.
func verify(h http.Header, body []byte, secret string, now time.Time) error {
	seconds, err := strconv.ParseInt(h.Get("webhook-timestamp"), 10, 64)
	if err != nil {
		return errTime
	}
	if age := now.Sub(time.Unix(seconds, 0)); age > tolerance || age < -tolerance {
		return errTime
	}

	check, version, err := checker(secret)
	if err != nil {
		return err
	}
	text := append([]byte(h.Get("webhook-id")+"."+h.Get("webhook-timestamp")+"."), body...)
	// While the secret rotates there are several signatures. One right one is enough.
	for one := range strings.FieldsSeq(h.Get("webhook-signature")) {
		v, encoded, _ := strings.Cut(one, ",")
		signature, err := base64.StdEncoding.DecodeString(encoded)
		if v == version && err == nil && check(text, signature) {
			return nil
		}
	}
	return errSignature
}

// checker returns the function that checks a signature with the secret, and the
// version of the signatures that it understands.
func checker(secret string) (check func(text, signature []byte) bool, version string, err error) {
	kind, encoded, _ := strings.Cut(secret, "_")
	key, err := base64.StdEncoding.DecodeString(encoded)
	switch {
	case err == nil && kind == "whsec" && len(key) > 0:
		return func(text, signature []byte) bool {
			mac := hmac.New(sha256.New, key)
			mac.Write(text)
			return hmac.Equal(mac.Sum(nil), signature) // in constant time
		}, "v1", nil
	case err == nil && kind == "whpk" && len(key) == ed25519.PublicKeySize:
		return func(text, signature []byte) bool { return ed25519.Verify(key, text, signature) }, "v1a", nil
	}
	return nil, "", errors.New("the secret of this receiver is neither whsec_… nor whpk_…")
}
