package server

import (
	"context"
	"errors"
	"testing"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/model"
	"github.com/dulymq/duly/server/auth"
)

// forgetting is a registry whose tokens can't be read.
type forgetting struct{ *model.Engine }

func (forgetting) Tokens(context.Context, string, duly.PageParams) (contract.TokenPage, error) {
	return contract.TokenPage{}, duly.ErrUnavailable
}

// C14.38: new settings without an operator are refused if the admin address is public.
func TestApplyLeavesAnOperator(t *testing.T) {
	t.Parallel()
	ada, err := auth.NewAccount("ada", "correct horse")
	if err != nil {
		t.Fatal(err)
	}
	public := func(c *Config) { c.Listen.AdminAddr = "0.0.0.0:0" }

	s := bare(t, public)
	if err := s.Apply(t.Context(), Settings{}); !errors.Is(err, duly.ErrInvalid) {
		t.Errorf("without a token and an account: %v", err)
	}
	if err := s.Apply(t.Context(), Settings{Accounts: []auth.Account{ada}}); err != nil {
		t.Errorf("with an account: %v", err)
	}
	if _, _, err := s.guard.Create(t.Context(),
		contract.Token{Namespace: "*", Rights: contract.RightAdmin}); err != nil {
		t.Fatal(err)
	}
	if err := s.Apply(t.Context(), Settings{}); err != nil {
		t.Errorf("with a token: %v", err)
	}

	if err := bare(t, func(*Config) {}).Apply(t.Context(), Settings{}); err != nil {
		t.Errorf("on the loopback: %v", err)
	}
	lost := bare(t, func(c *Config) { public(c); c.Store.Registry = forgetting{c.Engine.(*model.Engine)} })
	if err := lost.Apply(t.Context(), Settings{}); !errors.Is(err, duly.ErrUnavailable) {
		t.Errorf("with a registry that cannot be read: %v", err)
	}
}
