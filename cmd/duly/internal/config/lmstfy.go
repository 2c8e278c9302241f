package config

import (
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/dulymq/duly/server/auth"
)

// lmstfyFile is a configuration of lmstfy's, which becomes one of ours. Its keys
// are matched as lmstfy does, whatever their case.
type lmstfyFile struct {
	layer
	faults *Faults
	keys   map[string]string // as they are spelled, by their small letters
	used   map[string]bool   // small letters
	out    map[string]any
	from   map[string]string // the key that a setting of ours comes from

	accounts []auth.Account
	ignored  []Ignored
}

// Ignored is a key of an lmstfy file that means nothing here.
type Ignored struct {
	Origin Origin
	Key    string
	Reason string
}

// ofLmstfy makes a layer of an lmstfy file.
func ofLmstfy(path string, faults *Faults) (*lmstfyFile, layer) {
	before := len(*faults)
	f := &lmstfyFile{layer: ofFile(path, faults), faults: faults, keys: map[string]string{}, used: map[string]bool{}, out: map[string]any{}, from: map[string]string{}}
	if len(*faults) > before {
		return f, ofMap(nil, nil)
	}
	for _, key := range f.Keys() {
		f.keys[strings.ToLower(key)] = key
	}
	f.addresses()
	f.logs()
	f.defaults()
	f.people()
	f.pools()
	f.rest()
	return f, ofMap(f.out, func(key string) Origin { return f.origin(f.from[key]) })
}

// get is the value of a key, and whether it is there.
func (f *lmstfyFile) get(key string) (value any, there bool) {
	f.used[strings.ToLower(key)] = true
	spelled, there := f.keys[strings.ToLower(key)]
	if !there {
		return nil, false
	}
	return f.Get(spelled), true
}

func (f *lmstfyFile) fault(key, format string, args ...any) {
	f.faults.add(f.origin(f.spelled(key)), key, format, args...)
}

// spelled is a key as the file has it.
func (f *lmstfyFile) spelled(key string) string {
	if s, ok := f.keys[strings.ToLower(key)]; ok {
		return s
	}
	return key
}

// put sets one of our settings.
func (f *lmstfyFile) put(key string, value any, from string) {
	f.out[key], f.from[key] = value, f.spelled(from)
}

// ignore names a key that is there and means nothing here.
func (f *lmstfyFile) ignore(key, reason string) {
	if _, there := f.get(key); there {
		f.ignored = append(f.ignored, Ignored{f.origin(f.spelled(key)), f.spelled(key), reason})
	}
}

func (f *lmstfyFile) text(key string) string {
	value, there := f.get(key)
	text, ok := value.(string)
	if there && !ok {
		f.fault(key, "is %s, must be text in quotes", shown(value))
	}
	return text
}

// number is a whole number between least and most, or missing.
func (f *lmstfyFile) number(key string, least, most, missing int64) int64 {
	value, there := f.get(key)
	if !there {
		return missing
	}
	n, ok := value.(int64)
	if !ok || n < least || n > most {
		f.fault(key, "is %s, must be a number between %d and %d", shown(value), least, most)
		return missing
	}
	return n
}

// addresses are the two that lmstfy listens on; but AdminHost all of them must
// be said.
func (f *lmstfyFile) addresses() {
	host, port := f.text("Host"), f.number("Port", 1, 65535, 0)
	if host == "" {
		f.fault("Host", "is missing, as for lmstfy itself")
	}
	if port == 0 && f.keys["port"] == "" {
		f.fault("Port", "is missing, as for lmstfy itself")
	}
	if host != "" && port > 0 {
		f.put("addr", net.JoinHostPort(host, strconv.FormatInt(port, 10)), "Host")
	}
	admin, port := f.text("AdminHost"), f.number("AdminPort", 1, 65535, 0)
	if admin == "" {
		admin = "127.0.0.1"
	}
	if port == 0 && f.keys["adminport"] == "" {
		f.fault("AdminPort", "is missing, as for lmstfy itself")
	}
	if port > 0 {
		f.put("admin_addr", net.JoinHostPort(admin, strconv.FormatInt(port, 10)), "AdminPort")
	}
}

// levels of logrus as ours.
var levels = map[string]string{
	"panic": "error", "fatal": "error", "error": "error", "warn": "warn", "warning": "warn", "info": "info", "debug": "debug", "trace": "debug",
}

func (f *lmstfyFile) logs() {
	level := f.text("LogLevel")
	switch ours := levels[strings.ToLower(level)]; {
	case ours != "":
		f.put("log.level", ours, "LogLevel")
	case level != "":
		f.fault("LogLevel", "is %s, must be panic, fatal, error, warn, info, debug or trace", shown(level))
	}
	switch format := f.text("LogFormat"); format {
	case "json", "text":
		f.put("log.format", format, "LogFormat")
	case "":
	default:
		f.fault("LogFormat", "is %s, must be text or json", shown(format))
	}
	f.accessLog()
	f.ignore("LogDir", "the log goes to standard error, for the service's supervisor to keep")
}

