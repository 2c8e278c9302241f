package tokens

import (
	"context"

	"github.com/redis/rueidis"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/redisengine/internal/codec"
	"github.com/dulymq/duly/redisengine/internal/link"
	"github.com/dulymq/duly/redisengine/internal/store"
)

// These are the commands on placements, which are stored with the tokens.
var (
	scriptPlacementPut     = loadToken("placement_put")
	scriptPlacementList, _ = store.LoadAny("placement_list")
)

// PutPlacement implements contract.Placer.
func (e *Tokens) PutPlacement(ctx context.Context, p contract.Placement) error {
	if err := p.Validate(); err != nil {
		return err
	}
	if err := e.store.Alive(ctx); err != nil {
		return err
	}
	r, err := e.callToken(ctx, scriptPlacementPut, contract.NamespaceOr(p.Namespace), decimal(p.Version),
		decimal(p.Version+1),
		p.Pool, p.From, string(p.Phase), decimal(clock.Milli(p.Since)), p.FormerText())
	if err == nil && r.Word == "conflict" {
		err = contract.PlacementConflict(p.Namespace)
	}
	return err
}

// FindPlacement implements contract.Placer.
func (e *Tokens) FindPlacement(ctx context.Context, namespace string) (p contract.Placement, err error) {
	if err := contract.ValidateNamespace(namespace); err != nil {
		return p, err
	}
	if err := e.store.Alive(ctx); err != nil {
		return p, err
	}
	namespace = contract.NamespaceOr(namespace)
	msg, err := e.store.Link.Do(ctx, e.store.Link.B().Hget().Key(e.store.TokenKey("placements")).Field(namespace).Build())
	if err != nil {
		return p, err
	}
	if msg.IsNil() {
		return p, contract.Errorf(duly.CodeNotFound, "namespace %s has no placement", namespace)
	}
	return e.readPlacement(namespace, &msg)
}

// readPlacement unpacks a placement that the script placement_put has stored.
func (e *Tokens) readPlacement(namespace string, msg *rueidis.RedisMessage) (contract.Placement, error) {
	u := codec.Unpacker{Rest: codec.Text(msg)}
	fields := u.Array()
	p := contract.Placement{Namespace: namespace, Version: u.Decimal(), Pool: u.Text(), From: u.Text(),
		Phase: contract.MovePhase(u.Text())}
	p.Since = clock.FromMilli(u.Decimal())
	p.Former = contract.ParseFormer(u.Text())
	// Either another program has written this value, or another version of duly.
	if u.Bad || fields != 6 {
		return contract.Placement{}, contract.Errorf(
			duly.CodeCorrupt,
			"the placement of namespace %s can't be read: another program may have written to the key %s; "+
				"move the namespace again with duly pool move",
			namespace, e.store.TokenKey("placements"),
		)
	}
	return p, nil
}

// Placements implements contract.Placer.
func (e *Tokens) Placements(ctx context.Context, p duly.PageParams) (page contract.PlacementPage, err error) {
	if err := contract.ValidateNamePage(&p); err != nil {
		return page, err
	}
	if err := e.store.Alive(ctx); err != nil {
		return page, err
	}

	msg, err := e.store.Link.Run(ctx, link.Call{
		Script: scriptPlacementList, Keys: []string{e.store.TokenKey("placements"), e.store.TokenKey("placed")},
		Args: []string{"(" + p.Cursor, decimal(p.Limit)},
	})

	if err != nil {
		return page, err
	}

	items, next := codec.ReadPage(&msg)
	page.Next = next
	for ; len(items) > 1; items = items[2:] {
		one, err := e.readPlacement(codec.Text(&items[0]), &items[1])
		if err != nil {
			return contract.PlacementPage{}, err
		}
		page.Placements = append(page.Placements, one)
	}

	return page, nil
}
