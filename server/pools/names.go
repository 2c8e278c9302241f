package pools

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

func compare(a, b string) int { return strings.Compare(a, b) }

// lister is a paged list of names in their order.
type lister func(ctx context.Context, p duly.PageParams) (duly.NamePage, error)

// place is where a merged list goes on: behind a name, and for each of the
// lists at the page that it begins in. Over is set for a list without more.
type place struct {
	Last  string   `json:"l"`
	Pages []string `json:"p"`
	Over  []bool   `json:"o"`
}

func readPlace(cursor string, lists int) (at place, err error) {
	if cursor == "" {
		return place{Pages: make([]string, lists), Over: make([]bool, lists)}, nil
	}
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || json.Unmarshal(text, &at) != nil || len(at.Pages) != lists || len(at.Over) != lists {
		return at, contract.BadCursor()
	}
	return at, nil
}

func (at place) cursor() string {
	text, _ := json.Marshal(at) // strings and booleans
	return base64.RawURLEncoding.EncodeToString(text)
}

// merge is one page of several lists together, each name once.
func merge(ctx context.Context, p duly.PageParams, lists []lister) (page duly.NamePage, err error) {
	if err := contract.ValidatePage(&p); err != nil {
		return page, err
	}
	at, err := readPlace(p.Cursor, len(lists))
	if err != nil {
		return page, err
	}
	// A name counts up to the end of every page that is not its list's last: what
	// follows may stand before it.
	bound, blind, pages := "", false, make([]duly.NamePage, len(lists))
	for i, list := range lists {
		if at.Over[i] {
			continue
		}
		if pages[i], err = list(ctx, duly.PageParams{Cursor: at.Pages[i], Limit: p.Limit}); err != nil {
			return page, err
		}
		page.Names = append(page.Names, pages[i].Names...)
		n := len(pages[i].Names)
		blind = blind || n == 0 && pages[i].Next != "" // its next name may be any
		if pages[i].Next != "" && n > 0 && (bound == "" || pages[i].Names[n-1] < bound) {
			bound = pages[i].Names[n-1]
		}
	}
	slices.Sort(page.Names)
	page.Names = slices.DeleteFunc(slices.Compact(page.Names), func(name string) bool {
		return blind || name <= at.Last && at.Last != "" || bound != "" && name > bound
	})
	page.Names = page.Names[:min(len(page.Names), p.Limit)]
	if n := len(page.Names); n > 0 {
		at.Last = page.Names[n-1]
	}
	more := false
	for i := range lists {
		more = at.advance(i, pages[i]) || more
	}
	if more {
		page.Next = at.cursor()
	}
	return page, nil
}

// advance goes to a list's next page once all of this one was told, and tells
// whether the list has more.
func (at *place) advance(i int, page duly.NamePage) (more bool) {
	if at.Over[i] {
		return false
	}
	if n := len(page.Names); n > 0 && page.Names[n-1] > at.Last {
		return true
	}
	at.Pages[i], at.Over[i] = page.Next, page.Next == ""
	return !at.Over[i]
}

// Namespaces implements contract.Registry: those of all pools. While one can't be
// reached it fails, for a list that silently lacks some is worse than none.
func (r *Pools) Namespaces(ctx context.Context, p duly.PageParams) (duly.NamePage, error) {
	return merge(ctx, p, r.lists())
}

// EachPool lists the namespaces of every pool by itself, for who would rather
// know some of them than none where a pool is down. One that moves may be in two.
func (r *Pools) EachPool() []func(context.Context, duly.PageParams) (duly.NamePage, error) {
	var each []func(context.Context, duly.PageParams) (duly.NamePage, error)
	for _, list := range r.lists() {
		each = append(each, list)
	}
	return each
}

func (r *Pools) lists() []lister {
	lists := make([]lister, len(r.all))
	for i, pool := range r.all {
		lists[i] = func(ctx context.Context, p duly.PageParams) (duly.NamePage, error) {
			engine, err := pool.get()
			if err != nil {
				return duly.NamePage{}, err
			}
			registry, ok := engine.(contract.Registry)
			if !ok { // another server's: it tells nobody but its own operator
				return duly.NamePage{}, nil
			}
			return registry.Namespaces(ctx, p)
		}
	}
	return lists
}
