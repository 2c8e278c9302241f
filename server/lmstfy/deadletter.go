package lmstfy

import (
	"math"
	"net/http"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/server/route"
)

type deadForm struct {
	Head      string `json:"deadletter_head"`
	Size      int64  `json:"deadletter_size"`
	Namespace string `json:"namespace"`
	Queue     string `json:"queue"`
}

// peekDead answers with the ID of the oldest dead job, or "" if there is none.
func (a *API) peekDead(c *route.Call) error {
	stats, err := a.engine.Stats(c.Context(), queue(c))
	if err != nil {
		return err
	}
	// The number of dead jobs and the oldest one come from two calls, so they may differ in time.
	first := duly.ListParams{State: duly.StateDead, PageParams: duly.PageParams{Limit: 1}}
	page, err := a.engine.List(c.Context(), queue(c), first)
	if err != nil {
		return err
	}

	d := deadForm{Size: stats.Sizes.Dead, Namespace: c.Namespace, Queue: c.PathValue("queue")}
	if len(page.Jobs) > 0 {
		d.Head = page.Jobs[0].ID
	}
	return reply(c, http.StatusOK, d)
}

func (a *API) deadSize(c *route.Call) error {
	stats, err := a.engine.Stats(c.Context(), queue(c))
	if err != nil {
		return err
	}
	return reply(c, http.StatusOK, sizeForm{c.Namespace, c.PathValue("queue"), stats.Sizes.Dead})
}

type respawned struct {
	Count int64  `json:"count"`
	Msg   string `json:"msg"`
}

// readLimit reads the number of dead jobs.
func readLimit(p params) (int64, error) { return p.signed("limit", 1, 1, math.MaxInt64) }

// respawn requeues the oldest dead jobs, with one try. It requeues as many as were dead when it
// began, because some of them may die again during the call.
func (a *API) respawn(c *route.Call) error {
	p := query(c)
	limit, err := readLimit(p)
	if err != nil {
		return err
	}
	ttl, err := p.signed("ttl", int64(inSeconds(a.defaults.TTL)), 0, math.MaxUint32)
	if err != nil {
		return err
	}
	stats, err := a.engine.Stats(c.Context(), queue(c))
	if err != nil {
		return err
	}

	r := respawned{Msg: "respawned"}
	for left := min(limit, stats.Sizes.Dead); left > 0; {
		next := duly.RequeueParams{N: int(min(left, duly.MaxBatch)), Tries: 1, TTL: lifetime(ttl)}
		results, err := a.engine.Requeue(c.Context(), queue(c), next)
		if err != nil {
			return err
		}
		// Another caller has requeued or deleted the remaining jobs.
		if len(results) == 0 {
			break
		}
		// A job that another caller took in between counts as well. Otherwise the loop might not
		// end.
		left -= int64(len(results))
		for i := range results {
			if results[i].Err == nil {
				r.Count++
			}
		}
	}
	return reply(c, http.StatusOK, r)
}

// deleteDead deletes the oldest dead jobs.
func (a *API) deleteDead(c *route.Call) error {
	limit, err := readLimit(query(c))
	if err != nil {
		return err
	}
	// The bound fits into an int on every platform.
	_, err = a.engine.Purge(c.Context(), queue(c), duly.StateDead, int(min(limit, math.MaxInt32)))
	if err != nil {
		return err
	}
	return c.Empty()
}
