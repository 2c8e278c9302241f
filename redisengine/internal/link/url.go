package link

import (
	"maps"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dulymq/duly/contract"
)

// schemes maps each scheme to the options that it implies.
var schemes = map[string]Options{
	"redis":           {Mode: Single},
	"rediss":          {Mode: Single, TLS: &TLS{}},
	"redis+unix":      {Mode: Single, Unix: true},
	"redis+sentinel":  {Mode: Sentinel},
	"rediss+sentinel": {Mode: Sentinel, TLS: &TLS{}},
	"redis+cluster":   {Mode: Cluster},
	"rediss+cluster":  {Mode: Cluster, TLS: &TLS{}},
}

// Schemes lists the schemes that ParseURL knows, without the "://".
func Schemes() []string { return slices.Sorted(maps.Keys(schemes)) }

// ParseURL reads the URL of a server, of Sentinels or of a cluster:
//
//	redis://[[USER]:PASSWORD@]HOST[:6379][/DB]       rediss:// with TLS
//	redis+unix://[[USER]:PASSWORD@]/PATH[?db=DB]
//	redis+sentinel://[…@]HOST[:26379][,HOST…]/MASTER[/DB]   rediss+sentinel://
//	redis+cluster://[…@]HOST[:6379][,HOST…]          rediss+cluster://
//
// More hosts may also be given as options addr=HOST:PORT. A character that would end a part (: /
// ? # @ ,) is written as %XX. The options are query parameters: db, prefix, durability (aof or
// replicas:N), durability_timeout, eviction (refuse or warn), scripts (auto, functions or eval),
// dial_timeout, retry; master, sentinel_user and sentinel_password; tls_ca, tls_cert, tls_key,
// tls_server_name and tls_skip_verify. ParseURL copies the caller's options, named in others,
// into Others. It returns [duly.ErrInvalid] for any other option. No error repeats a value that
// may be a secret.
func ParseURL(raw string, others ...string) (Options, error) {
	p := parser{others: others}
	err := p.parse(raw)
	if err == nil {
		p.o = p.o.withDefaults()
		err = p.o.validate()
	}
	if err != nil {
		return Options{}, err
	}
	return p.o, nil
}

type parser struct {
	o      Options
	others []string
	pathDB bool // whether the path has a database
}

func (p *parser) parse(raw string) error {
	scheme, rest, found := strings.Cut(raw, "://")
	o, known := schemes[scheme]
	if !found || !known {
		return contract.Invalid("url", "has no known scheme; write %s", forms)
	}
	if o.TLS != nil {
		// All Options of a scheme share the TLS value of the table, so this is a new one.
		o.TLS = &TLS{}
	}

	p.o = o
	if strings.Contains(rest, "#") {
		return contract.Invalid("url", "contains a #; write a # in a user, password or name as %%23")
	}

	place, query, _ := strings.Cut(rest, "?")
	authority, path, slash := strings.Cut(place, "/")
	if strings.Contains(path, "@") || strings.Contains(query, "@") {
		return contract.Invalid("url", "contains an @ after the host; write / ? @ in a user or password as %%2F %%3F %%40")
	}

	// The last @ ends the login, so a password may contain one.
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		if err := p.user(authority[:at]); err != nil {
			return err
		}
		authority = authority[at+1:]
	}

	if err := p.place(authority, path, slash); err != nil {
		return err
	}

	return p.query(query)
}

func (p *parser) user(text string) error {
	user, password, _ := strings.Cut(text, ":")
	var err1, err2 error
	p.o.User, err1 = url.PathUnescape(user)
	p.o.Password, err2 = url.PathUnescape(password)
	if err1 != nil || err2 != nil {
		return contract.Invalid("url", "has a %% in the user or password without two hex digits; write %%25 for the "+
			"character itself")
	}
	return nil
}

// place reads the part of the URL between the user and the options.
func (p *parser) place(authority, path string, slash bool) error {
	if p.o.Unix {
		name, err := url.PathUnescape(path)
		if err != nil || authority != "" || name == "" {
			return contract.Invalid("url", "names no socket; write redis+unix:///PATH, with %%25 for a %% and %%3F for a ? "+
				"in the path")
		}
		p.o.Addrs = []string{"/" + name}
		return nil
	}

	if err := p.addrs(strings.Split(authority, ",")); err != nil {
		return err
	}
	if !slash || path == "" {
		return nil
	}

	db := path
	if p.o.Mode == Sentinel {
		master, number, more := strings.Cut(path, "/")
		name, err := url.PathUnescape(master)
		if err != nil {
			return contract.Invalid("url", "has a %% in the master's name without two hex digits; write %%25 for the "+
				"character itself")
		}
		p.o.Sentinel.Master = name
		if !more || number == "" {
			return nil
		}
		db = number
	}

	p.pathDB = true
	return p.number("db", db, &p.o.DB)
}

func (p *parser) addrs(hosts []string) error {
	if p.o.Unix {
		return contract.Invalid("addr", "is only for redis+sentinel:// and redis+cluster://")
	}
	for _, host := range hosts {
		addr, err := p.addr(host)
		if err != nil {
			return err
		}
		p.o.Addrs = append(p.o.Addrs, addr)
	}
	return nil
}

