package httpengine

import (
	"context"
	"fmt"
	"net/url"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/wire"
)

// Keys implements contract.KeyLister, with one request.
func (e *Engine) Keys(ctx context.Context, q duly.QueueRef, p contract.KeysParams) (contract.KeyPage, error) {
	if err := e.beginQueue(q); err != nil {
		return contract.KeyPage{}, err
	}
	defer e.calls.Done()
	// The prefix becomes a part of the URL.
	if _, err := contract.ValidateKeys(q, &p); err != nil {
		return contract.KeyPage{}, err
	}

	query, err := page(p.PageParams)
	if err != nil {
		return contract.KeyPage{}, err
	}
	if p.Prefix != "" {
		query.Set("prefix", p.Prefix)
	}
	return e.keys(ctx, q, query)
}

// Holder implements contract.KeyLister.
func (e *Engine) Holder(ctx context.Context, q duly.QueueRef, key string) (contract.KeyInfo, error) {
	if err := e.beginQueue(q); err != nil {
		return contract.KeyInfo{}, err
	}
	defer e.calls.Done()
	if err := contract.ValidateHolder(q, key); err != nil {
		return contract.KeyInfo{}, err
	}

	found, err := e.keys(ctx, q, url.Values{"key": {key}})
	if err != nil {
		return contract.KeyInfo{}, err
	}
	if len(found.Keys) != 1 {
		return contract.KeyInfo{}, e.link.malformed(fmt.Sprintf("has %d order keys, want one", len(found.Keys)))
	}
	return found.Keys[0], nil
}

func (e *Engine) keys(ctx context.Context, q duly.QueueRef, query url.Values) (contract.KeyPage, error) {
	r := request{method: "GET", path: e.queuePath(q) + "/keys", query: query, max: maxJobs}
	return fetch(ctx, e.link, r, wire.KeysForm.ReadAnswer)
}
