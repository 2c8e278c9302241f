package config

import (
	"strings"

	"github.com/spf13/pflag"
)

// Flags adds the flags of the table, except those that all commands have. The flags accept any
// text, because [Load] validates all values together.
func Flags(to *pflag.FlagSet) {
	for _, s := range Table {
		// The root command adds these flags for every command.
		if s.shared {
			continue
		}
		f := to.VarPF(&flagValue{setting: s}, s.Flag, "", s.Meaning)
		if s.Default == "" {
			f.DefValue = ""
		}
	}
}

// flagValue is the value of a setting's flag.
type flagValue struct {
	setting *Setting
	given   []string
}

// String implements pflag.Value. It returns the given text, else the default.
func (f *flagValue) String() string {
	if len(f.given) > 0 || f.setting == nil {
		return strings.Join(f.given, f.separator())
	}
	return f.setting.Default
}

// Type implements pflag.Value. The help shows it as the argument's name if the meaning
// has none.
func (f *flagValue) Type() string {
	if len(f.setting.oneOf) > 0 {
		return strings.Join(f.setting.oneOf, "|")
	}
	return f.setting.kind.name
}

// Set implements pflag.Value. For a list it appends.
func (f *flagValue) Set(text string) error {
	if !f.isList() {
		f.given = nil
	}
	f.given = append(f.given, text)
	return nil
}

func (f *flagValue) isList() bool {
	switch f.setting.kind.name {
	case networks.name, ranges.name, ports.name, poolList.name:
		return true
	}
	return false
}

// separator returns the separator between the items of a list.
func (f *flagValue) separator() string {
	if f.setting.kind.name == poolList.name {
		return " " // the URL of a pool may contain commas
	}
	return ","
}
