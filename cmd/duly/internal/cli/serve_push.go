package cli

import (
	"net/url"
	"path/filepath"

	"github.com/dulymq/duly/cmd/duly/internal/config"
	"github.com/dulymq/duly/otelduly"
	"github.com/dulymq/duly/server"
	"github.com/dulymq/duly/server/webhook/guard"
	"github.com/dulymq/duly/server/webhook/seal"
)

// keyFile is the file in the data folder with the keys that seal secrets.
const keyFile = "push.key"

// newPushConfig returns the configuration of HTTP push. The first start creates the file of
// keys, unless the configuration names one.
func newPushConfig(settings *config.Push, data string, t *telemetry) (*server.PushConfig, error) {
	c := &server.PushConfig{
		Off: settings.Enabled == "false", Slots: settings.Concurrency, Memory: settings.Memory,
	}
	var err error

	// A key file of the user is never created, because a typo would then seal secrets with a new key.
	if settings.Keys == "" {
		c.Keys, err = seal.Create(filepath.Join(data, keyFile))
	} else {
		c.Keys, err = seal.Load(settings.Keys)
	}
	if err != nil {
		return nil, withHint(err, "choose another file of keys: --push-keys")
	}
	if t.spans != nil {
		c.Trace = otelduly.Tries(otelduly.Provider(t.spans))
	}
	return c, nil
}

// pushSettings returns the settings of HTTP push that can change while a server runs.
func pushSettings(settings *config.Push) server.PushSettings {
	l := server.PushSettings{TargetsOnly: settings.URLs == "targets", Guard: guard.Config{
		Allow: settings.Allow, Deny: settings.Deny, Ports: settings.Ports, PlainHTTP: settings.PlainHTTP == "on",
	}}
	if settings.Proxy != "" {
		l.Guard.Proxy, _ = url.Parse(settings.Proxy) // package config has validated the URL
	}
	return l
}
