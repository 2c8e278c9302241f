// Package sign signs requests after Standard Webhooks 1.0, and keeps and rotates
// the secrets that it signs with.
//
// A signature covers the webhook-id, the timestamp and the body, joined by dots.
// [ID] makes a webhook-id without dots, so that two different requests never
// have the same signed text. [Signer.Sign] refuses any other ID.
//
// # Secrets
//
// A namespace has a secret, and a target may have its own. Each is a [Pair]: a
// key for v1, which the receiver needs too, and a key pair for v1a, of which the
// receiver needs the public half alone. The two are independent: a receiver that
// knows the key of v1 cannot make a signature of v1a.
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
// A [Set] is what an engine stores: at most two generations, each sealed for its
// namespace, target and number (package seal). [Set.Rotate] adds a generation
// and sets the end of the one before it. Until that moment both sign, and a
// receiver accepts a request if one of its signatures is right. The wall clock
// of the server ends the overlap. No other event does.
//
// # What happens on each failure
//
//   - A sealed secret does not open: [Set.Signer] fails. The caller then sends
//     nothing, because an unsigned request would teach receivers to accept those.
//   - No generation is live: [Set.Signer] returns [ErrNoSecret]. A set that
//     Rotate made always has one.
//
// # Cost
//
// A v1 signature reads the body in place. A v1a signature copies it once,
// because ed25519 reads its text twice and the standard library takes the text
// in one piece. The copy lasts for the call.
package sign
