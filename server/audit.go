package server

import (
	"path/filepath"

	"github.com/dulymq/duly/server/audit"
	"github.com/dulymq/duly/server/auth"
	"github.com/dulymq/duly/server/route"
)

// AuditFolder is the folder of the audit log, in the data folder.
const AuditFolder = "audit"

func auditConfig(cfg *Config) audit.Config {
	c := audit.Config{Clock: cfg.Clock, Logger: cfg.Logger}
	if dir := cfg.Listen.DataDir; dir != "" {
		c.Dir = filepath.Join(dir, AuditFolder)
	}
	return c
}

// audited makes the routes of an API write the audit log, if they need the right admin and may change something. The
// call continues if a line cannot be written, because operators must be able to free a full disk.
func (s *Server) audited(routes []route.Route, via string) []route.Route {
	for i := range routes {
		r := &routes[i]
		if r.Method == "GET" || r.Access != auth.Admin && r.Access != auth.Operator {
			continue
		}
		name, handler := r.Method+" "+r.Path, r.Handler
		r.Handler = func(c *route.Call) error {
			end := s.audit.BeginLoose(audit.Action{
				Caller: c.Caller(), Remote: c.R.RemoteAddr, Via: via, Route: name, Namespace: c.Namespace,
				Queue: c.PathValue("queue"), Request: c.ID(),
			})
			err := handler(c)
			end(audit.Outcome{Err: err})
			return err
		}
	}
	return routes
}
