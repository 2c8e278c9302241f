package link

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dulymq/duly"
)

// known are the options, in the order in which they are told.
var known = []string{
	"addr", "db", "prefix", "durability", "durability_timeout", "eviction", "scripts", "dial_timeout", "retry",
	"master", "sentinel_user", "sentinel_password", "tls_ca", "tls_cert", "tls_key", "tls_server_name", "tls_skip_verify",
}

func (p *parser) query(text string) error {
	values, err := url.ParseQuery(text)
	if err != nil {
		return duly.Invalid("url", "has options that can't be read; write them like ?prefix=duly&durability=aof")
	}
	var bad duly.BadFields
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
			bad.Add("url", "has the unknown option %s; there are %s", strconv.Quote(name), strings.Join(slices.Concat(known, p.others), ", "))
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
			return duly.Invalid(name, "is empty; leave it out for %q", DefaultPrefix)
		}
	case "durability":
		return p.durability(value)
	case "durability_timeout":
		return p.time(name, value, &o.Durability.Timeout)
	case "eviction":
		o.EvictionWarn = value == "warn"
		if value != "warn" && value != "refuse" {
			return duly.Invalid(name, "is %s, must be refuse or warn", strconv.Quote(value))
		}
	case "scripts":
		o.Scripts = Scripts(value)
		if o.Scripts != Auto && o.Scripts != Functions && o.Scripts != Eval {
			return duly.Invalid(name, "is %s, must be auto, functions or eval", strconv.Quote(value))
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
	return duly.Invalid("durability", "is %s, must be none, aof or replicas:N with N from 1 to %d", strconv.Quote(value), maxReplicas)
}

func (p *parser) sentinel(name, value string) error {
	if p.o.Mode != Sentinel {
		return duly.Invalid(name, "is for redis+sentinel:// alone")
	}
	s := &p.o.Sentinel
	switch name {
	case "master":
		if s.Master != "" && s.Master != value {
			return duly.Invalid(name, "differs from the one in the path; give it once")
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
		return duly.Invalid(name, "is for rediss:// alone")
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
			return duly.Invalid(name, "is %s, must be true or false", strconv.Quote(value))
		}
		t.SkipVerify = skip
	}
	return nil
}

// db is the database by its option; one in the path must be the same.
func (p *parser) db(value string) error {
	path, given := p.o.DB, p.pathDB
	if err := p.number("db", value, &p.o.DB); err != nil {
		return err
	}
	if given && path != p.o.DB {
		return duly.Invalid("db", "is %d, but the path says /%d; give one of them", p.o.DB, path)
	}
	return nil
}

func (p *parser) number(name, value string, into *int) error {
	n, err := strconv.Atoi(value)
	if err != nil || n < 0 {
		return duly.Invalid(name, "is %s, must be a whole number of at least 0", strconv.Quote(value))
	}
	*into = n
	return nil
}

func (p *parser) time(name, value string, into *time.Duration) error {
	d, err := time.ParseDuration(value)
	if err != nil || d < time.Millisecond || d > maxTime {
		return duly.Invalid(name, "is %s, must be a time between 1ms and %v, like 500ms or 5s", strconv.Quote(value), maxTime)
	}
	*into = d
	return nil
}
