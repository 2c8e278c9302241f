// Package seal encrypts small texts that duly keeps in an engine: the secrets and the headers of
// targets.
//
// A [Ring] holds the keys of one file. Its first key seals, and every key opens, so that a key can
// be replaced without downtime: put the new key in the first line, restart every server, seal the
// texts again, and remove the old key.
//
// Sealing is AES-256-GCM with a random nonce. The [Place] of a text is its additional data: a
// sealed text that is copied to another namespace, target or generation can't be opened there.
//
//	byte 0       the version of this layout, 1
//	bytes 1–4    the number of the key, from its SHA-256
//	bytes 5–16   the nonce
//	the rest     the encrypted text and its tag
//
// # What happens on each failure
//
//   - No key of the ring has the number: [ErrUnknownKey]. The operator has
//     lost a key, or a server has another file than the others.
//   - The text does not open: [ErrDamaged]. It was changed, or it belongs to
//     another place.
//   - The file is missing: [Create] makes it. It never replaces a file.
//   - The file holds no key, or others can read it: [Load] fails.
package seal
