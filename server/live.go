package server

import (
	"context"
	"net/netip"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/server/auth"
	"github.com/dulymq/duly/server/route"
	"github.com/dulymq/duly/server/webhook/guard"
)

// Live is what may change while a server serves, see [Server.Apply].
type Live struct {
	// Accounts may do what is on the admin address, by basic auth.
	Accounts []auth.Account
	// Proxies are the networks whose X-Forwarded-For is believed when failed
	// attempts are counted per address. Default: none, not even the loopback.
	Proxies []netip.Prefix
	// Drain is how long requests may take to end when the server stops.
	// Default 30 s.
	Drain time.Duration
	// Grace is for how long a request may take to arrive, and an answer to be
	// taken, before they must come at 1 KiB a second. Default 10 s.
	Grace time.Duration
	// AccessLog lets the log have a line for every request at info level; else
	// requests that went well are at debug level. POST /accesslog of lmstfy's
	// admin API changes it.
	AccessLog bool
	// Push is what HTTP push may call.
	Push LivePush
}

func (l Live) withDefaults() Live {
	if l.Drain == 0 {
		l.Drain = DefaultDrain
	}
	if l.Grace == 0 {
		l.Grace = 10 * time.Second
	}
	return l
}

func (l Live) validate() error {
	var bad duly.BadFields
	for _, a := range l.Accounts {
		if a.Name == "" {
			bad.Add("accounts", "have one without a name")
		}
	}
	if l.Drain < 0 {
		bad.Add("drain", "is %s, must be at least 0s", duly.FormatDuration(l.Drain))
	}
	if l.Grace < 0 {
		bad.Add("grace", "is %s, must be at least 0s", duly.FormatDuration(l.Grace))
	}
	_, err := guard.New(l.Push.Guard)
	bad.Take(err)
	return bad.Err()
}

// Apply takes over what has changed, for what begins from now on. It answers
// [duly.ErrInvalid], and takes over nothing, where something is wrong, or where
// nobody could use the admin address any more that others can reach.
func (s *Server) Apply(ctx context.Context, l Live) error {
	l = l.withDefaults()
	if err := l.validate(); err != nil {
		return err
	}
	if len(l.Accounts) == 0 && !loopback(s.cfg.AdminAddr) {
		operator, err := s.guard.AnyOperatorToken(ctx)
		if err == nil && !operator {
			err = duly.Invalid("accounts", "are gone, and there is no token with the right admin for all namespaces: nobody could use the admin address")
		}
		if err != nil {
			return err
		}
	}
	if err := s.push.listens(l.Push); err != nil {
		return err
	}
	s.guard.SetAccounts(l.Accounts)
	s.host.Apply(route.Live{Proxies: l.Proxies, Grace: l.Grace})
	if l.AccessLog != s.live.Load().AccessLog { // else it stays as the admin API has set it
		s.host.AccessLog.Store(l.AccessLog)
	}
	s.live.Store(&l)
	return nil
}
