package redisengine

import (
	"context"
	"encoding/hex"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/redisengine/internal/link"
)

var _ duly.Registry = (*Engine)(nil)

// tokenScript is a command on tokens. All their keys carry one hash tag.
type tokenScript struct {
	*link.Script
	keys []string
}

func loadToken(name string) tokenScript {
	script, keys := loadAny(name)
	return tokenScript{script, keys}
}

// The commands.
var (
	scriptTokenPut      = loadToken("token_put")
	scriptTokenLimit    = loadToken("token_limit")
	scriptTokenDrop     = loadToken("token_drop")
	scriptTokenSpend    = loadToken("token_spend")
	scriptTokenGiveBack = loadToken("token_give_back")
	scriptTokenList, _  = loadAny("token_list")
)

// tokenKey is the name of a key by the name that the scripts give it. A
// namespace that is called tokens has the same tag, and keys of other names.
func (e *Engine) tokenKey(name string) string { return e.prefix + ":{tokens}:" + name }

// callToken runs a command on tokens.
func (e *Engine) callToken(ctx context.Context, sc tokenScript, args ...string) (r reply, err error) {
	keys := make([]string, len(sc.keys))
	for i, name := range sc.keys {
		keys[i] = e.tokenKey(name)
	}
	msg, err := e.link.Run(ctx, link.Call{Script: sc.Script, Keys: keys, Args: args})
	if err != nil {
		return r, err
	}
	items := elements(&msg)
	if len(items) == 0 {
		return r, e.strange(sc.Name)
	}
	r = reply{word: text(&items[0]), rest: items[1:]}
	if r.word == "none" {
		err = duly.NoToken()
	}
	return r, err
}

// PutToken implements duly.Registry.
func (e *Engine) PutToken(ctx context.Context, t duly.Token) error {
	if err := t.Validate(); err != nil {
		return err
	}
	if err := e.alive(ctx); err != nil {
		return err
	}
	created := ""
	if !t.CreatedAt.IsZero() {
		created = decimal(clock.Milli(t.CreatedAt))
	}
	args := []string{e.clock(), hex.EncodeToString(t.Hash[:]), t.Namespace, decimal(t.Rights), t.Description, created}
	_, err := e.callToken(ctx, scriptTokenPut, append(args, limitArgs(t.Limits)...)...)
	return err
}

func limitArgs(l duly.Limits) []string {
	return []string{decimal(l.Produce), decimal(l.Consume), decimal(l.Per)}
}

func decimal[T ~int | ~int64 | ~uint8](n T) string { return strconv.FormatInt(int64(n), 10) }

// FindToken implements duly.Registry.
func (e *Engine) FindToken(ctx context.Context, hash [32]byte) (t duly.Token, err error) {
	if err := e.alive(ctx); err != nil {
		return t, err
	}
	msg, err := e.link.Do(ctx, e.link.B().Hget().Key(e.tokenKey("tokens")).Field(hex.EncodeToString(hash[:])).Build())
	if err != nil {
		return t, err
	}
	if msg.IsNil() {
		return t, duly.NoToken()
	}
	return e.readToken(hash, &msg)
}

// readToken reads what token_put has packed.
func (e *Engine) readToken(hash [32]byte, msg *rueidis.RedisMessage) (duly.Token, error) {
	u := unpacker{rest: text(msg)}
	fields := u.array()
	t := duly.Token{Hash: hash, Namespace: u.text()}
	t.Rights = duly.Right(u.decimal())
	t.Description = u.text()
	t.CreatedAt = clock.FromMilli(u.decimal())
	t.Limits = duly.Limits{Produce: int(u.decimal()), Consume: int(u.decimal()), Per: time.Duration(u.decimal())}
	if u.bad || fields != 7 {
		return duly.Token{}, duly.Errorf(duly.CodeCorrupt, "token %s can't be read: another program may have written to the key %s; revoke it by duly token revoke, and make it again by duly token create",
			hex.EncodeToString(hash[:4]), e.tokenKey("tokens"))
	}
	return t, nil
}

// DeleteToken implements duly.Registry.
func (e *Engine) DeleteToken(ctx context.Context, hash [32]byte) error {
	if err := e.alive(ctx); err != nil {
		return err
	}
	_, err := e.callToken(ctx, scriptTokenDrop, hex.EncodeToString(hash[:]))
	return err
}

// Tokens implements duly.Registry.
func (e *Engine) Tokens(ctx context.Context, namespace string, p duly.PageParams) (page duly.TokenPage, err error) {
	after, err := p.ValidateTokens()
	if err != nil {
		return page, err
	}
	if err := e.alive(ctx); err != nil {
		return page, err
	}
	set, low, high := "hashes", "("+hex.EncodeToString(after), "+"
	if namespace != "" {
		// The members are NAMESPACE/HASH, and 0 is what follows the stroke.
		set, low, high = "owned", "("+namespace+"/"+hex.EncodeToString(after), "("+namespace+"0"
	}
	msg, err := e.link.Run(ctx, link.Call{
		Script: scriptTokenList, Keys: []string{e.tokenKey("tokens"), e.tokenKey(set)}, Args: []string{low, high, decimal(p.Limit)},
	})
	if err != nil {
		return page, err
	}
	items, next := pairs(&msg)
	page.Next = next
	for ; len(items) > 1; items = items[2:] {
		var hash [32]byte
		if _, err := hex.Decode(hash[:], []byte(text(&items[0]))); err != nil {
			return duly.TokenPage{}, duly.Errorf(duly.CodeCorrupt, "the key %s holds what is no token's: another program has written there; choose another prefix in the URL, or remove that entry",
				e.tokenKey(set))
		}
		t, err := e.readToken(hash, &items[1])
		if err != nil {
			return duly.TokenPage{}, err
		}
		page.Tokens = append(page.Tokens, t)
	}
	return page, nil
}

// mostEmpty bounds how many pages of names one call of Namespaces reads to find
// those that have queues.
const mostEmpty = 10

// Namespaces implements duly.Registry. A namespace stays in the list when its
// last queue goes: one that is made at the same moment would be lost with it.
func (e *Engine) Namespaces(ctx context.Context, p duly.PageParams) (page duly.NamePage, err error) {
	if err := p.Validate(); err != nil {
		return page, err
	}
	for range mostEmpty {
		some, err := e.names(ctx, e.namespacesKey(), noNamespace, p)
		if err != nil {
			return duly.NamePage{}, err
		}
		names, err := e.withQueues(ctx, some.Names)
		if err != nil {
			return duly.NamePage{}, err
		}
		page.Names = append(page.Names, names...)
		page.Next, p.Cursor = some.Next, some.Next
		if p.Cursor == "" || len(page.Names) >= p.Limit {
			break
		}
	}
	if len(page.Names) > p.Limit {
		page.Names = page.Names[:p.Limit]
		page.Next = page.Names[p.Limit-1]
	}
	return page, nil
}

// withQueues are the namespaces that have queues.
func (e *Engine) withQueues(ctx context.Context, namespaces []string) (some []string, err error) {
	sizes := make([]rueidis.Completed, len(namespaces))
	for i, name := range namespaces {
		sizes[i] = e.link.B().Zcard().Key(e.namesKey(name)).Build()
	}
	for i, r := range e.link.DoAll(ctx, sizes...) {
		if r.Err != nil {
			return nil, r.Err
		}
		if integer(&r.Msg) > 0 {
			some = append(some, namespaces[i])
		}
	}
	return some, nil
}
