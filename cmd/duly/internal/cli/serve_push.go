package cli

import (
	"net/url"
	"path/filepath"

	"github.com/dulymq/duly/cmd/duly/internal/config"
	"github.com/dulymq/duly/internal/seal"
	"github.com/dulymq/duly/otelduly"
	"github.com/dulymq/duly/server"
	"github.com/dulymq/duly/server/webhook/guard"
)

// keyFile is the file in the data folder with the keys that seal secrets.
const keyFile = "push.key"

// pushOf returns how a server sends jobs. The first start makes the file of keys, unless
// the configuration names one.
func pushOf(set *config.Push, data string, see *observed) (*server.PushConfig, error) {
	c := &server.PushConfig{Off: set.Enabled == "false", Slots: set.Concurrency, Memory: set.Memory}
	var err error
	if set.Keys == "" {
		c.Keys, err = seal.Create(filepath.Join(data, keyFile))
	} else {
		c.Keys, err = seal.Load(set.Keys)
	}
	if err != nil {
		return nil, advise(err, "name another file of keys: --push-keys")
	}
	if see.spans != nil {
		c.Trace = otelduly.Tries(otelduly.Provider(see.spans))
	}
	return c, nil
}

// livePush is the part of it that a running server can take over.
func livePush(set *config.Push) server.LivePush {
	l := server.LivePush{TargetsOnly: set.URLs == "targets", Guard: guard.Config{
		Allow: set.Allow, Deny: set.Deny, Ports: set.Ports, PlainHTTP: set.PlainHTTP == "on",
	}}
	if set.Proxy != "" {
		l.Guard.Proxy, _ = url.Parse(set.Proxy) // the table has checked it
	}
	return l
}
