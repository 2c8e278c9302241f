package enginetest

import (
	"errors"
	"fmt"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// keysOp compares the order keys of a queue that have a prefix.
type keysOp struct {
	At     queueSpec
	Prefix string
}

func (o keysOp) play(p *pair) {
	// The list shows stored states, so both sides have to apply what is due first.
	p.step(o.At)
	p.keys(o.At, o.Prefix)
}

// keys compares the order keys of a queue with a prefix, in pages of one, and the holders of the keys of the
// scripts.
func (p *pair) keys(at queueSpec, prefix string) {
	p.both(fmt.Sprintf("keys of %s with the prefix %q", at, prefix), func(s side) (string, error) {
		keys, err := p.keyPages(s, at.ref(), prefix)
		return keysText(keys), err
	})
	for _, key := range []string{"k", "l", "m"} {
		p.both(fmt.Sprintf("list of the jobs of %s of %s", key, at), func(s side) (string, error) {
			params := duly.ListParams{State: duly.StateBlocked, Key: p.key(key), PageParams: duly.PageParams{Limit: 1}}
			jobs, err := p.pages(s, at.ref(), params)
			if err != nil {
				return "", err
			}
			params.Newest = true
			newest, err := p.pages(s, at.ref(), params)
			return infosText(jobs) + "\n newest " + infosText(newest), err
		})
		p.both(fmt.Sprintf("holder of %s of %s", key, at), func(s side) (string, error) {
			info, err := contract.KeyListerOf(s.in(at.ref().Namespace)).Holder(p.ctx, at.ref(), p.key(key))
			return keyText(info), err
		})
	}
}

// keyPages returns the order keys of one side.
func (p *pair) keyPages(s side, ref duly.QueueRef, prefix string) (keys []contract.KeyInfo, err error) {
	params := contract.KeysParams{Prefix: prefix, PageParams: duly.PageParams{Limit: 1}}
	// The limit ends a list whose cursors never end.
	for range 1000 {
		page, err := contract.KeyListerOf(s.in(ref.Namespace)).Keys(p.ctx, ref, params)
		if err != nil {
			return nil, err
		}
		keys = append(keys, page.Keys...)
		if params.Cursor = page.Next; page.Next == "" {
			return keys, nil
		}
	}
	return nil, errors.New("a list of keys without an end, want at most 1000 pages")
}
