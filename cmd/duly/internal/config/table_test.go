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

var update = flag.Bool("update", false, "write the table of the documentation anew")

const page = "../../../../docs/configuration.md"

// The documentation has the table as it is.
func TestTheDocumentationHasTheTable(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	table := regexp.MustCompile(`(?s)(<!-- settings -->\n).*?(<!-- /settings -->)`)
	want := table.ReplaceAllString(string(text), "${1}"+Markdown()+"${2}")
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !table.Match(text) || string(text) != want {
		t.Error("docs/configuration.md has not the table of settings as it is; go test ./cmd/duly/internal/config -update writes it")
	}
}

// Every field of Settings is set by one setting, and each setting's default is
// one of its values.
func TestTheTableIsWhole(t *testing.T) {
	t.Parallel()
	var s Settings
	set := map[any]string{}
	for _, one := range Table {
		if other := set[one.to(&s)]; other != "" {
			t.Errorf("%s and %s set the same field", one.Key, other)
		}
		set[one.to(&s)] = one.Key
		if one.Default != "" {
			if _, problem := one.kind.read(one, one.Default); problem != "" {
				t.Errorf("the default of %s %s", one.Key, problem)
			}
		}
		if (one.Default == "") == (one.Unset == "") {
			t.Errorf("%s has not one of Default and Unset", one.Key)
		}
		if one.Variable() != strings.ToUpper(one.Variable()) || !strings.HasPrefix(one.Variable(), "DULY_") {
			t.Errorf("%s is %s", one.Key, one.Variable())
		}
	}
	for _, field := range fieldsOf(reflect.ValueOf(&s).Elem(), "") {
		if !slices.Contains(read, field.name) && set[field.at] == "" {
			t.Errorf("nothing sets %s", field.name)
		}
	}
}

// read are the fields that are read from the files of others.
var read = []string{"Access.Accounts", "TLS.Config", "AdminTLS.Config"}

type fieldAt struct {
	name string
	at   any
}

func fieldsOf(v reflect.Value, path string) (fields []fieldAt) {
	for i := range v.NumField() {
		f, name := v.Field(i), path+v.Type().Field(i).Name
		if f.Kind() == reflect.Struct {
			fields = append(fields, fieldsOf(f, name+".")...)
			continue
		}
		fields = append(fields, fieldAt{name, f.Addr().Interface()})
	}
	return fields
}

func TestFlagsShowTheirDefaultsAndTheirArguments(t *testing.T) {
	t.Parallel()
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	Flags(flags)
	help := flags.FlagUsages()
	for _, want := range []string{
		"--addr host:port ", "(default 127.0.0.1:7777)", "--drain duration ", "(default 30s)", "--engine URL ", "--trusted-proxy network ", "--max-body bytes ", "--log-level level ",
	} {
		if !strings.Contains(help, want) {
			t.Errorf("the help has no %q:\n%s", want, help)
		}
	}
	if flags.Lookup("data") != nil {
		t.Error("--data is every command's")
	}
}

func TestAMistypedKeyIsToldFromAForeignOne(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]string{
		"adr": "addr", "admin-addr": "admin_addr", "Log.Level": "log.level", "log_level": "log.level", "level": "log.level", "trusted_proxy": "trusted_proxies",
		"sweepevery": "sweep_every", "colour": "", "redis.password": "",
	} {
		if got := nearest(key); got != want {
			t.Errorf("%s: %q, want %q", key, got, want)
		}
	}
}

// A peer's address is of IPv4 where it can be, so a network is, too. A network of all
// addresses would let any client choose the address that it is counted under.
func TestNetworksOfProxies(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"10.1.2.3": "10.1.2.3/32", "10.1.2.3/8": "10.0.0.0/8", "::1": "::1/128", "fd00::5/8": "fd00::/8",
		"::ffff:10.0.0.0/104": "10.0.0.0/8", "::ffff:10.1.2.3": "10.1.2.3/32", "fe80::1%eth0": "fe80::1/128",
	} {
		got, problem := readProxies(nil, text)
		if problem != "" || showNetworks(got) != want {
			t.Errorf("%s is read as %s (%s), want %s", text, showNetworks(got), problem, want)
		}
	}
	for _, bad := range []string{"0.0.0.0/0", "::/0", "10.0.0.0/0", "::ffff:0.0.0.0/96", "10.0.0.0/33"} {
		if got, problem := readProxies(nil, bad); problem == "" {
			t.Errorf("%s is read as %s", bad, showNetworks(got))
		}
	}
}

// What jobs may be sent to: any network, also one of all addresses; ports; a proxy.
func TestSettingsOfPush(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		kind       kind
		text, want string
	}{
		{ranges, "10.0.0.0/8,::/0", "10.0.0.0/8,::/0"}, {ranges, "no", ""}, {ports, "443, 8000-9000", "443,8000-9000"}, {ports, "0", ""}, {ports, "x", ""},
		{proxy, "http://proxy.example:3128", "http://proxy.example:3128"}, {proxy, "socks5://proxy.example", ""}, {proxy, "proxy.example:3128", ""},
	} {
		value, problem := tt.kind.read(nil, tt.text)
		if (problem == "") != (tt.want != "") {
			t.Errorf("%s: %q", tt.text, problem)
		}
		if problem == "" && strings.ReplaceAll(tt.kind.show(value), " ", "") != tt.want {
			t.Errorf("%s is shown as %s", tt.text, tt.kind.show(value))
		}
	}
}
