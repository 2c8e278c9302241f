package config

import (
	"errors"
	"reflect"
	"slices"
	"strings"

	"github.com/knadh/koanf/v2"
	"github.com/spf13/pflag"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/open"
	"github.com/dulymq/duly/server/auth"
	"github.com/dulymq/duly/server/certs"
)

// Sources are the sources of a configuration.
type Sources struct {
	// File is the path of a TOML file, or "" if there is none.
	File string
	// Lmstfy is the path of a configuration file of lmstfy, to be used instead of File.
	Lmstfy string
	// Getenv returns the value of a variable, or "" if it is not set.
	Getenv func(name string) string
	// Flags holds the flags that [Flags] adds.
	Flags *pflag.FlagSet
	// CheckURL validates the URL of an engine to serve, without opening it. Its errors do
	// not repeat the URL. If it is nil, URLs are not validated.
	CheckURL func(url string) error
}

// Value is the value of a setting, for printing.
type Value struct {
	Setting *Setting
	// Text is the value in the syntax of the file, without secrets. "" means that there is no value.
	Text   string
	Origin Origin
}

// Loaded is a valid configuration.
type Loaded struct {
	Settings
	// Values has every setting, in the table's order.
	Values []Value
	// Ignored lists the keys of an lmstfy file that have no meaning in duly.
	Ignored []Ignored
}

// loader is the state of a Load.
type loader struct {
	src    Sources
	layers []layer // a later layer overrides an earlier one
	merged *koanf.Koanf
	errs   Errors
	Loaded
}

// Load reads and validates a configuration. Its error is [Errors].
func Load(src Sources) (*Loaded, error) {
	l := &loader{src: src}
	if src.File != "" {
		l.layers = append(l.layers, fileLayer(src.File, &l.errs))
	}
	if src.Lmstfy != "" {
		l.readLmstfy()
	}
	// Later layers override earlier ones.
	l.layers = append(l.layers, envLayer(src.Getenv), flagLayer(src.Flags))
	l.merge()

	for _, s := range Table {
		l.set(s)
	}
	l.validate()

	// One error lists all faults, in the order of the file.
	if len(l.errs) > 0 {
		slices.SortStableFunc(l.errs, func(a, b Error) int { return a.Origin.Line - b.Origin.Line })
		return nil, l.errs
	}
	return &l.Loaded, nil
}

// readLmstfy adds the layer of an lmstfy file.
func (l *loader) readLmstfy() {
	if l.src.File != "" {
		origin := Origin{Source: l.src.Lmstfy, file: true}
		l.errs.add(origin, "", "cannot be used together with %s; use one of the two files", l.src.File)
	}
	file, layer := lmstfyLayer(l.src.Lmstfy, &l.errs)
	l.layers = append(l.layers, layer)
	l.Access.Accounts, l.Ignored = file.accounts, file.ignored
}

// merge merges the layers and reports unknown keys.
func (l *loader) merge() {
	l.merged = koanf.New(dot)
	for _, layer := range l.layers {
		for _, key := range layer.Keys() {
			// A misspelled key would leave its setting at the default.
			if !isKnown(key) && !isEmptyTable(layer, key) {
				l.errs.add(layer.origin(key), key, "%s", unknownKey(key))
			}
		}
		_ = l.merged.Merge(layer.Koanf) // Merge fails only in koanf's strict mode
	}
}

// isKnown reports whether a key is a setting or lies inside one. A pool's key lies
// inside the setting pools.
func isKnown(key string) bool {
	for ; key != ""; key, _ = cutLast(key) {
		if settingOf(key) != nil {
			return true
		}
	}
	return false
}

// isEmptyTable reports whether a key is an empty table that may hold settings.
func isEmptyTable(in layer, key string) bool {
	table, ok := in.Get(key).(map[string]any)
	return ok && len(table) == 0 && slices.ContainsFunc(Table, func(s *Setting) bool {
		return strings.HasPrefix(s.Key, key+dot)
	})
}

