package redisengine

import (
	"context"

	"github.com/redis/rueidis"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/redisengine/internal/link"
)

var _ duly.Placer = (*Engine)(nil)

// The commands on placements, which stand beside the tokens.
var (
	scriptPlacementPut     = loadToken("placement_put")
	scriptPlacementList, _ = loadAny("placement_list")
)

// PutPlacement implements duly.Placer.
func (e *Engine) PutPlacement(ctx context.Context, p duly.Placement) error {
	if err := p.Validate(); err != nil {
		return err
	}
	if err := e.alive(ctx); err != nil {
		return err
	}
	r, err := e.callToken(ctx, scriptPlacementPut, duly.NamespaceOr(p.Namespace), decimal(p.Version), decimal(p.Version+1),
		p.Pool, p.From, string(p.Phase), decimal(clock.Milli(p.Since)), p.FormerText())
	if err == nil && r.word == "conflict" {
		err = duly.PlacementConflict(p.Namespace)
	}
	return err
}

// FindPlacement implements duly.Placer.
func (e *Engine) FindPlacement(ctx context.Context, namespace string) (p duly.Placement, err error) {
	if err := duly.ValidateNamespace(namespace); err != nil {
		return p, err
	}
	if err := e.alive(ctx); err != nil {
		return p, err
	}
	namespace = duly.NamespaceOr(namespace)
	msg, err := e.link.Do(ctx, e.link.B().Hget().Key(e.tokenKey("placements")).Field(namespace).Build())
	if err != nil {
		return p, err
	}
	if msg.IsNil() {
		return p, duly.Errorf(duly.CodeNotFound, "namespace %s was never placed", namespace)
	}
	return e.readPlacement(namespace, &msg)
}

// readPlacement reads what placement_put has packed.
func (e *Engine) readPlacement(namespace string, msg *rueidis.RedisMessage) (duly.Placement, error) {
	u := unpacker{rest: text(msg)}
	fields := u.array()
	p := duly.Placement{Namespace: namespace, Version: u.decimal(), Pool: u.text(), From: u.text(), Phase: duly.MovePhase(u.text())}
	p.Since = clock.FromMilli(u.decimal())
	p.Former = duly.ParseFormer(u.text())
	if u.bad || fields != 6 {
		return duly.Placement{}, duly.Errorf(duly.CodeCorrupt, "the placement of namespace %s can't be read: another program may have written to the key %s; move the namespace again by duly pool move",
			namespace, e.tokenKey("placements"))
	}
	return p, nil
}

// Placements implements duly.Placer.
func (e *Engine) Placements(ctx context.Context, p duly.PageParams) (page duly.PlacementPage, err error) {
	if err := p.ValidateNames(); err != nil {
		return page, err
	}
	if err := e.alive(ctx); err != nil {
		return page, err
	}
	msg, err := e.link.Run(ctx, link.Call{
		Script: scriptPlacementList, Keys: []string{e.tokenKey("placements"), e.tokenKey("placed")}, Args: []string{"(" + p.Cursor, decimal(p.Limit)},
	})
	if err != nil {
		return page, err
	}
	items, next := pairs(&msg)
	page.Next = next
	for ; len(items) > 1; items = items[2:] {
		one, err := e.readPlacement(text(&items[0]), &items[1])
		if err != nil {
			return duly.PlacementPage{}, err
		}
		page.Placements = append(page.Placements, one)
	}
	return page, nil
}
