package pools

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"slices"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// lister returns pages of names in alphabetical order.
type lister func(ctx context.Context, p duly.PageParams) (duly.NamePage, error)

// mergeCursor is the cursor of merged lists: the last name that was returned, and for each list the
// cursor of the page with its next names. Over marks lists that have ended.
type mergeCursor struct {
	Last  string   `json:"l"`
	Pages []string `json:"p"`
	Over  []bool   `json:"o"`
}

func readMergeCursor(cursor string, lists int) (at mergeCursor, err error) {
	if cursor == "" {
		return mergeCursor{Pages: make([]string, lists), Over: make([]bool, lists)}, nil
	}
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || json.Unmarshal(text, &at) != nil || len(at.Pages) != lists || len(at.Over) != lists {
		return at, contract.BadCursor()
	}
	return at, nil
}

func (at mergeCursor) cursor() string {
	// A cursor has only strings and booleans, so no error is possible.
	text, _ := json.Marshal(at)
	return base64.RawURLEncoding.EncodeToString(text)
}

// mergeNames returns one page of several lists together, each name once.
func mergeNames(ctx context.Context, p duly.PageParams, lists []lister) (page duly.NamePage, err error) {
	if err := contract.ValidatePage(&p); err != nil {
		return page, err
	}
	at, err := readMergeCursor(p.Cursor, len(lists))
	if err != nil {
		return page, err
	}

	// If a page is not the last page of its list, the result ends at its last name. The reason: the
	// next page of that list may have names that come before those of other lists.
	bound, unbounded, pages := "", false, make([]duly.NamePage, len(lists))
	for i, list := range lists {
		if at.Over[i] {
			continue
		}
		if pages[i], err = list(ctx, duly.PageParams{Cursor: at.Pages[i], Limit: p.Limit}); err != nil {
			return page, err
		}
		page.Names = append(page.Names, pages[i].Names...)

		n := len(pages[i].Names)
		// An empty page that is not the last one gives no last name, so no name is safe.
		unbounded = unbounded || n == 0 && pages[i].Next != ""
		if pages[i].Next != "" && n > 0 && (bound == "" || pages[i].Names[n-1] < bound) {
			bound = pages[i].Names[n-1]
		}
	}

	slices.Sort(page.Names)
	page.Names = slices.DeleteFunc(slices.Compact(page.Names), func(name string) bool {
		return unbounded || name <= at.Last && at.Last != "" || bound != "" && name > bound
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

// advance moves to the next page of a list if every name of this page was returned. It
// reports whether the list has more names.
func (at *mergeCursor) advance(i int, page duly.NamePage) (more bool) {
	if at.Over[i] {
		return false
	}
	if n := len(page.Names); n > 0 && page.Names[n-1] > at.Last {
		return true
	}
	at.Pages[i], at.Over[i] = page.Next, page.Next == ""
	return !at.Over[i]
}

// Namespaces implements contract.Registry. It returns the namespaces of all pools, and fails if one
// of the pools is not reachable, because an incomplete list would be worse than an error.
func (r *Pools) Namespaces(ctx context.Context, p duly.PageParams) (duly.NamePage, error) {
	return mergeNames(ctx, p, r.namespaceLists())
}

// EachPool returns a list of namespaces per pool. So a caller can list the other pools while one is
// down. A namespace that moves may be in two lists.
func (r *Pools) EachPool() []func(context.Context, duly.PageParams) (duly.NamePage, error) {
	var each []func(context.Context, duly.PageParams) (duly.NamePage, error)
	for _, list := range r.namespaceLists() {
		each = append(each, list)
	}
	return each
}

func (r *Pools) namespaceLists() []lister {
	lists := make([]lister, len(r.all))
	for i, pool := range r.all {
		lists[i] = func(ctx context.Context, p duly.PageParams) (duly.NamePage, error) {
			engine, err := pool.get()
			if err != nil {
				return duly.NamePage{}, err
			}
			registry, ok := engine.(contract.Registry)
			// The engine of a remote server lists its namespaces only for an operator of that
			// server.
			if !ok {
				return duly.NamePage{}, nil
			}
			return registry.Namespaces(ctx, p)
		}
	}
	return lists
}