func (f *lmstfyFile) accessLog() {
	value, there := f.get("EnableAccessLog")
	on, ok := value.(bool)
	switch {
	case !there:
	case !ok:
		f.fault("EnableAccessLog", "is %s, must be true or false, without quotes", shown(value))
	case on:
		f.put("access_log", "on", "EnableAccessLog")
	default:
		f.put("access_log", "off", "EnableAccessLog")
	}
}

// defaults are of requests that do not say it.
func (f *lmstfyFile) defaults() {
	for _, d := range []struct {
		key, ours string
		least     int64
	}{{"TTLSecond", "lmstfy_ttl", 0}, {"DelaySecond", "lmstfy_delay", 0}, {"TTRSecond", "lmstfy_ttr", 0}, {"TimeoutSecond", "lmstfy_timeout", 0}} {
		if n := f.number(d.key, d.least, mostSeconds/second, -1); n >= 0 {
			f.put(d.ours, fmt.Sprintf("%ds", n), d.key)
		}
	}
	if n := f.number("TriesNum", 1, 65535, -1); n > 0 {
		f.put("lmstfy_tries", n, "TriesNum")
	}
}

// below lists the names that stand in a table, as they are spelled.
func (f *lmstfyFile) below(table string) (names []string) {
	for key, spelled := range f.keys {
		if rest, ok := strings.CutPrefix(key, strings.ToLower(table)+dot); ok {
			name, _, _ := strings.Cut(spelled[len(spelled)-len(rest):], dot)
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// people are the accounts of the admin address.
func (f *lmstfyFile) people() {
	for _, name := range f.below("Accounts") {
		key := "Accounts" + dot + name
		account, err := auth.NewAccount(name, f.text(key))
		if err != nil {
			f.fault(key, "can't be an account: %s", problemOf(err))
		}
		f.accounts = append(f.accounts, account)
	}
}

// pools are engines on Redis.
func (f *lmstfyFile) pools() {
	names := f.below("Pool")
	if !slices.Contains(names, "default") {
		f.fault("Pool.default", "is missing, as for lmstfy itself")
	}
	more := map[string]any{}
	for _, name := range names {
		table := "Pool" + dot + name
		if version := f.text(table + ".Version"); version != "" {
			f.skip(table, "lmstfy skips a pool that has a Version, too")
			continue
		}
		engine := f.redis(table)
		if name == "default" {
			f.put("engine", engine, table+".Addr")
			continue
		}
		more[name] = engine
		f.put("pools", more, table+".Addr")
	}
	f.skip("AdminRedis", "tokens and limits are kept by the engine of the pool default; duly import lmstfy brings them over")
}

// skip names a table that means nothing here, once.
func (f *lmstfyFile) skip(table, reason string) {
	names := f.below(table)
	for _, name := range names {
		f.used[strings.ToLower(table+dot+name)] = true
	}
	if len(names) > 0 {
		f.ignored = append(f.ignored, Ignored{f.origin(f.spelled(table + dot + names[0])), table, reason})
	}
}

// redis is the URL of one of lmstfy's tables of Redis.
func (f *lmstfyFile) redis(table string) string {
	addr, master := f.text(table+".Addr"), f.text(table+".MasterName")
	if addr == "" {
		f.fault(table+".Addr", "is missing, as for lmstfy itself")
	}
	u := url.URL{Scheme: "redis", Host: addr, Path: "/" + strconv.FormatInt(f.number(table+".DB", 0, 1<<31-1, 0), 10)}
	if password := f.text(table + ".Password"); password != "" {
		u.User = url.UserPassword("", password)
	}
	if sentinel := f.text(table + ".SentinelPassword"); master != "" {
		u.Scheme, u.Path = "redis+sentinel", "/"+master+u.Path
		if sentinel != "" {
			u.RawQuery = url.Values{"sentinel_password": {sentinel}}.Encode()
		}
	}
	f.ignore(table+".PoolSize", "an engine makes the few connections that it needs, and all callers share them")
	f.ignore(table+".MigrateTo", "it has had no effect in lmstfy since v1.0.12; to move a namespace here: duly pool move NAMESPACE --to POOL")
	return u.String()
}

// rest names what lmstfy had once, and what it never knew.
func (f *lmstfyFile) rest() {
	f.skip("SecondaryStorage", "jobs of every delay are kept by the engine")
	for key, spelled := range f.keys {
		if _, isTable := f.Get(spelled).(map[string]any); !isTable && !f.used[key] {
			f.ignore(key, "it is no key of lmstfy's")
		}
	}
	slices.SortFunc(f.ignored, func(a, b Ignored) int { return a.Origin.Line - b.Origin.Line })
}
