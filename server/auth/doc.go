// Package auth checks the credentials of a server's callers.
//
// # Tokens
//
// A token is 256 random bits after the prefix "duly_". The server shows it once. The
// store keeps only its SHA-256, so a stolen backup admits nobody. Look-ups and
// comparisons use the hash, so neither the store nor the duration of a comparison
// reveals anything about a secret. A string that cannot be a token is refused without a
// look-up.
//
// # The cache
//
// [Guard] caches each token that it has found as a [Grant], which all requests of the
// token share. A request then costs one hash and one map access. A grant is valid until
// any token changes: [Guard.Watch] receives a notice of the engine, whichever server has
// made the change. From then on the guard looks each token up again before it uses its
// grant, and at once if a request waits with it ([Guard.Track]). If the token was
// revoked or changed, the grant ends, and the requests that wait with it too. While the
// engine sends no notices, every request looks its token up.
//
// A look-up that overlaps a change counts as one from before the change. The guard does
// not cache unknown tokens.
//
// # Guessing
//
// The guard checks a credential first, so a valid one is never refused because of wrong
// ones from the same address. It may then slow down wrong ones:
//
//   - A token has 256 random bits and cannot be guessed. The guard does not count wrong
//     tokens and always returns 401, so a worker with an old token blocks no other
//     caller.
//   - A password, and a token with a chosen text from lmstfy's admin API
//     ([Guard.AdmitChosen]), can be guessed. Ten failures of one address for one account
//     within a minute return 401, further ones 429 until the minute is over. The account
//     of a token is its namespace.
//
// The address is the one of the connection, or of a proxy's client if the proxy is
// configured ([Remote]). The right secret is accepted during that minute too. So the
// limit slows down callers that wait for their answers. Against other callers only the
// length of the secret helps.
//
// # The first token
//
// [Guard.FirstToken] lets a server on a loopback address start without any setup: it
// writes an admin token for all namespaces to a file that only its owner can read. The
// file is durable before the store has the token. So after a crash, the next start finds
// either both, or only the file, and then stores its token. For the same reason, revoking
// this token deletes the file first.
package auth
