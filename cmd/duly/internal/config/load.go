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

// Sources is where a configuration comes from.
type Sources struct {
	// File is a file in TOML; "" is none.
	File string
	// Lmstfy is a configuration file of lmstfy's, in place of File; "" is none.
	Lmstfy string
	// Getenv reads a variable; "" is one that is not set.
	Getenv func(name string) string
	// Flags has those of [Flags].
	Flags *pflag.FlagSet
	// CheckURL judges the URL of an engine that is to be served without opening
	// it, and repeats nothing of it. Nil: the engine judges it when it is opened.
	CheckURL func(url string) error
}

// Value is the value of a setting, as it may be printed.
type Value struct {
	Setting *Setting
	// Text is as one would write it, without secrets; "" is none.
	Text   string
	Origin Origin
}

// Loaded is a configuration without a fault.
type Loaded struct {
	Settings
	// Values has every setting, in the table's order.
	Values []Value
	// Ignored are the keys of an lmstfy file that mean nothing here.
	Ignored []Ignored
}

// loading is a configuration that is being read.
type loading struct {
	src    Sources
	layers []layer // the later counts more
	merged *koanf.Koanf
	faults Faults
	Loaded
}

// Load reads a configuration. The error, if there is one, is [Faults].
func Load(src Sources) (*Loaded, error) {
	l := &loading{src: src}
	if src.File != "" {
		l.layers = append(l.layers, ofFile(src.File, &l.faults))
	}
	if src.Lmstfy != "" {
		l.readLmstfy()
	}
	l.layers = append(l.layers, ofEnvironment(src.Getenv), ofFlags(src.Flags))
	l.merge()
	for _, s := range Table {
		l.set(s)
	}
	l.checkTogether()
	if len(l.faults) > 0 {
		slices.SortStableFunc(l.faults, func(a, b Fault) int { return a.Origin.Line - b.Origin.Line })
		return nil, l.faults
	}
	return &l.Loaded, nil
}

// readLmstfy reads a file of lmstfy's as a layer.
func (l *loading) readLmstfy() {
	if l.src.File != "" {
		l.faults.add(Origin{Place: l.src.Lmstfy, file: true}, "", "can't be used beside %s; say in one of them what is to hold", l.src.File)
	}
	file, layer := ofLmstfy(l.src.Lmstfy, &l.faults)
	l.layers = append(l.layers, layer)
	l.Access.Accounts, l.Ignored = file.accounts, file.ignored
}

// merge lays the layers over each other, and reports the keys that are none.
func (l *loading) merge() {
	l.merged = koanf.New(dot)
	for _, over := range l.layers {
		for _, key := range over.Keys() {
			if !known(key) && !emptyTable(over, key) {
				l.faults.add(over.origin(key), key, "%s", unknown(key))
			}
		}
		_ = l.merged.Merge(over.Koanf) // only of strict kinds it can fail
	}
}

// known tells whether a key is that of a setting, or stands where one should.
func known(key string) bool {
	for ; key != ""; key, _ = cutLast(key) {
		if named(key) != nil {
			return true
		}
	}
	return false
}

// emptyTable tells whether a key is a table of settings with nothing in it.
func emptyTable(in layer, key string) bool {
	inside, isTable := in.Get(key).(map[string]any)
	return isTable && len(inside) == 0 && slices.ContainsFunc(Table, func(s *Setting) bool { return strings.HasPrefix(s.Key, key+dot) })
}

// origin is where a key was last set.
func (l *loading) origin(key string) Origin {
	for _, over := range slices.Backward(l.layers) {
		if over.Exists(key) {
			return over.origin(key)
		}
	}
	if table, _ := cutLast(key); table != "" && named(table) != nil {
		return l.origin(table) // a table that was given in one text
	}
	return Origin{}
}

// set judges a setting's value and takes it.
func (l *loading) set(s *Setting) {
	v := Value{Setting: s, Text: s.Default, Origin: l.origin(s.Key)}
	var raw any = s.Default
	if v.Origin != (Origin{}) {
		raw = l.merged.Get(s.Key)
	}
	if raw == "" && (s.Default == "" || s.Unset != "") { // as if nobody had said anything
		l.Values = append(l.Values, v)
		return
	}
	value, problem := s.kind.read(s, raw)
	if problem != "" {
		l.faults.add(v.Origin, s.Key, "%s", problem)
		return
	}
	reflect.ValueOf(s.to(&l.Settings)).Elem().Set(reflect.ValueOf(value))
	v.Text = s.kind.show(value)
	l.Values = append(l.Values, v)
}

// fault notes what is wrong with the value of a key.
func (l *loading) fault(key, format string, args ...any) {
	l.faults.add(l.origin(key), key, format, args...)
}

// checkTogether judges what several settings say together, and what stands in
// the files that they name.
func (l *loading) checkTogether() {
	s := &l.Settings
	if s.Engine != "" {
		l.checkURL("engine", s.Engine)
	}
	for name, url := range s.Pools {
		l.checkURL("pools."+name, url)
	}
	if s.Memory.MaxBody > 0 && open.MaxBody(s.Engine) > 0 {
		l.fault("max_body", "stands also in the URL of the engine; leave one of them out")
	}
	l.readTLS("tls", &s.TLS)
	l.readTLS("admin_tls", &s.AdminTLS)
	if s.Access.AccountsFile != "" {
		accounts, err := auth.ReadAccounts(s.Access.AccountsFile)
		if err != nil {
			l.fault("admin_accounts", "names a file that can't be used: %s; it has a line NAME:PASSWORD for each account", problemOf(err))
		}
		s.Access.Accounts = append(s.Access.Accounts, accounts...)
	}
}

// checkURL judges the URL of an engine that is to be served.
func (l *loading) checkURL(key, url string) {
	if l.src.CheckURL == nil {
		return
	}
	if err := l.src.CheckURL(url); err != nil {
		l.faultOfURL(key, err)
	}
}

// faultOfURL notes what is wrong with a URL: as a whole, or with an option of
// it, which has to be named.
func (l *loading) faultOfURL(key string, err error) {
	var e *duly.Error
	if !errors.As(err, &e) || len(e.Fields) == 0 {
		l.fault(key, "%s", problemOf(err))
		return
	}
	for _, f := range e.Fields {
		problem := f.Problem
		if f.Field != "url" {
			problem = "has an option " + f.Field + " that " + problem
		}
		l.fault(key, "%s", problem)
	}
}

// readTLS reads the files that an address is served with.
func (l *loading) readTLS(table string, t *TLS) {
	if t.Files == (certs.Files{}) {
		return
	}
	for _, f := range []struct{ key, is, lacks string }{{"cert", t.Cert, "key"}, {"key", t.Key, "cert"}} {
		if f.is == "" {
			other := table + "." + f.lacks
			if l.origin(other) == (Origin{}) {
				other = table + ".client_ca"
			}
			l.fault(other, "needs %s.%s beside it", table, f.key)
			return
		}
	}
	var err error
	var e *duly.Error
	if t.Config, err = t.Read(); errors.As(err, &e) {
		for _, f := range e.Fields {
			l.fault(table+"."+f.Field, "%s", f.Problem)
		}
	}
}
