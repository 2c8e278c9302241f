package server

import (
	"context"

	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/server/route"
)

// Apply changes the settings. They apply to requests and connections that begin later. It returns
// [duly.ErrInvalid] and changes nothing if a setting is wrong, or if other machines reach the admin
// address and no operator would be left who can authenticate.
func (s *Server) Apply(ctx context.Context, next Settings) error {
	next = next.withDefaults()
	if err := next.validate(); err != nil {
		return err
	}

	if len(next.Accounts) == 0 && !loopback(s.cfg.Listen.AdminAddr) {
		operator, err := s.guard.AnyOperatorToken(ctx)
		if err == nil && !operator {
			err = contract.Invalid("accounts", "are gone, and there is no token with the right admin for all namespaces: "+
				"nobody could use the admin address; keep an account, or make such a token")
		}
		if err != nil {
			return err
		}
	}

	// This is the last step that can fail, so after an error no setting has changed.
	if err := s.push.guardListeners(next.Push); err != nil {
		return err
	}
	s.guard.SetAccounts(next.Accounts)
	s.router.Apply(route.Settings{Proxies: next.Proxies, Grace: next.Grace})
	// If the setting is unchanged, the value that the admin API has set is kept.
	if next.AccessLog != s.settings.Load().AccessLog {
		s.router.AccessLog.Store(next.AccessLog)
	}
	s.settings.Store(&next)
	return nil
}
