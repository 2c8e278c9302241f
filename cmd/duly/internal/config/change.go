package config

import (
	"crypto/tls"
	"reflect"
	"slices"
	"strings"
)

// Changed returns the keys of the settings that differ between the configuration of a running
// server and the next one. A running server applies the settings in reload. The settings in restart
// need a restart. It also compares the contents of files that settings name.
func (s *Settings) Changed(next *Settings) (reload, restart []string) {
	for _, setting := range Table {
		switch {
		// A file with the same name may have another content, for example after a renewal of its certificate.
		case reflect.DeepEqual(setting.field(s), setting.field(next)) && !setting.fileChanged(s, next):
		case setting.canReload(s, next):
			reload = append(reload, setting.Key)
		default:
			restart = append(restart, setting.Key)
		}
	}
	return reload, restart
}

// ReloadOver returns the configuration of a server after a reload. It has the values of
// the running configuration for all settings that need a restart.
func (l *Loaded) ReloadOver(running *Settings) *Loaded {
	result := *l
	for _, setting := range Table {
		if !setting.canReload(running, &l.Settings) {
			to, from := setting.field(&result.Settings), setting.field(running)
			reflect.ValueOf(to).Elem().Set(reflect.ValueOf(from).Elem())
		}
	}

	// Config is not a setting of the table. It is derived from the files that are settings.
	if (running.TLS.Config == nil) != (l.TLS.Config == nil) {
		result.TLS = running.TLS
	}
	if (running.AdminTLS.Config == nil) != (l.AdminTLS.Config == nil) {
		result.AdminTLS = running.AdminTLS
	}
	return &result
}

// canReload reports whether a running server can apply the setting of next. An address
// cannot change between plain HTTP and TLS while it is open.
func (s *Setting) canReload(running, next *Settings) bool {
	switch table, _ := cutLast(s.Key); table {
	case "tls":
		return (running.TLS.Config == nil) == (next.TLS.Config == nil)
	case "admin_tls":
		return (running.AdminTLS.Config == nil) == (next.AdminTLS.Config == nil)
	}
	return s.Reloadable
}

// fileChanged reports whether the contents of the file that the setting names differ.
func (s *Setting) fileChanged(old, next *Settings) bool {
	a, b := &old.TLS, &next.TLS
	if strings.HasPrefix(s.Key, "admin_") {
		a, b = &old.AdminTLS, &next.AdminTLS
	}

	switch _, name := cutLast(s.Key); name {
	case "admin_accounts":
		return !reflect.DeepEqual(old.Access.Accounts, next.Access.Accounts)
	case "cert":
		return !slices.EqualFunc(chain(a.Config), chain(b.Config), slices.Equal)
	case "client_ca":
		return a.Config != nil && b.Config != nil && !a.Config.ClientCAs.Equal(b.Config.ClientCAs)
	}
	return false
}

// chain returns the certificate chain of a configuration, nil for plain HTTP.
func chain(c *tls.Config) [][]byte {
	if c == nil {
		return nil
	}
	return c.Certificates[0].Certificate
}
