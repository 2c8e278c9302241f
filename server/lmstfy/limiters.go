package lmstfy

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/wire"
	"github.com/dulymq/duly/server/auth"
	"github.com/dulymq/duly/server/route"
)

// limiterForm has a token's limits: consumes and publishes per interval, in seconds. 0 or less is
// no limit.
type limiterForm struct {
	Read     int64 `json:"read"`
	Write    int64 `json:"write"`
	Interval int64 `json:"interval"`
}

type setForm struct {
	Limiter limiterForm `json:"limiter"`
}

func formOf(l contract.Limits) limiterForm {
	return limiterForm{int64(l.Consume), int64(l.Produce), int64(l.Per.Seconds())}
}

// errEmptyLimiter marks a limiter without limits. The request is answered with the limiter itself.
var errEmptyLimiter = errors.New("lmstfy: a limiter that limits nothing")

// limits converts a limiter. It validates the limiter first as lmstfy does, then as the contract
// does.
func (f limiterForm) limits() (l contract.Limits, err error) {
	switch {
	case f.Read == 0 && f.Write == 0:
		return l, errEmptyLimiter
	case f.Interval == 0:
		return l, badRequest("interval should be > 0")
	case f.Interval < 0:
		return l, refuse(http.StatusInternalServerError, "limiter interval should be > 0")
	case f.Read <= 0 && f.Write <= 0:
		return l, refuse(http.StatusInternalServerError, "the read and write of limiter can't be <= 0 at the same time")
	case f.Read > contract.MaxLimit || f.Write > contract.MaxLimit:
		return l, badRequest(fmt.Sprintf("read and write should be <= %d", contract.MaxLimit))
	case f.Interval > int64(contract.MaxLimitWindow.Seconds()):
		return l, badRequest(fmt.Sprintf("interval should be <= %.0f", contract.MaxLimitWindow.Seconds()))
	}
	return contract.Limits{Consume: int(max(0, f.Read)), Produce: int(max(0, f.Write)), Per: seconds(f.Interval)}, nil
}

func (a *Admin) addLimiter(c *route.Call) error {
	return a.limit(c, http.StatusCreated, func(t *contract.Token) error {
		if t.Limits != (contract.Limits{}) {
			return refuse(http.StatusInternalServerError, "throttler token("+auth.Name(t.Hash)+") has already exists")
		}
		return nil
	})
}

func (a *Admin) setLimiter(c *route.Call) error {
	return a.limit(c, http.StatusOK, func(*contract.Token) error { return nil })
}

func (a *Admin) limit(c *route.Call, status int, allowed func(*contract.Token) error) error {
	body, err := c.BodyBytes()
	if err != nil {
		return badBody(err)
	}

	var f limiterForm
	if json.Unmarshal(body, &f) != nil {
		return badRequest("a limiter is {\"read\":N,\"write\":N,\"interval\":SECONDS}")
	}
	limits, err := f.limits()
	// lmstfy answers with the limiter itself, and not with an error.
	if err == errEmptyLimiter {
		return reply(c, http.StatusBadRequest, setForm{f})
	}
	if err != nil {
		return err
	}

	t, err := a.token(c)
	if err == nil {
		err = allowed(&t)
	}
	if err == nil {
		err = a.Guard.Limit(c.Context(), t.Hash, limits)
	}
	if err != nil {
		return err
	}
	c.Log().Info("token limited", "limited", auth.Name(t.Hash), "by", callerName(c))
	return reply(c, status, setForm{f})
}

func (a *Admin) limiter(c *route.Call) error {
	t, err := a.token(c)
	// In lmstfy, an unknown token is a token without a limiter.
	if err != nil && err != errNoSuchToken {
		return err
	}
	if t.Limits == (contract.Limits{}) {
		return reply(c, http.StatusNotFound, nil)
	}
	return reply(c, http.StatusOK, formOf(t.Limits))
}

func (a *Admin) deleteLimiter(c *route.Call) error {
	t, err := a.token(c)
	if err == nil {
		err = a.Guard.Limit(c.Context(), t.Hash, contract.Limits{})
	}
	// An unknown token has no limiter, so there is nothing to delete.
	if err != nil && !errors.Is(err, duly.ErrNotFound) {
		return err
	}
	return reply(c, http.StatusOK, message{"success"})
}

type limitedForm struct {
	Namespace string      `json:"namespace"`
	Token     string      `json:"token"`
	Limiter   limiterForm `json:"limiter"`
}

// limiters lists every token with limits, by its ID.
func (a *Admin) limiters(c *route.Call) error {
	list := []limitedForm{}
	err := a.eachToken(c, "", func(t *contract.Token) {
		if t.Limits != (contract.Limits{}) {
			list = append(list, limitedForm{t.Namespace, wire.TokenID(t.Hash), formOf(t.Limits)})
		}
	})
	if err != nil {
		return err
	}
	return reply(c, http.StatusOK, list)
}
