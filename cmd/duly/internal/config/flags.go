package config

import (
	"strings"

	"github.com/spf13/pflag"
)

// Flags adds the flags of the table, but those that every command has. They
// take any text: [Load] judges it together with all the rest.
func Flags(to *pflag.FlagSet) {
	for _, s := range Table {
		if s.shared {
			continue
		}
		f := to.VarPF(&input{setting: s}, s.Flag, "", s.Meaning)
		if s.Default == "" {
			f.DefValue = ""
		}
	}
}

// input is the flag of a setting.
type input struct {
	setting *Setting
	given   []string
}

// String implements pflag.Value: what was given, else the default.
func (f *input) String() string {
	if len(f.given) > 0 || f.setting == nil {
		return strings.Join(f.given, f.between())
	}
	return f.setting.Default
}

// Type implements pflag.Value; it is the argument's name in the help, where the
// meaning has none.
func (f *input) Type() string {
	if len(f.setting.oneOf) > 0 {
		return strings.Join(f.setting.oneOf, "|")
	}
	return f.setting.kind.name
}

// Set implements pflag.Value. A list gathers what is given.
func (f *input) Set(text string) error {
	if !f.list() {
		f.given = nil
	}
	f.given = append(f.given, text)
	return nil
}

func (f *input) list() bool {
	switch f.setting.kind.name {
	case networks.name, ranges.name, ports.name, poolList.name:
		return true
	}
	return false
}

// between stands between the items of a list.
func (f *input) between() string {
	if f.setting.kind.name == poolList.name {
		return " " // a URL may have commas
	}
	return ","
}
