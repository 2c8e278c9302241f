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

// lmstfyFile converts a configuration file of lmstfy to settings. Like lmstfy, it
// ignores the case of keys.
type lmstfyFile struct {
	layer
	errs     *Errors
	spelling map[string]string // keys as the file spells them, by their lower-case form
	used     map[string]bool   // keys that have been read, in lower case
	settings map[string]any
	source   map[string]string // key in the file, by setting

	accounts []auth.Account
	ignored  []Ignored
}

// Ignored is a key of an lmstfy file that has no meaning in duly.
type Ignored struct {
	Origin Origin
	Key    string
	Reason string
}

// lmstfyLayer returns the layer of an lmstfy file.
func lmstfyLayer(path string, errs *Errors) (*lmstfyFile, layer) {
	before := len(*errs)
	f := &lmstfyFile{
		layer: fileLayer(path, errs), errs: errs, spelling: map[string]string{}, used: map[string]bool{},
		settings: map[string]any{}, source: map[string]string{},
	}

	// Nothing else can be checked in a file that cannot be read.
	if len(*errs) > before {
		return f, mapLayer(nil, nil)
	}

	for _, key := range f.Keys() {
		f.spelling[strings.ToLower(key)] = key
	}
	f.readAddresses()
	f.readLog()
	f.readDefaults()
	f.readAccounts()
	f.readPools()

	// The remaining keys are known only after all other keys were read.
	f.ignoreRest()
	return f, mapLayer(f.settings, func(key string) Origin { return f.origin(f.source[key]) })
}

// get returns the value of a key and marks the key as used.
func (f *lmstfyFile) get(key string) (value any, ok bool) {
	// A key counts as used even if its value is wrong, because the value has a separate error.
	f.used[strings.ToLower(key)] = true
	spelled, ok := f.spelling[strings.ToLower(key)]
	if !ok {
		return nil, false
	}
	return f.Get(spelled), true
}

func (f *lmstfyFile) addError(key, format string, args ...any) {
	f.errs.add(f.origin(f.spelled(key)), key, format, args...)
}

// addMissing reports a key that lmstfy requires too.
func (f *lmstfyFile) addMissing(key string) {
	f.addError(key, "is missing; lmstfy requires it too")
}

// spelled returns a key as the file spells it.
func (f *lmstfyFile) spelled(key string) string {
	if s, ok := f.spelling[strings.ToLower(key)]; ok {
		return s
	}
	return key
}

// set sets a setting. source is the key in the file.
func (f *lmstfyFile) set(setting string, value any, source string) {
	f.settings[setting], f.source[setting] = value, f.spelled(source)
}

// ignore lists a key as ignored if the file has it.
func (f *lmstfyFile) ignore(key, reason string) {
	if _, ok := f.get(key); ok {
		f.ignored = append(f.ignored, Ignored{f.origin(f.spelled(key)), f.spelled(key), reason})
	}
}

// ignoreTable lists a table as ignored if the file has it.
func (f *lmstfyFile) ignoreTable(table, reason string) {
	names := f.namesIn(table)
	for _, name := range names {
		f.used[strings.ToLower(table+dot+name)] = true
	}
	if len(names) > 0 {
		origin := f.origin(f.spelled(table + dot + names[0]))
		f.ignored = append(f.ignored, Ignored{origin, table, reason})
	}
}

// ignoreRest notes the keys that lmstfy no longer has, and unknown keys.
func (f *lmstfyFile) ignoreRest() {
	f.ignoreTable("SecondaryStorage", "the engine stores jobs of every delay")
	for key, spelled := range f.spelling {
		if _, isTable := f.Get(spelled).(map[string]any); !isTable && !f.used[key] {
			f.ignore(key, "it is not a key of lmstfy")
		}
	}

	// The order of a map is random. The order of the file is easier to follow.
	slices.SortFunc(f.ignored, func(a, b Ignored) int { return a.Origin.Line - b.Origin.Line })
}

// text returns the text of a key, or "" if the file does not have the key.
func (f *lmstfyFile) text(key string) string {
	value, ok := f.get(key)
	text, isText := value.(string)

	// If the key is missing, value is not a string either, but that is not an error.
	if ok && !isText {
		f.addError(key, "is %s, must be text in quotes", quote(value))
	}
	return text
}

// number returns an integer between lowest and highest, or missing if the file does not
// have the key.
func (f *lmstfyFile) number(key string, lowest, highest, missing int64) int64 {
	value, ok := f.get(key)
	if !ok {
		return missing
	}
	n, isNumber := value.(int64)
	if !isNumber || n < lowest || n > highest {
		f.addError(key, "is %s, must be a number between %d and %d", quote(value), lowest, highest)
		return missing
	}
	return n
}

