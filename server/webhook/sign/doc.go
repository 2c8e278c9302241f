// Package sign signs requests according to Standard Webhooks 1.0, and stores and
// rotates the secrets for that.
//
// A signature covers the webhook-id, the timestamp and the body, joined by dots.
// [ID] returns a webhook-id without dots, so two different requests never have the
// same signed text. [Signer.Sign] refuses every other ID.
//
// # Secrets
//
// A namespace has a secret, and a target may have its own. Each is a [Pair]: a
// key for v1, which the receiver needs too, and a key pair for v1a, of which the
// receiver needs only the public half. The two are independent: a receiver with the
// key of v1 cannot make a signature of v1a.
//
//	whsec_…   the key of v1 (HMAC-SHA256): base64 of 24 to 64 bytes
//	whsk_…    the private key of v1a (ed25519): base64 of the seed of 32 bytes
//	whpk_…    the public key of v1a
//
// A [Secret] prints as "[secret]" in every format, in logs and in JSON. Only
// [Secret.Reveal] returns its text.
//
// # Storage and rotation
//
// An engine stores a [Set]: at most two generations, each sealed for its namespace,
// target and number (package seal). [Set.Rotate] adds a generation and sets the end
// of the previous one. Until then both sign, and a receiver accepts a request with
// one valid signature. Only the wall clock of the server ends the overlap.
//
// # What happens on each failure
//
//   - A sealed secret does not open: [Set.Signer] fails. The caller then sends no
//     request, because receivers must be able to refuse unsigned ones.
//   - No generation is live: [Set.Signer] returns [ErrNoSecret]. A set of Rotate
//     always has a live one.
//
// # Cost
//
// A v1 signature reads the body in place. A v1a signature copies it once, because
// the standard library's ed25519 needs the whole text in one slice.
package sign
