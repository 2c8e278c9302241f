package tokens

import (
	"context"
	"encoding/hex"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/redisengine/internal/catalog"
	"github.com/dulymq/duly/redisengine/internal/codec"
	"github.com/dulymq/duly/redisengine/internal/link"
	"github.com/dulymq/duly/redisengine/internal/store"
)

// Tokens is the registry of tokens and placements. It counts the calls of limited tokens.
type Tokens struct {
	store  *store.Store
	resets *catalog.Resets
	watch  watch
}

// New returns the registry of a store. It reports lost tokens to resets.
func New(s *store.Store, resets *catalog.Resets) *Tokens { return &Tokens{store: s, resets: resets} }

// tokenScript is a command on tokens. All their keys have one hash tag.
type tokenScript struct {
	*link.Script
	keys []string
}

func loadToken(name string) tokenScript {
	script, keys := store.LoadAny(name)
	return tokenScript{script, keys}
}

// These are the commands on tokens.
var (
	scriptTokenPut      = loadToken("token_put")
	scriptTokenLimit    = loadToken("token_limit")
	scriptTokenDrop     = loadToken("token_drop")
	scriptTokenSpend    = loadToken("token_spend")
	scriptTokenGiveBack = loadToken("token_give_back")
	scriptTokenList, _  = store.LoadAny("token_list")
)

// callToken runs a command on tokens.
func (e *Tokens) callToken(ctx context.Context, sc tokenScript, args ...string) (r catalog.Reply, err error) {
	keys := make([]string, len(sc.keys))
	for i, name := range sc.keys {
		keys[i] = e.store.TokenKey(name)
	}
	msg, err := e.store.Link.Run(ctx, link.Call{Script: sc.Script, Keys: keys, Args: args})
	if err != nil {
		return r, err
	}
	items := codec.Elements(&msg)
	if len(items) == 0 {
		return r, e.store.UnexpectedReply(sc.Name)
	}
	r = catalog.Reply{Word: codec.Text(&items[0]), Rest: items[1:]}
	if r.Word == "none" {
		err = contract.NoToken()
	}
	return r, err
}

// PutToken implements contract.Registry.
func (e *Tokens) PutToken(ctx context.Context, t contract.Token) error {
	if err := t.Validate(); err != nil {
		return err
	}
	if err := e.store.Alive(ctx); err != nil {
		return err
	}
	created := ""
	if !t.CreatedAt.IsZero() {
		created = decimal(clock.Milli(t.CreatedAt))
	}
	args := []string{e.store.Clock(), hex.EncodeToString(t.Hash[:]), t.Namespace, decimal(t.Rights), t.Description,
		created}
	_, err := e.callToken(ctx, scriptTokenPut, append(args, limitArgs(t.Limits)...)...)
	return err
}

func limitArgs(l contract.Limits) []string {
	return []string{decimal(l.Produce), decimal(l.Consume), decimal(l.Per)}
}

func decimal[T ~int | ~int64 | ~uint8](n T) string { return strconv.FormatInt(int64(n), 10) }

// FindToken implements contract.Registry.
func (e *Tokens) FindToken(ctx context.Context, hash [32]byte) (t contract.Token, err error) {
	if err := e.store.Alive(ctx); err != nil {
		return t, err
	}
	msg, err := e.store.Link.Do(ctx, e.store.Link.B().Hget().Key(e.store.TokenKey("tokens")).Field(hex.EncodeToString(hash[:])).Build())
	if err != nil {
		return t, err
	}
	if msg.IsNil() {
		return t, contract.NoToken()
	}
	return e.readToken(hash, &msg)
}

// readToken reads the packed value of token_put.
func (e *Tokens) readToken(hash [32]byte, msg *rueidis.RedisMessage) (contract.Token, error) {
	u := codec.Unpacker{Rest: codec.Text(msg)}
	fields := u.Array()
	t := contract.Token{Hash: hash, Namespace: u.Text()}
	t.Rights = contract.Right(u.Decimal())
	t.Description = u.Text()
	t.CreatedAt = clock.FromMilli(u.Decimal())
	t.Limits = contract.Limits{Produce: int(u.Decimal()), Consume: int(u.Decimal()), Per: time.Duration(u.Decimal())}
	if u.Bad || fields != 7 {
		return contract.Token{}, contract.Errorf(
			duly.CodeCorrupt,
			"token %s can't be read: another program may have written to the key %s; "+
				"revoke it with duly token revoke, and create it again with duly token create",
			hex.EncodeToString(hash[:4]), e.store.TokenKey("tokens"),
		)
	}
	return t, nil
}

// DeleteToken implements contract.Registry.
func (e *Tokens) DeleteToken(ctx context.Context, hash [32]byte) error {
	if err := e.store.Alive(ctx); err != nil {
		return err
	}
	_, err := e.callToken(ctx, scriptTokenDrop, hex.EncodeToString(hash[:]))
	return err
}

// Tokens implements contract.Registry.
func (e *Tokens) Tokens(ctx context.Context, namespace string, p duly.PageParams) (page contract.TokenPage, err error) {
	after, err := contract.ValidateTokenPage(&p)
	if err != nil {
		return page, err
	}
	if err := e.store.Alive(ctx); err != nil {
		return page, err
	}

	set, low, high := "hashes", "("+hex.EncodeToString(after), "+"
	if namespace != "" {
		// A member is NAMESPACE/HASH. In ASCII, 0 follows the slash, so NAMESPACE0 is after all of them.
		set, low, high = "owned", "("+namespace+"/"+hex.EncodeToString(after), "("+namespace+"0"
	}

	msg, err := e.store.Link.Run(ctx, link.Call{
		Script: scriptTokenList, Keys: []string{e.store.TokenKey("tokens"), e.store.TokenKey(set)},
		Args: []string{low, high, decimal(p.Limit)},
	})

	if err != nil {
		return page, err
	}

	items, next := codec.ReadPage(&msg)
	page.Next = next
	for ; len(items) > 1; items = items[2:] {
		var hash [32]byte
		if _, err := hex.Decode(hash[:], []byte(codec.Text(&items[0]))); err != nil {
			return contract.TokenPage{}, contract.Errorf(
				duly.CodeCorrupt,
				"the key %s has an entry that is not a token's: another program has written there; choose another prefix in "+
					"the URL, or remove that entry",
				e.store.TokenKey(set),
			)
		}
		t, err := e.readToken(hash, &items[1])
		if err != nil {
			return contract.TokenPage{}, err
		}
		page.Tokens = append(page.Tokens, t)
	}

	return page, nil
}
