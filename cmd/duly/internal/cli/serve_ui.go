package cli

import (
	"cmp"
	"path/filepath"

	"github.com/dulymq/duly/cmd/duly/internal/config"
	"github.com/dulymq/duly/server"
)

// newUIConfig returns the configuration of the dashboard, nil if it is off. The first start creates the file with the
// key of sessions, unless the configuration names one.
func newUIConfig(settings *config.UI, data string) (*server.UIConfig, error) {
	if settings.Enabled == "off" {
		return nil, nil
	}
	// A typo in the name of a file must not create a key of its own.
	create := settings.SessionKey == ""
	key, err := server.LoadUIKey(cmp.Or(settings.SessionKey, filepath.Join(data, server.UIKeyFile)), create)
	if err != nil {
		return nil, withHint(err, "choose another file of the key: --ui-session-key-file")
	}
	c := &server.UIConfig{
		Key: key, Origin: settings.Origin, Insecure: settings.Insecure == "on", ReadOnly: settings.ReadOnly == "on",
		HideBodies: settings.Bodies == "off", Label: settings.Label,
		History: settings.History,
	}
	if settings.Color != "none" {
		c.Color = settings.Color
	}
	return c, nil
}