// origin returns the origin of a key in the last layer that sets it.
func (l *loader) origin(key string) Origin {
	for _, layer := range slices.Backward(l.layers) {
		if layer.Exists(key) {
			return layer.origin(key)
		}
	}

	// A variable or a flag sets a whole table, such as pools, in one text.
	if table, _ := cutLast(key); table != "" && settingOf(table) != nil {
		return l.origin(table)
	}
	return Origin{}
}

// set parses the value of a setting and stores it.
func (l *loader) set(s *Setting) {
	v := Value{Setting: s, Text: s.Default, Origin: l.origin(s.Key)}
	var raw any = s.Default
	// The default is not merged, because its text has a form of its own.
	if v.Origin != (Origin{}) {
		raw = l.merged.Get(s.Key)
	}
	if raw == "" && (s.Default == "" || s.Unset != "") { // an empty text counts as not set
		l.Values = append(l.Values, v)
		return
	}

	value, problem := s.kind.parse(s, raw)
	if problem != "" {
		l.errs.add(v.Origin, s.Key, "%s", problem)
		return
	}
	reflect.ValueOf(s.field(&l.Settings)).Elem().Set(reflect.ValueOf(value))
	v.Text = s.kind.format(value)
	l.Values = append(l.Values, v)
}

// addError reports a problem with the value of a key.
func (l *loader) addError(key, format string, args ...any) {
	l.errs.add(l.origin(key), key, format, args...)
}

// validate checks combinations of settings and reads the files that they name.
func (l *loader) validate() {
	s := &l.Settings
	if s.Engine != "" {
		l.checkURL("engine", s.Engine)
	}
	for name, url := range s.Pools {
		l.checkURL("pools."+name, url)
	}
	// If both were allowed, a rule would have to decide which one wins.
	if s.Memory.MaxBody > 0 && open.MaxBody(s.Engine) > 0 {
		l.addError("max_body", "is also set in the URL of the engine; leave one of them out")
	}

	l.readTLS("tls", &s.TLS)
	l.readTLS("admin_tls", &s.AdminTLS)

	if s.Access.AccountsFile != "" {
		accounts, err := auth.ReadAccounts(s.Access.AccountsFile)
		if err != nil {
			l.addError("admin_accounts", "names a file that cannot be used: %s; it needs a line NAME:PASSWORD for each account",
				problemOf(err))
		}
		s.Access.Accounts = append(s.Access.Accounts, accounts...)
	}
}

// checkURL validates the URL of an engine to serve.
func (l *loader) checkURL(key, url string) {
	if l.src.CheckURL == nil {
		return
	}
	err := l.src.CheckURL(url)
	if err == nil {
		return
	}

	// An error about one option names the option. Other errors are about the URL as a whole.
	var e *duly.Error
	if !errors.As(err, &e) || len(e.Fields) == 0 {
		l.addError(key, "%s", problemOf(err))
		return
	}
	for _, f := range e.Fields {
		problem := f.Problem
		if f.Field != "url" {
			problem = "has an option " + f.Field + " that " + problem
		}
		l.addError(key, "%s", problem)
	}
}

// readTLS reads the certificate files of an address.
func (l *loader) readTLS(table string, t *TLS) {
	if t.Files == (certs.Files{}) {
		return
	}
	for _, f := range []struct{ key, value, other string }{{"cert", t.Cert, "key"}, {"key", t.Key, "cert"}} {
		if f.value == "" {
			other := table + "." + f.other
			// The error names a key that the user has written.
			if l.origin(other) == (Origin{}) {
				other = table + ".client_ca"
			}
			l.addError(other, "needs %s.%s too", table, f.key)
			return
		}
	}

	var err error
	var e *duly.Error
	if t.Config, err = t.Read(); errors.As(err, &e) {
		for _, f := range e.Fields {
			l.addError(table+"."+f.Field, "%s", f.Problem)
		}
	}
}
