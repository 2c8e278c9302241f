package lmstfy

import (
	"encoding/json"
	"net/http"
	"runtime/debug"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/server/route"
)

// indented returns JSON in the form that lmstfy has for people.
func indented(v any) []byte {
	b, err := json.MarshalIndent(v, "", "    ")
	if err != nil {
		panic("lmstfy: " + err.Error()) // impossible, because only types of this package are encoded
	}
	return b
}

func (a *Admin) pools(c *route.Call) error {
	return c.Reply(http.StatusOK, indented(a.Pools.Names()))
}

// poolOr returns the name of a pool. If it is empty, it returns the name of the default pool.
func poolOr(name string) string {
	if name == "" {
		return contract.DefaultPool
	}
	return name
}

// info answers with all namespaces of a pool and their queues.
func (a *Admin) info(c *route.Call) error {
	name := poolOr(c.R.URL.Query().Get("pool"))
	if !a.Pools.Has(name) {
		// For an unknown pool, lmstfy sends an empty answer.
		return c.ReplyAs(http.StatusOK, "text/plain; charset=utf-8", nil)
	}

	all := map[string][]string{}
	err := eachQueue(c.Context(), a.Registry, a.Engine, func(q duly.QueueRef) error {
		where, err := a.Pools.Where(c.Context(), q.Namespace)
		if err != nil || where.Pool != name {
			return err
		}
		all[q.Namespace] = append(all[q.Namespace], q.Name)
		return nil
	})
	if err != nil {
		return err
	}
	return c.ReplyAs(http.StatusOK, "text/plain; charset=utf-8", append(indented(all), '\n'))
}

type versionForm struct {
	BuildCommit string `json:"build_commit"`
	BuildDate   string `json:"build_date"`
	Version     string `json:"version"`
}

func (a *Admin) version(c *route.Call) error {
	v := versionForm{"unknown", "unknown", a.Version}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				v.BuildCommit = s.Value
			case "vcs.time":
				v.BuildDate = s.Value
			}
		}
	}
	return c.Reply(http.StatusOK, indented(v))
}

type statusForm struct {
	Status string `json:"status"`
}

// accessLog answers whether successful requests are logged.
func (a *Admin) accessLog(c *route.Call) error {
	status := "disabled"
	if a.Router.AccessLog.Load() {
		status = "enabled"
	}
	return reply(c, http.StatusOK, statusForm{status})
}

func (a *Admin) setAccessLog(c *route.Call) error {
	switch c.R.URL.Query().Get("status") {
	case "enable":
		a.Router.AccessLog.Store(true)
	case "disable":
		a.Router.AccessLog.Store(false)
	default:
		return badRequest("invalid status")
	}
	return a.accessLog(c)
}