func (p *parser) addr(text string) (string, error) {
	port := "6379"
	if p.o.Mode == Sentinel {
		port = "26379"
	}
	u, err := url.Parse("//" + text)
	// url.Parse accepts hosts with separators, which are mistakes here.
	if err != nil || u.Hostname() == "" || u.User != nil || strings.ContainsAny(u.Hostname(), " :@/") &&
		!strings.HasPrefix(text, "[") {
		return "", contract.Invalid("url", "has an empty or invalid host; write %s", forms)
	}
	if u.Port() != "" {
		port = u.Port()
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return "", contract.Invalid("url", "has a port that is not a number between 1 and 65535")
	}
	return net.JoinHostPort(u.Hostname(), port), nil
}

// known lists the options in the order in which messages name them.
var known = []string{
	"addr", "db", "prefix", "durability", "durability_timeout", "eviction", "scripts", "dial_timeout", "retry",
	"master", "sentinel_user", "sentinel_password", "tls_ca", "tls_cert", "tls_key", "tls_server_name", "tls_skip_verify",
}

func (p *parser) query(text string) error {
	values, err := url.ParseQuery(text)
	if err != nil {
		return contract.Invalid("url", "can't be parsed as options; write them like ?prefix=duly&durability=aof")
	}

	var bad contract.BadFields
	for _, name := range slices.Sorted(maps.Keys(values)) {
		switch {
		case name == "addr":
			bad.Take(p.addrs(values[name]))
		case len(values[name]) != 1:
			bad.Add("url", "gives option %s %d times, give it once", strconv.Quote(name), len(values[name]))
		case slices.Contains(p.others, name):
			if p.o.Others == nil {
				p.o.Others = map[string]string{}
			}
			p.o.Others[name] = values[name][0]
		case !slices.Contains(known, name):
			bad.Add("url", "has the unknown option %s; known options are %s", strconv.Quote(name),
				strings.Join(slices.Concat(known, p.others), ", "))
		default:
			bad.Take(p.option(name, values[name][0]))
		}
	}

	return bad.Err()
}

func (p *parser) option(name, value string) error {
	o := &p.o
	switch name {
	case "db":
		return p.db(value)
	case "prefix":
		o.Prefix = value
		if value == "" {
			return contract.Invalid(name, "is empty; leave it out for %q", DefaultPrefix)
		}
	case "durability":
		return p.durability(value)
	case "durability_timeout":
		return p.time(name, value, &o.Durability.Timeout)
	case "eviction":
		o.EvictionWarn = value == "warn"
		if value != "warn" && value != "refuse" {
			return contract.Invalid(name, "is %s, must be refuse or warn", strconv.Quote(value))
		}
	case "scripts":
		o.Scripts = Scripts(value)
		if o.Scripts != Auto && o.Scripts != Functions && o.Scripts != Eval {
			return contract.Invalid(name, "is %s, must be auto, functions or eval", strconv.Quote(value))
		}
	case "dial_timeout":
		return p.time(name, value, &o.Dial)
	case "retry":
		return p.time(name, value, &o.Retry)
	case "master", "sentinel_user", "sentinel_password":
		return p.sentinel(name, value)
	default:
		return p.tls(name, value)
	}

	return nil
}

func (p *parser) durability(value string) error {
	d := &p.o.Durability
	count, replicas := strings.CutPrefix(value, "replicas:")
	switch {
	case value == "aof":
		d.AOF = true
		return nil
	case value == "none":
		return nil
	case replicas:
		if n, err := strconv.Atoi(count); err == nil && n >= 1 && n <= maxReplicas {
			d.Replicas = n
			return nil
		}
	}
	return contract.Invalid("durability", "is %s, must be none, aof or replicas:N with N from 1 to %d",
		strconv.Quote(value), maxReplicas)
}

func (p *parser) sentinel(name, value string) error {
	if p.o.Mode != Sentinel {
		return contract.Invalid(name, "is only for redis+sentinel://")
	}
	s := &p.o.Sentinel
	switch name {
	case "master":
		if s.Master != "" && s.Master != value {
			return contract.Invalid(name, "differs from the one in the path; give it once")
		}
		s.Master = value
	case "sentinel_user":
		s.User = value
	case "sentinel_password":
		s.Password = value
	}
	return nil
}

func (p *parser) tls(name, value string) error {
	t := p.o.TLS
	if t == nil {
		return contract.Invalid(name, "is only for rediss://")
	}

	switch name {
	case "tls_ca":
		t.CA = value
	case "tls_cert":
		t.Cert = value
	case "tls_key":
		t.Key = value
	case "tls_server_name":
		t.ServerName = value
	case "tls_skip_verify":
		skip, err := strconv.ParseBool(value)
		if err != nil {
			return contract.Invalid(name, "is %s, must be true or false", strconv.Quote(value))
		}
		t.SkipVerify = skip
	}

	return nil
}

// db sets the database from its option. A database in the path must be the same.
func (p *parser) db(value string) error {
	path, given := p.o.DB, p.pathDB
	if err := p.number("db", value, &p.o.DB); err != nil {
		return err
	}
	if given && path != p.o.DB {
		return contract.Invalid("db", "is %d, but the path says /%d; give one of them", p.o.DB, path)
	}
	return nil
}

func (p *parser) number(name, value string, into *int) error {
	n, err := strconv.Atoi(value)
	if err != nil || n < 0 {
		return contract.Invalid(name, "is %s, must be a whole number of at least 0", strconv.Quote(value))
	}
	*into = n
	return nil
}

func (p *parser) time(name, value string, into *time.Duration) error {
	d, err := time.ParseDuration(value)
	if err != nil || d < time.Millisecond || d > maxTime {
		return contract.Invalid(name, "is %s, must be a time between 1ms and %v, like 500ms or 5s", strconv.Quote(value),
			maxTime)
	}
	*into = d
	return nil
}
