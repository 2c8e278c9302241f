package wire

import (
	"encoding/hex"

	"github.com/dulymq/duly"
)

// Token is a token as it is asked for, as it is shown once with its Secret, and
// as it is listed. Its hash goes as its ID.
type Token struct {
	duly.Token
	Secret string
}

// TokenID is how a token is named on the wire: its hash in hex.
func TokenID(hash [32]byte) string { return hex.EncodeToString(hash[:]) }

// ParseTokenID reads what TokenID writes; [duly.ErrInvalid].
func ParseTokenID(id string) (hash [32]byte, err error) {
	if len(id) != hex.EncodedLen(len(hash)) {
		return hash, badTokenID()
	}
	if _, err := hex.Decode(hash[:], []byte(id)); err != nil {
		return hash, badTokenID()
	}
	return hash, nil
}

// badTokenID never repeats what was given: it may be a secret at the wrong
// place.
func badTokenID() error {
	return duly.Invalid("id", "is not that of a token, 64 hexadecimal digits; the list of tokens tells it")
}

// AppendToken writes a token; what it does not have is left out.
func AppendToken(dst []byte, t Token) []byte {
	o := begin(dst)
	if t.Hash != ([32]byte{}) {
		o.string("id", TokenID(t.Hash))
	}
	o.text("token", t.Secret)
	o.string("namespace", t.Namespace)
	texts(&o, "rights", t.Rights.Names())
	o.text("description", t.Description)
	if t.Limits != (duly.Limits{}) {
		o.limits(t.Limits)
	}
	o.time("created_at", t.CreatedAt)
	return o.end()
}

func (o *object) limits(l duly.Limits) {
	o.key("limits")
	inner := begin(o.dst)
	for _, right := range [...]duly.Right{duly.RightProduce, duly.RightConsume} {
		if n := l.Of(right); n != 0 {
			inner.int(right.Names()[0], int64(n))
		}
	}
	if l.Per != 0 {
		inner.duration("per", l.Per)
	}
	o.dst = inner.end()
}

// AppendTokens writes a page of tokens.
func AppendTokens(dst []byte, p duly.TokenPage) []byte {
	o := begin(dst)
	list(&o, "tokens", p.Tokens, func(dst []byte, t *duly.Token) []byte { return AppendToken(dst, Token{Token: *t}) })
	o.string("next", p.Next)
	return o.end()
}

// AppendLimits writes the change of a token's limits.
func AppendLimits(dst []byte, l duly.Limits) []byte {
	o := begin(dst)
	o.limits(l)
	return o.end()
}

// ReadToken reads a token. A strict reader knows nothing of IDs, secrets and
// times: the server makes them.
func ReadToken(text string, mode Mode) (t Token, err error) {
	err = parse(text, mode, func(r *reader) { r.token(&t) })
	return t, err
}

// ReadTokens reads a page of tokens.
func ReadTokens(text string) (p duly.TokenPage, err error) {
	err = readList(text, "tokens", func(r *reader) {
		var t Token
		r.token(&t)
		p.Tokens = append(p.Tokens, t.Token)
	}, next(&p.Next))
	return p, err
}

// ReadLimits reads the change of a token's limits, all of them: what is left
// out is not limited any more.
func ReadLimits(text string, mode Mode) (l duly.Limits, err error) {
	err = parse(text, mode, func(r *reader) {
		given := false
		for key := range r.object {
			if key == "limits" {
				given = true
				r.limits(&l)
			} else {
				r.unknown(key)
			}
		}
		if !given {
			r.bad("limits", "are missing; {} takes them away")
		}
	})
	return l, err
}

func (r *reader) token(t *Token) {
	for key := range r.object {
		switch {
		case key == "namespace":
			t.Namespace = r.name(key)
		case key == "rights":
			t.Rights = r.rights(key)
		case key == "description":
			t.Description = r.string(key)
		case key == "limits":
			r.limits(&t.Limits)
		case key == "id" && r.mode == Lenient:
			hash, err := ParseTokenID(r.string(key))
			if t.Hash = hash; err != nil {
				r.refused(key, err)
			}
		case key == "token" && r.mode == Lenient:
			t.Secret = r.string(key)
		case key == "created_at" && r.mode == Lenient:
			t.CreatedAt = r.time(key)
		default:
			r.unknown(key)
		}
	}
}

func (r *reader) limits(l *duly.Limits) {
	for key := range r.object {
		switch key {
		case "produce":
			l.Produce = r.count("limits.produce", false)
		case "consume":
			l.Consume = r.count("limits.consume", false)
		case "per":
			l.Per = r.within("limits.per", duly.MinLimitWindow, duly.MaxLimitWindow)
		default:
			r.unknown(key)
		}
	}
}

// mostRights is how many rights there are.
const mostRights = 3

func (r *reader) rights(field string) duly.Right {
	rights, err := duly.ParseRights(r.strings(field, mostRights))
	if err != nil {
		r.refused(field, err)
	}
	return rights
}
