package lmstfy

import (
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/server/route"
)

// Defaults are the values of parameters that a request leaves out. Durations are in whole
// seconds.
type Defaults struct {
	// TTL is the ttl of jobs that are published or respawned. 0 means no ttl.
	TTL   time.Duration
	Delay time.Duration
	Tries int
	// TTR is the lease of a consume, and Timeout how long it waits.
	TTR, Timeout time.Duration
}

// StandardDefaults returns the values that lmstfy itself uses if they are not configured.
func StandardDefaults() Defaults {
	return Defaults{TTL: 24 * time.Hour, Tries: 1, TTR: 2 * time.Minute}
}

func inSeconds(d time.Duration) uint64 { return uint64(d / time.Second) }

// params are a request's query. The first value of a repeated parameter counts. Unknown
// parameters are ignored.
type params struct {
	plain  string // the query of the URL if it has no escapes
	values url.Values
}

func query(c *route.Call) params { return readParams(c.R.URL.RawQuery) }

// readParams parses a query. Nearly all queries have no escapes, and for these it makes no map.
func readParams(raw string) params {
	// Package url decodes escapes and spaces, and rejects semicolons.
	if strings.ContainsAny(raw, "%+;") {
		return params{values: (&url.URL{RawQuery: raw}).Query()}
	}
	return params{plain: raw}
}

// find returns the first value of a parameter.
func (p params) find(name string) (value string, given bool) {
	if values, given := p.values[name]; given {
		return values[0], true
	}
	for rest := p.plain; rest != ""; {
		var one string
		one, rest, _ = strings.Cut(rest, "&")
		// Like package url, this skips empty pairs.
		if key, value, _ := strings.Cut(one, "="); key == name && one != "" {
			return value, true
		}
	}
	return "", false
}

// number reads an unsigned number with a size in bits. An empty value is not a number.
func (p params) number(name string, bits int, missing uint64) (uint64, error) {
	value, given := p.find(name)
	if !given {
		return missing, nil
	}
	n, err := strconv.ParseUint(value, 10, bits)
	if err != nil {
		return 0, badRequest("invalid " + name)
	}
	return n, nil
}

// signed reads a signed number between least and most.
func (p params) signed(name string, missing, least, most int64) (int64, error) {
	value, given := p.find(name)
	if !given {
		return missing, nil
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < least || n > most {
		return 0, badRequest("invalid " + name)
	}
	return n, nil
}

func seconds[T int64 | uint64](n T) time.Duration { return time.Duration(n) * time.Second }

// lifetime converts a ttl in seconds. 0 means no ttl.
func lifetime[T int64 | uint64](ttl T) time.Duration {
	if ttl == 0 {
		return duly.None
	}
	return seconds(ttl)
}

// lease converts a ttr in seconds, within the contract's bounds. 0 becomes the shortest lease, and
// more than a year the longest.
func lease(ttr uint64) time.Duration {
	return min(max(seconds(ttr), duly.MinLease), duly.MaxLease)
}

// rules are the parameters of a publish.
type rules struct {
	delay, ttl, tries uint64
}

func readRules(p params, d Defaults) (r rules, err error) {
	if r.delay, err = p.number("delay", 32, inSeconds(d.Delay)); err != nil {
		return r, err
	}
	if r.ttl, err = p.number("ttl", 32, inSeconds(d.TTL)); err != nil {
		return r, err
	}
	// A job whose ttl is shorter than its delay would expire before it is due.
	if r.ttl > 0 && r.ttl < r.delay {
		return r, badRequest("ttl is shorter than delay")
	}

	if r.tries, err = p.number("tries", 16, uint64(d.Tries)); err != nil {
		return r, err
	}
	if r.tries == 0 {
		return r, badRequest("tries shouldn't be zero")
	}
	return r, nil
}
