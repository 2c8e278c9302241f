package native

import (
	"net/http"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/wire"
	"github.com/dulymq/duly/server/route"
)

// keys answers with a page of order keys, or with one key.
func (a *API) keys(c *route.Call) error {
	key, p, err := readKeys(c)
	if err != nil {
		return err
	}

	// The engine holds the page in memory, so a likely size is reserved before the call.
	if err := c.ReserveMemory(a.pageSize(duly.ListParams{PageParams: p.PageParams})); err != nil {
		return err
	}
	var page contract.KeyPage
	if key != "" {
		info, err := a.cfg.Keys.Holder(c.Context(), queue(c), key)
		if err != nil {
			return err
		}
		page.Keys = []contract.KeyInfo{info}
	} else if page, err = a.cfg.Keys.Keys(c.Context(), queue(c), p); err != nil {
		return err
	}

	size := wire.SizeOfKeys(&page)
	if err := c.ReserveMemory(int64(size)); err != nil {
		return err
	}
	return c.Reply(http.StatusOK, wire.KeysForm.Append(c.Room(size), page))
}

// readKeys reads the parameters of a list of keys. With a key it is about this key alone. Its error has every
// bad parameter.
func readKeys(c *route.Call) (key string, p contract.KeysParams, err error) {
	var f contract.BadFields
	p.PageParams, err = c.Page()
	f.Take(err)
	p.Prefix = c.Query("prefix")

	key = c.Query("key")
	for _, other := range []string{"prefix", "cursor", "limit"} {
		if key != "" && c.Query(other) != "" {
			f.Add(other, "and key are both set, give one of them")
		}
	}
	return key, p, f.Err()
}
