// Package auth decides who may do what on a server.
//
// A token is 256 random bits with "duly_" in front, shown once. The store
// keeps its SHA-256 alone, so a stolen backup opens nothing; and because the
// hash is what is looked up and compared, neither the store nor the time that
// a comparison takes tells anything about a secret. A text that can't be a
// token is refused before anybody is asked.
//
// # What is remembered
//
// [Guard] remembers each token that it has found as a [Pass], which all of the
// token's requests share, so that a request costs one hash and one look into a
// map. A pass is good until a token changes, any token: the engine tells
// [Guard.Watch] so, whichever server has made the change. From then on a pass
// is looked up again before it is used, and at once where a request waits with
// it ([Guard.Hold]): a pass whose token was revoked or changed ends, and what
// waits with it too. While the engine can't tell, or nobody watches, every
// request looks its token up.
//
// A look-up that was under way when a token changed counts as one from before
// the change. What is not found is not remembered.
//
// # Guessing
//
// A credential is checked first, so a good one is never refused because of the
// bad ones that came from its address. What failed may then be slowed down:
//
//   - A token has 256 random bits and cannot be guessed. Wrong tokens are not
//     counted and always answered 401, so a worker with an old token blocks no
//     other caller.
//   - A password, and a token with a chosen text from lmstfy's admin API
//     ([Guard.AdmitChosen]), can be guessed. Ten failures of one address for one
//     account within a minute are answered 401, further ones 429 until the
//     minute is over. A token's account is its namespace.
//
// Addresses are those of the connections, or of a proxy's clients if the proxy
// is configured ([Remote]). The right secret is accepted during that minute too.
// So the bound slows callers that wait for their answers. Against other callers
// only the length of the secret helps.
//
// # The first token
//
// [Guard.FirstToken] is how a server on a loopback address starts without
// anybody having set anything up: it leaves an admin token for all namespaces
// in a file that its owner alone can read. The file is complete on disk before
// the store knows the token, so whenever the process dies, the next start
// finds either both, or the file alone, and takes that. When this token is
// revoked the file goes first, for the same reason.
package auth
