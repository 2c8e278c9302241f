package redisengine

import (
	"math"
	"strconv"
)

// dueBy is when the job is due, in ms, if the server's clock stands at now, in
// microseconds.
func (i *pushItem) dueBy(now int64) int64 {
	switch {
	case i.when < 0:
		return max(now/1000, -i.when)
	case i.when == 0:
		return now / 1000
	}
	return (now + i.when + 999) / 1000
}

// packReckoned is the latest clock that the calls have reckoned with, in
// microseconds, "0" if one of them could not, or did so more than a tenth of a
// second before another, or if a number stands in them twice.
func packReckoned(calls []*joint) string {
	earliest, latest, last, rising := int64(math.MaxInt64), int64(0), "", true
	for _, c := range calls {
		if c.reckoned == 0 {
			return "0"
		}
		earliest, latest = min(earliest, c.reckoned), max(latest, c.reckoned)
		for i := 0; i < len(c.args); i += 2 {
			rising = rising && c.args[i] > last
			last = c.args[i]
		}
	}
	if latest-earliest > 100_000 || !rising && repeats(calls) {
		return "0"
	}
	return strconv.FormatInt(latest, 10)
}

// repeats tells whether a number stands in the calls twice.
func repeats(calls []*joint) bool {
	seen := make(map[string]bool, 2*len(calls))
	for _, c := range calls {
		for i := 0; i < len(c.args); i += 2 {
			if seen[c.args[i]] {
				return true
			}
			seen[c.args[i]] = true
		}
	}
	return false
}

// packWhens is one moment for all jobs, or each job's own.
func packWhens(calls []*joint) (when, whens string) {
	first, n := calls[0].whens[0], 0
	same := true
	for _, c := range calls {
		n += c.items
		for _, w := range c.whens {
			same = same && w == first
		}
	}
	if same {
		return strconv.FormatInt(first, 10), ""
	}
	var w packer
	w.array(n)
	for _, c := range calls {
		for _, at := range c.whens {
			w.integer(at)
		}
	}
	return "", string(w)
}
