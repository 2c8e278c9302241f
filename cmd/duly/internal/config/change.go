package config

import (
	"crypto/tls"
	"reflect"
	"slices"
	"strings"
)

// Changed lists the settings in which the next configuration differs from this
// one: those that a running server takes over, and those for which it has to be
// restarted. What stands in the files that settings name counts too.
func (s *Settings) Changed(next *Settings) (live, restart []string) {
	for _, one := range Table {
		switch {
		case reflect.DeepEqual(one.to(s), one.to(next)) && !one.fileChanged(s, next):
		case one.live(s, next):
			live = append(live, one.Key)
		default:
			restart = append(restart, one.Key)
		}
	}
	return live, restart
}

// live tells whether a server that runs with old can take over the setting of
// next. An address that speaks plain HTTP does not begin to speak TLS.
func (s *Setting) live(old, next *Settings) bool {
	switch table, _ := cutLast(s.Key); table {
	case "tls":
		return (old.TLS.Config == nil) == (next.TLS.Config == nil)
	case "admin_tls":
		return (old.AdminTLS.Config == nil) == (next.AdminTLS.Config == nil)
	}
	return s.Live
}

// fileChanged tells whether what stands in the file of a setting has changed.
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

func chain(c *tls.Config) [][]byte {
	if c == nil {
		return nil
	}
	return c.Certificates[0].Certificate
}

// Keeping is the configuration with what a server that runs with old keeps of
// it until it is restarted.
func (l *Loaded) Keeping(old *Settings) *Loaded {
	kept := *l
	for _, one := range Table {
		if !one.live(old, &l.Settings) {
			reflect.ValueOf(one.to(&kept.Settings)).Elem().Set(reflect.ValueOf(one.to(old)).Elem())
		}
	}
	if (old.TLS.Config == nil) != (l.TLS.Config == nil) {
		kept.TLS = old.TLS
	}
	if (old.AdminTLS.Config == nil) != (l.AdminTLS.Config == nil) {
		kept.AdminTLS = old.AdminTLS
	}
	return &kept
}
