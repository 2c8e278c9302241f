package tokens

import (
	"context"
	"strings"

	"github.com/redis/rueidis"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/redisengine/internal/codec"
	"github.com/dulymq/duly/redisengine/internal/link"
	"github.com/dulymq/duly/redisengine/internal/store"
)

// These are the commands on targets, which are stored with the tokens.
var (
	scriptTargetPut     = loadToken("target_put")
	scriptTargetDrop    = loadToken("target_drop")
	scriptTargetList, _ = store.LoadAny("target_list")
)

// targetField returns the name of a target in the keys: NAMESPACE/NAME.
func targetField(namespace, name string) string { return contract.NamespaceOr(namespace) + "/" + name }

// namedTargets returns the bounds of a namespace's targets after a name. The character 0 follows
// the slash.
func namedTargets(namespace, after string) (low, high string) {
	return "(" + targetField(namespace, after), "(" + contract.NamespaceOr(namespace) + "0"
}

// PutTarget implements contract.Targeter.
func (e *Tokens) PutTarget(ctx context.Context, t contract.Target) error {
	if err := t.Validate(); err != nil {
		return err
	}
	if err := e.store.Alive(ctx); err != nil {
		return err
	}
	low, high := "", ""
	// A namespace's default target does not count towards the limit.
	if t.Name != "" {
		low, high = namedTargets(t.Namespace, "")
	}

	r, err := e.callToken(ctx, scriptTargetPut, targetField(t.Namespace, t.Name), decimal(t.Version), decimal(t.Version+1),
		rueidis.BinaryString(t.Settings), low, high, decimal(contract.MaxTargets-1))
	switch {
	case err != nil:
		return err
	case r.Word == "conflict":
		return contract.TargetConflict(t.Namespace, t.Name)
	case r.Word == "full":
		return contract.TargetsFull(t.Namespace)
	}
	return nil
}

// FindTarget implements contract.Targeter.
func (e *Tokens) FindTarget(ctx context.Context, namespace, name string) (t contract.Target, err error) {
	if err := contract.ValidateTarget(namespace, name); err != nil {
		return t, err
	}
	if err := e.store.Alive(ctx); err != nil {
		return t, err
	}
	field := targetField(namespace, name)
	msg, err := e.store.Link.Do(ctx, e.store.Link.B().Hget().Key(e.store.TokenKey("targets")).Field(field).Build())
	if err != nil {
		return t, err
	}
	if msg.IsNil() {
		return t, contract.NoTargetNamed(namespace, name)
	}
	return e.readTarget(field, &msg)
}

// readTarget reads the packed value of target_put.
func (e *Tokens) readTarget(field string, msg *rueidis.RedisMessage) (contract.Target, error) {
	namespace, name, _ := strings.Cut(field, "/")
	u := codec.Unpacker{Rest: codec.Text(msg)}
	fields := u.Array()
	t := contract.Target{Namespace: namespace, Name: name, Version: u.Decimal(), Settings: []byte(u.Text())}
	if u.Bad || fields != 2 {
		return contract.Target{}, contract.Errorf(
			duly.CodeCorrupt,
			"target %s can't be read: another program may have written to the key %s; delete the target and create it again",
			contract.Quoted(field), e.store.TokenKey("targets"),
		)
	}
	return t, nil
}

// DeleteTarget implements contract.Targeter.
func (e *Tokens) DeleteTarget(ctx context.Context, namespace, name string) error {
	if err := contract.ValidateTarget(namespace, name); err != nil {
		return err
	}
	if err := e.store.Alive(ctx); err != nil {
		return err
	}
	r, err := e.callToken(ctx, scriptTargetDrop, targetField(namespace, name))
	if r.Word == "none" {
		return contract.NoTargetNamed(namespace, name)
	}
	return err
}

// Targets implements contract.Targeter.
func (e *Tokens) Targets(ctx context.Context, namespace string, p duly.PageParams) (page contract.TargetPage,
	err error) {
	if err := contract.ValidateNamePage(&p); err != nil {
		return page, err
	}
	if err := contract.ValidateNamespace(namespace); err != nil {
		return page, err
	}
	if err := e.store.Alive(ctx); err != nil {
		return page, err
	}

	low, high := namedTargets(namespace, p.Cursor)
	msg, err := e.store.Link.Run(ctx, link.Call{
		Script: scriptTargetList, Keys: []string{e.store.TokenKey("targets"), e.store.TokenKey("targeted")},
		Args: []string{low, high, decimal(p.Limit)},
	})
	if err != nil {
		return page, err
	}

	items, next := codec.ReadPage(&msg)
	_, page.Next, _ = strings.Cut(next, "/")
	for ; len(items) > 1; items = items[2:] {
		one, err := e.readTarget(codec.Text(&items[0]), &items[1])
		if err != nil {
			return contract.TargetPage{}, err
		}
		page.Targets = append(page.Targets, one)
	}
	return page, nil
}

// PushQueues implements contract.Targeter.
func (e *Tokens) PushQueues(ctx context.Context, p duly.PageParams) (page contract.QueuePage, err error) {
	after, err := contract.ValidateQueuePage(&p)
	if err != nil {
		return page, err
	}
	if err := e.store.Alive(ctx); err != nil {
		return page, err
	}
	low := "-"
	if p.Cursor != "" {
		low = "(" + after.String()
	}

	msg, err := e.store.Link.Do(
		ctx,
		e.store.Link.B().Zrangebylex().Key(e.store.TokenKey("pushed")).Min(low).Max("+").Limit(0, int64(p.Limit)+1).Build(),
	)
	if err != nil {
		return page, err
	}
	members := codec.Elements(&msg)
	if len(members) > p.Limit {
		members = members[:p.Limit]
		page.Next = codec.Text(&members[p.Limit-1])
	}
	for i := range members {
		namespace, name, _ := strings.Cut(codec.Text(&members[i]), "/")
		page.Queues = append(page.Queues, duly.QueueRef{Namespace: namespace, Name: name})
	}
	return page, nil
}
