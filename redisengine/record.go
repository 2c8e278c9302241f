package redisengine

import (
	"encoding/binary"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
)

// bigBody is from where a body is told by the job's rules: a thousand smaller
// ones stay below the bound of a call.
const bigBody = 8 << 10

// plain tells whether the job has the contract's defaults for everything but
// its due moment. Nine of ten jobs do, and have no rules.
func plain(p *duly.Planned, ownID bool) bool {
	return !ownID && p.Priority == 0 && p.Tries == duly.DefaultTries && p.MaxStalls == duly.DefaultMaxStalls &&
		p.Backoff == duly.DefaultBackoff && p.Lease == duly.DefaultLease && p.TTL == duly.None && p.Retain == duly.None &&
		p.OrderKey == "" && p.MergeKey == "" && len(p.Body) <= bigBody
}

// simple tells whether no key ties the job to others, and its body is no large
// one.
func simple(p *duly.Planned) bool {
	return p.OrderKey == "" && !p.Merge.Set() && len(p.Body) <= bigBody
}

// moments is the length of what begins a record: when the job was pushed and
// when it is due, in ms, 6 bytes each.
const moments = 12

// packRecord is a record: the moments, the length of the headers in two bytes,
// the headers, the body.
func packRecord(j *duly.Job, pushed, due int64) string {
	return rueidis.BinaryString(appendRecord(make([]byte, 0, moments+2+len(j.Body)), j, pushed, due))
}

func appendRecord(b []byte, j *duly.Job, pushed, due int64) []byte {
	var headers []byte
	if len(j.Headers) > 0 {
		headers = packHeaders(j.Headers)
	}
	b = appendMoment(appendMoment(b, pushed), due)
	b = append(binary.BigEndian.AppendUint16(b, uint16(len(headers))), headers...)
	return append(b, j.Body...)
}

func appendMoment(b []byte, ms int64) []byte {
	return append(b, byte(ms>>40), byte(ms>>32), byte(ms>>24), byte(ms>>16), byte(ms>>8), byte(ms))
}

// packTail is a record without the moments, which the script puts before it.
func packTail(p *duly.Planned) string { return packRecord(&p.Job, 0, 0)[moments:] }

func packHeaders(h map[string]string) []byte {
	var p []byte
	for name, value := range h {
		p = append(binary.AppendUvarint(p, uint64(len(name))), name...)
		p = append(binary.AppendUvarint(p, uint64(len(value))), value...)
	}
	return p
}

func unpackHeaders(s string) (map[string]string, bool) {
	if s == "" {
		return nil, true
	}
	h := map[string]string{}
	text := func() (string, bool) {
		n, at := binary.Uvarint([]byte(s[:min(len(s), binary.MaxVarintLen64)]))
		if at <= 0 || n > uint64(len(s)-at) {
			return "", false
		}
		v := s[at : at+int(n)]
		s = s[at+int(n):]
		return v, true
	}
	for s != "" {
		name, ok1 := text()
		value, ok2 := text()
		if !ok1 || !ok2 {
			return nil, false
		}
		h[name] = value
	}
	return h, true
}

// packRules is the array that include/job.lua names the places of. The script
// fills in pushed and due, and the expiry of a push.
func packRules(w *packer, p *duly.Planned, ownID string) {
	w.array(18)
	w.integer(p.PushedAt)
	w.integer(p.DueAt)
	packBeforeExpiry(w, p)
	w.integer(p.ExpiresAt)
	packBeforeID(w, p)
	w.text(ownID)
	packBehindID(w, p)
}

func packBeforeExpiry(w *packer, p *duly.Planned) {
	w.integer(int64(p.Priority))
	w.integer(int64(p.Tries))
	w.integer(int64(p.MaxStalls))
	w.integer(micros(p.Lease))
}

func packBeforeID(w *packer, p *duly.Planned) {
	w.integer(millisOrNone(p.Retain))
	w.text(shortBackoff(p.Backoff))
	w.text(p.OrderKey)
	w.text(p.MergeKey)
	w.text(string(p.Merge.Mode))
	w.text(string(p.Merge.Until))
	w.integer(clock.Millis(p.Merge.MaxWait))
}

func packBehindID(w *packer, p *duly.Planned) {
	w.text(packTTL(p.TTL))
	w.text(packRest(p))
	size := 0
	if len(p.Body) > bigBody {
		size = len(p.Body)
	}
	w.integer(int64(size))
}

func millisOrNone(d time.Duration) int64 {
	if d == duly.None {
		return duly.None
	}
	return clock.Millis(d)
}

// micros is d in whole microseconds, rounded up: the servers' clocks know no
// less.
func micros(d time.Duration) int64 {
	us := int64(d / time.Microsecond)
	if d%time.Microsecond > 0 {
		us++
	}
	return us
}

func microsOrNone(d time.Duration) int64 {
	if d == duly.None {
		return duly.None
	}
	return micros(d)
}

// packTTL is a TTL as a text that the scripts hand on unread.
func packTTL(ttl time.Duration) string {
	if ttl == duly.None {
		return ""
	}
	return strconv.FormatInt(int64(ttl), 10)
}

func unpackTTL(s string) time.Duration {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return duly.None
	}
	return time.Duration(n)
}

// packRest is what the scripts do not read: texts as they were given, and
// durations to the nanosecond.
func packRest(p *duly.Planned) string {
	var w packer
	w.array(5)
	w.text(string(p.Backoff))
	w.integer(int64(p.Lease))
	w.integer(int64(p.Retain))
	w.text(p.Merge.Key)
	w.integer(int64(p.Merge.MaxWait))
	return string(w)
}

// shortBackoff is a policy as include/backoff.lua reads it; "" is the
// contract's default.
func shortBackoff(b duly.Backoff) string {
	if b == duly.DefaultBackoff || b == "" {
		return ""
	}
	text, kind := string(b), "s"
	if rest, ok := strings.CutPrefix(text, "exp:"); ok {
		text, kind = strings.Replace(rest, ":", ",", 1), "e"
	}
	text = strings.TrimPrefix(text, "fixed:")
	steps := []byte(kind)
	for i, part := range strings.Split(text, ",") {
		d, err := duly.ParseDuration(part)
		if err != nil {
			return "" // validated before: can't be
		}
		if i > 0 {
			steps = append(steps, ',')
		}
		steps = strconv.AppendInt(steps, d.Milliseconds(), 10)
	}
	return string(steps)
}
