package admin

import (
	"io"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/server/auth"
	"github.com/dulymq/duly/server/pools"
	"github.com/dulymq/duly/server/route"
)

// API serves an operator. A nil Maintainer or Backuper makes its routes answer
// unsupported.
type API struct {
	Maintainer duly.Maintainer
	Registry   duly.Registry
	Backuper   duly.Backuper
	Pools      *pools.Pools // nil: there is one engine
	Guard      *auth.Guard
	// Gatherer is what /metrics tells.
	Gatherer prometheus.Gatherer
	Clock    clock.Clock
}

func unsupported(what string) error {
	return duly.Errorf(duly.CodeUnsupported, "the engine of this server has no %s", what)
}

// ended is the answer to a caller who has lasted longer than the token.
func ended(cause error) error {
	if auth.Changed(cause) {
		return duly.Errorf(duly.CodeUnauthorized, "the token was changed meanwhile; begin anew")
	}
	return cause
}

// lateStream begins the answer with the first byte, so that an error before it
// can still be told.
type lateStream struct {
	call *route.Call
	name string // of the file
	w    io.Writer
}

func (s *lateStream) Write(b []byte) (n int, err error) {
	if s.w == nil {
		s.call.W.Header().Set("Content-Disposition", `attachment; filename="`+s.name+`"`)
		if s.w, err = s.call.Stream("application/octet-stream"); err != nil {
			return 0, err
		}
	}
	return s.w.Write(b)
}
