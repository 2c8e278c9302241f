package config

import (
	"flag"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

var update = flag.Bool("update", false, "rewrite the table in the documentation")

const page = "../../../../docs/configuration.md"

func TestDocumentationHasTable(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	table := regexp.MustCompile(`(?s)(<!-- settings -->\n).*?(<!-- /settings -->)`)
	want := table.ReplaceAllString(string(text), "${1}"+markdown()+"${2}")
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !table.Match(text) || string(text) != want {
		t.Error("the table in docs/configuration.md is outdated; go test ./cmd/duly/internal/config -update rewrites it")
	}
}

// Exactly one setting sets each field of Settings, and each default is a valid value.
func TestTableIsComplete(t *testing.T) {
	t.Parallel()
	var s Settings
	set := map[any]string{}
	for _, setting := range Table {
		if other := set[setting.field(&s)]; other != "" {
			t.Errorf("%s and %s set the same field", setting.Key, other)
		}
		set[setting.field(&s)] = setting.Key

		if setting.Default != "" {
			if _, problem := setting.kind.parse(setting, setting.Default); problem != "" {
				t.Errorf("the default of %s %s", setting.Key, problem)
			}
		}
		if (setting.Default == "") == (setting.Unset == "") {
			t.Errorf("%s needs either Default or Unset", setting.Key)
		}
		if v := setting.Variable(); v != strings.ToUpper(v) || !strings.HasPrefix(v, "DULY_") {
			t.Errorf("%s has the variable %s", setting.Key, v)
		}
	}

	for _, field := range fieldsOf(reflect.ValueOf(&s).Elem(), "") {
		if !slices.Contains(fromFiles, field.name) && set[field.pointer] == "" {
			t.Errorf("no setting sets %s", field.name)
		}
	}
}

// fromFiles are the fields with the contents of files that settings name.
var fromFiles = []string{"Access.Accounts", "TLS.Config", "AdminTLS.Config"}

type namedField struct {
	name    string
	pointer any
}

func fieldsOf(v reflect.Value, path string) (fields []namedField) {
	for i := range v.NumField() {
		f, name := v.Field(i), path+v.Type().Field(i).Name
		if f.Kind() == reflect.Struct {
			fields = append(fields, fieldsOf(f, name+".")...)
			continue
		}
		fields = append(fields, namedField{name, f.Addr().Interface()})
	}
	return fields
}

func TestFlagHelpHasDefaultsAndArguments(t *testing.T) {
	t.Parallel()
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	Flags(flags)
	help := flags.FlagUsages()
	for _, want := range []string{
		"--addr host:port ", "(default 127.0.0.1:7777)", "--drain duration ", "(default 30s)", "--engine URL ",
		"--trusted-proxy network ", "--max-body bytes ", "--log-level level ",
	} {
		if !strings.Contains(help, want) {
			t.Errorf("the help has no %q:\n%s", want, help)
		}
	}
	if flags.Lookup("data") != nil {
		t.Error("Flags adds --data, which every command has")
	}
}

func TestSuggestKey(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]string{
		"adr": "addr", "admin-addr": "admin_addr", "Log.Level": "log.level", "log_level": "log.level",
		"level": "log.level", "trusted_proxy": "trusted_proxies",
		"sweepevery": "sweep_every", "colour": "", "redis.password": "",
	} {
		if got := suggestKey(key); got != want {
			t.Errorf("%s: %q, want %q", key, got, want)
		}
	}
}

func TestParseProxyNetworks(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"10.1.2.3": "10.1.2.3/32", "10.1.2.3/8": "10.0.0.0/8", "::1": "::1/128", "fd00::5/8": "fd00::/8",
		"::ffff:10.0.0.0/104": "10.0.0.0/8", "::ffff:10.1.2.3": "10.1.2.3/32", "fe80::1%eth0": "fe80::1/128",
	} {
		got, problem := parseProxyNetworks(nil, text)
		if problem != "" || formatNetworks(got) != want {
			t.Errorf("%s is parsed as %s (%s), want %s", text, formatNetworks(got), problem, want)
		}
	}
	for _, bad := range []string{"0.0.0.0/0", "::/0", "10.0.0.0/0", "::ffff:0.0.0.0/96", "10.0.0.0/33"} {
		if got, problem := parseProxyNetworks(nil, bad); problem == "" {
			t.Errorf("%s is parsed as %s", bad, formatNetworks(got))
		}
	}
}

// push.allow and push.deny accept a network of all addresses.
func TestParsePushSettings(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		kind       kind
		text, want string
	}{
		{ranges, "10.0.0.0/8,::/0", "10.0.0.0/8,::/0"},
		{ranges, "no", ""},
		{ports, "443, 8000-9000", "443,8000-9000"},
		{ports, "0", ""},
		{ports, "x", ""},
		{proxy, "http://proxy.example:3128", "http://proxy.example:3128"},
		{proxy, "socks5://proxy.example", ""},
		{proxy, "proxy.example:3128", ""},
	} {
		value, problem := tt.kind.parse(nil, tt.text)
		if (problem == "") != (tt.want != "") {
			t.Errorf("%s: %q", tt.text, problem)
		}
		if problem == "" && strings.ReplaceAll(tt.kind.format(value), " ", "") != tt.want {
			t.Errorf("%s is formatted as %s", tt.text, tt.kind.format(value))
		}
	}
}
