package admin

import (
	"io"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/server/auth"
	"github.com/dulymq/duly/server/pools"
	"github.com/dulymq/duly/server/route"
)

// API is the API for operators. Without a Maintainer or Backuper, their routes return
// unsupported.
type API struct {
	Maintainer contract.Maintainer
	Registry   contract.Registry
	Backuper   contract.Backuper
	Pools      *pools.Pools // nil if there is only one engine
	Guard      *auth.Guard
	// Gatherer has the metrics of /metrics.
	Gatherer prometheus.Gatherer
	Clock    duly.Clock
	// LoginCode creates a login code for a session of the dashboard. Nil: there is no dashboard.
	LoginCode func(*auth.Grant) (path string, expires time.Time)
}

func unsupported(what string) error {
	return contract.Errorf(duly.CodeUnsupported, "the engine of this server has no %s", what)
}

// ended returns the answer to a caller whose token was revoked or changed during the call.
func ended(cause error) error {
	if auth.Changed(cause) {
		return contract.Errorf(duly.CodeUnauthorized, "the rights or limits of the token have changed during the call; repeat the call")
	}
	return cause
}

// lateStream begins the answer with its first byte. Before that, the answer can still become an
// error.
type lateStream struct {
	call *route.Call
	name string // name of the file that the client saves
	w    io.Writer
}

func (s *lateStream) Write(b []byte) (n int, err error) {
	// Until the first byte, an error can still be an answer with a status.
	if s.w == nil {
		s.call.W.Header().Set("Content-Disposition", `attachment; filename="`+s.name+`"`)
		if s.w, err = s.call.Stream("application/octet-stream"); err != nil {
			return 0, err
		}
	}
	return s.w.Write(b)
}
