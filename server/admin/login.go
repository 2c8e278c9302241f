package admin

import (
	"net/http"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/wire"
	"github.com/dulymq/duly/server/route"
)

func (a *API) createLoginCode(c *route.Call) error {
	text, err := c.Body()
	if err == nil {
		err = wire.ReadEmpty(text)
	}
	if err != nil {
		return err
	}
	if a.LoginCode == nil {
		return contract.Errorf(duly.CodeUnsupported, "the dashboard of this server is off; set ui.enabled to on")
	}

	var code wire.LoginCode
	code.Path, code.ExpiresAt = a.LoginCode(c.Grant())
	c.Log().Info("login code created", "by", c.Caller())
	return c.Reply(http.StatusCreated, wire.LoginCodeForm.Append(c.Out(), code))
}
