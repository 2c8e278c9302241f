package wire

import (
	"encoding/hex"

	"github.com/dulymq/duly/contract"
)

// Token is a token with its text, which the server shows only once. Its hash is sent as
// its ID.
type Token struct {
	contract.Token
	Secret string
}

// TokenID returns the ID of a token: its hash in hex.
func TokenID(hash [32]byte) string { return hex.EncodeToString(hash[:]) }

// ParseTokenID returns the hash of an ID that TokenID returned, or [duly.ErrInvalid].
func ParseTokenID(id string) (hash [32]byte, err error) {
	// The length comes first: Decode writes into the fixed array.
	if len(id) == hex.EncodedLen(len(hash)) {
		_, err = hex.Decode(hash[:], []byte(id))
		if err == nil {
			return hash, nil
		}
	}

	// The error does not repeat the ID, because the caller may have sent a secret token by mistake.
	return [32]byte{}, contract.Invalid("id",
		"must be the ID of a token, which has 64 hexadecimal digits; list the tokens to find it")
}

// newToken declares a request for a new token.
func (f *fields) newToken(t *contract.Token) {
	f.request("Token")
	f.tokenSettings(t)
}

func (f *fields) tokenSettings(t *contract.Token) {
	f.name("namespace", &t.Namespace, required, `example:"default"`, "A namespace, or * for all.")
	f.rights(&t.Rights)
	f.text("description", &t.Description, optional, nameBounds, "A text that lists show.")
	f.nested("limits", t.Limits == contract.Limits{}, optional,
		"How many calls the token may make. Default: no limits.", func() { f.limits(&t.Limits) })
}

// rights declares a list of rights.
func (f *fields) rights(v *contract.Right) {
	// The value is a set of bits, so it is not read in place like a list.
	if f.task == reading {
		if f.at("rights") {
			var err error
			if *v, err = contract.ParseRights(readTexts[string](&f.r, "rights", maxRights)); err != nil {
				f.r.refused("rights", err)
			}
			f.next()
		}
		return
	}

	names := v.Names()
	texts(f, "rights", &names, maxRights, required, `enum:"produce,consume,admin" minItems:"1" maxItems:"3"`,
		"What the token may do. admin includes the other two.")
}

const maxRights = 3

func (f *fields) limits(l *contract.Limits) {
	f.request("Limits")
	f.count("produce", &l.Produce, optional, limitRange, "Calls to push per window. Default: no limit.")
	f.count("consume", &l.Consume, optional, limitRange, "Calls to reserve per window. Default: no limit.")
	f.within("per", &l.Per, contract.MinLimitWindow, contract.MaxLimitWindow, optional, "The length of a window. "+
		"A window begins with the first call in it. Bound: 1s to 366d.")
}

const limitRange = `minimum:"1" maximum:"1000000000"`

// storedToken declares a token in a list.
func (f *fields) storedToken(t *contract.Token) {
	f.answer("StoredToken")
	f.tokenID(&t.Hash, "The SHA-256 of the token's text in hex.")
	f.tokenSettings(t)
	f.time("created_at", &t.CreatedAt, required, "When the token was created.")
}

// madeToken declares a token with its text.
func (f *fields) madeToken(t *Token) {
	f.answer("MadeToken")
	f.tokenID(&t.Hash, "The SHA-256 of its text in hex. Lists and revoke use it.")
	f.name("token", &t.Secret, required, "", "The token's text. The server shows it only once and keeps its hash.")
	f.tokenSettings(&t.Token)
	f.time("created_at", &t.CreatedAt, required, "When the token was created.")
}

// tokenID declares the hash of a token in hex. A writer leaves out zero.
func (f *fields) tokenID(hash *[32]byte, doc string) {
	switch f.task {
	case writing:
		// A zero hash means that there is no ID to send.
		if *hash != [32]byte{} {
			f.write("id")
			f.dst = appendString(f.dst, TokenID(*hash))
		}
	case reading:
		if f.at("id") {
			var err error
			if *hash, err = ParseTokenID(f.r.string("id")); err != nil {
				f.r.refused("id", err)
			}
			f.next()
		}
	default:
		f.describe("id", Text, required, "", doc)
	}
}

func (f *fields) tokens(p *contract.TokenPage) {
	f.answer("Tokens")
	list(f, "tokens", &p.Tokens, required, "The tokens of this page, by ID.", (*fields).storedToken)
	f.cursor(&p.Next)
}

// limitToken declares a change of a token's limits.
func (f *fields) limitToken(l *contract.Limits, given *bool) {
	f.request("LimitToken")

	// nested does not report whether the field was present, and {} is a valid value.
	*given = *given || f.task == reading && f.key == "limits"
	f.nested("limits", false, required, "All limits; {} removes them.", func() { f.limits(l) })
}

// ReadLimits reads a change of a token's limits. A limit that is absent is removed.
func ReadLimits(text string) (l contract.Limits, err error) {
	given := false
	err = readForm(text, strict, func(f *fields) { f.limitToken(&l, &given) })
	if err == nil && !given {
		err = contract.Invalid("limits", "are missing; send {} to remove the limits")
	}
	return l, err
}
