package native

import "github.com/dulymq/duly"

// page is the most that a list brings; without bodies, what is likely.
func (a *API) page(p duly.ListParams) int64 {
	n := p.Limit
	if n == 0 {
		n = duly.DefaultPage
	}
	if p.Bodies {
		return a.poll.Bodies(n)
	}
	return int64(n) * 512
}