// namesIn returns the names in a table, as the file spells them.
func (f *lmstfyFile) namesIn(table string) (names []string) {
	for key, spelled := range f.spelling {
		if rest, ok := strings.CutPrefix(key, strings.ToLower(table)+dot); ok {
			// rest is the end of the lower-case key, so the end of the spelled key has the same length.
			name, _, _ := strings.Cut(spelled[len(spelled)-len(rest):], dot)
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// readAddresses reads the two listen addresses. AdminHost is optional.
func (f *lmstfyFile) readAddresses() {
	host := f.text("Host")
	if host == "" {
		f.addMissing("Host")
	}
	if port := f.port("Port"); host != "" && port != "" {
		f.set("addr", net.JoinHostPort(host, port), "Host")
	}

	adminHost := f.text("AdminHost")
	if adminHost == "" {
		// The admin address must not be public by default.
		adminHost = "127.0.0.1"
	}
	if port := f.port("AdminPort"); port != "" {
		f.set("admin_addr", net.JoinHostPort(adminHost, port), "AdminPort")
	}
}

// port returns a port, or "" after it has reported an error.
func (f *lmstfyFile) port(key string) string {
	port := f.number(key, 1, 65535, 0)
	if port > 0 {
		return strconv.FormatInt(port, 10)
	}

	// For a value that is not a port, number has already reported an error.
	if _, ok := f.spelling[strings.ToLower(key)]; !ok {
		f.addMissing(key)
	}
	return ""
}

// levels maps the levels of logrus, which lmstfy uses, to those of duly.
var levels = map[string]string{
	"panic": "error", "fatal": "error", "error": "error", "warn": "warn", "warning": "warn", "info": "info",
	"debug": "debug", "trace": "debug",
}

func (f *lmstfyFile) readLog() {
	text := f.text("LogLevel")
	level, ok := levels[strings.ToLower(text)]
	switch {
	case ok:
		f.set("log.level", level, "LogLevel")
	case text != "":
		f.addError("LogLevel", "is %s, must be panic, fatal, error, warn, info, debug or trace", quote(text))
	}

	switch format := f.text("LogFormat"); format {
	case "json", "text":
		f.set("log.format", format, "LogFormat")
	case "":
	default:
		f.addError("LogFormat", "is %s, must be text or json", quote(format))
	}

	value, ok := f.get("EnableAccessLog")
	on, isBool := value.(bool)
	switch {
	case !ok:
	case !isBool:
		f.addError("EnableAccessLog", "is %s, must be true or false, without quotes", quote(value))
	case on:
		f.set("access_log", "on", "EnableAccessLog")
	default:
		f.set("access_log", "off", "EnableAccessLog")
	}

	f.ignore("LogDir", "duly logs to standard error; the service manager stores the log")
}

// readDefaults reads the defaults of requests.
func (f *lmstfyFile) readDefaults() {
	for _, d := range []struct{ key, setting string }{
		{"TTLSecond", "lmstfy_ttl"},
		{"DelaySecond", "lmstfy_delay"},
		{"TTRSecond", "lmstfy_ttr"},
		{"TimeoutSecond", "lmstfy_timeout"},
	} {
		// lmstfy has no value -1, so it means a missing key.
		if n := f.number(d.key, 0, maxSeconds/second, -1); n >= 0 {
			f.set(d.setting, fmt.Sprintf("%ds", n), d.key)
		}
	}
	if n := f.number("TriesNum", 1, 65535, -1); n > 0 {
		f.set("lmstfy_tries", n, "TriesNum")
	}
}

// readAccounts reads the accounts of the admin address.
func (f *lmstfyFile) readAccounts() {
	for _, name := range f.namesIn("Accounts") {
		key := "Accounts" + dot + name
		account, err := auth.NewAccount(name, f.text(key))
		if err != nil {
			// The first error does not end the loop: every account is checked.
			f.addError(key, "cannot be an account: %s", problemOf(err))
		}
		f.accounts = append(f.accounts, account)
	}
}

// readPools reads the pools, which are engines on Redis. The pool default is the setting
// engine.
func (f *lmstfyFile) readPools() {
	names := f.namesIn("Pool")
	if !slices.Contains(names, "default") {
		f.addMissing("Pool.default")
	}

	pools := map[string]any{}
	for _, name := range names {
		table := "Pool" + dot + name
		if version := f.text(table + ".Version"); version != "" {
			f.ignoreTable(table, "lmstfy ignores a pool with a Version too")
			continue
		}
		engine := f.redisURL(table)
		if name == "default" {
			f.set("engine", engine, table+".Addr")
			continue
		}
		pools[name] = engine
		f.set("pools", pools, table+".Addr")
	}
	f.ignoreTable("AdminRedis",
		"the engine of the pool default stores tokens and limits; to copy them: duly import lmstfy")
}

// redisURL returns the URL of one of lmstfy's Redis tables.
func (f *lmstfyFile) redisURL(table string) string {
	addr, master := f.text(table+".Addr"), f.text(table+".MasterName")
	if addr == "" {
		f.addMissing(table + ".Addr")
	}
	db := strconv.FormatInt(f.number(table+".DB", 0, 1<<31-1, 0), 10)
	u := url.URL{Scheme: "redis", Host: addr, Path: "/" + db}

	if password := f.text(table + ".Password"); password != "" {
		u.User = url.UserPassword("", password)
	}

	// The text is read in any case, so that the key counts as used.
	if sentinel := f.text(table + ".SentinelPassword"); master != "" {
		u.Scheme, u.Path = "redis+sentinel", "/"+master+u.Path
		if sentinel != "" {
			u.RawQuery = url.Values{"sentinel_password": {sentinel}}.Encode()
		}
	}

	f.ignore(table+".PoolSize", "an engine opens a few connections, which all callers share")
	f.ignore(table+".MigrateTo",
		"lmstfy ignores it since v1.0.12; to move a namespace in duly: duly pool move NAMESPACE --to POOL")
	return u.String()
}
