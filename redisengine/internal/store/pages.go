package store

import (
	"context"
	"slices"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// Names returns a page of a sorted set of names. It skips invalid names, which another program
// has written. They can't be used in calls or as cursors.
func (e *Store) Names(ctx context.Context, key string, none func(name string) bool,
	p duly.PageParams) (page duly.NamePage, err error) {
	if err := contract.ValidateNamePage(&p); err != nil {
		return page, err
	}
	return e.NamesBehind(ctx, key, none, p)
}

// NamesBehind is like Names for a cursor that need not be a name in this list.
func (e *Store) NamesBehind(
	ctx context.Context, key string, none func(name string) bool, p duly.PageParams,
) (page duly.NamePage, err error) {
	for after := p.Cursor; ; {
		some, err := e.members(ctx, key, after, p.Limit+1)
		if err != nil {
			return duly.NamePage{}, err
		}

		// One name more than needed shows whether the page is the last.
		last := len(some) <= p.Limit
		if !last {
			after = some[p.Limit]
		}

		// Skipped names make the page shorter, so the loop reads on.
		page.Names = append(page.Names, slices.DeleteFunc(some, none)...)
		if len(page.Names) > p.Limit {
			page.Names = page.Names[:p.Limit]
			page.Next = page.Names[p.Limit-1]
			return page, nil
		}

		if last {
			return page, nil
		}
	}
}

// members returns the first names of a sorted set after a name, or from the beginning for "".
func (e *Store) members(ctx context.Context, key, after string, most int) ([]string, error) {
	if err := e.Alive(ctx); err != nil {
		return nil, err
	}
	from := "-"
	if after != "" {
		from = "(" + after
	}
	msg, err := e.Link.Do(ctx, e.Link.B().Zrangebylex().Key(key).Min(from).Max("+").Limit(0, int64(most)).Build())
	if err != nil {
		return nil, err
	}
	names, err := msg.AsStrSlice()
	if err != nil {
		return nil, e.UnexpectedReply("zrangebylex " + key)
	}
	return names, nil
}

// InvalidQueue reports whether a queue can't have this name.
func InvalidQueue(name string) bool { return contract.ValidateQueue(duly.QueueRef{Name: name}) != nil }

// InvalidNamespace reports whether a namespace can't have this name.
func InvalidNamespace(name string) bool { return name == "" || contract.ValidateNamespace(name) != nil }

// EachPage calls f with every page of a list of names. Some of the names may be invalid.
func (e *Store) EachPage(ctx context.Context, key string, f func(names []string) error) error {
	for after := ""; ; {
		names, err := e.members(ctx, key, after, duly.MaxBatch)
		if err != nil {
			return err
		}
		full := len(names) == duly.MaxBatch
		if full {
			after = names[len(names)-1]
		}
		if err := f(names); err != nil || !full {
			return err
		}
	}
}
