package codec

import (
	"encoding/binary"
	"strconv"
	"strings"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
)

// A record is the value of a job in the hash records. lua/include/job.lua describes its bytes,
// and docs/redis-layout.md has examples.

// BigBody is the longest body in a record, in bytes. A longer one is stored next to
// the record, because the scripts read records to see which options a job has.
const BigBody = 2 << 10

// These are the flags of a record, as HAS in lua/include/job.lua.
const (
	HasDue byte = 1 << iota
	hasExpires
	HasPriority
	hasID
	hasOrder
	hasMerge
	hasSize
	hasHeaders
)

// These policy indexes are not in the shard's list.
const (
	PlaceBare   = 0   // the contract's defaults, and no options
	PlaceInline = 255 // the record holds the policy
)

// recordHead is the length of the head of a record: the push time in ms, 6 bytes; the index of
// the policy; the flags.
const recordHead = 8

// policy holds the properties that many jobs share. The shard stores each policy once.
type policy struct {
	tries, maxStalls   int
	backoff            duly.Backoff
	lease, ttl, retain time.Duration
	mode               duly.MergeMode
	until              duly.MergeUntil
	maxWait            time.Duration
}

// PolicyOf returns the policy of a job.
func PolicyOf(p *contract.Planned) policy {
	return policy{
		tries: p.Tries, maxStalls: p.MaxStalls, backoff: p.Backoff, lease: p.Lease, ttl: p.TTL, retain: p.Retain,
		mode: p.Merge.Mode, until: p.Merge.Until, maxWait: p.Merge.MaxWait,
	}
}

// barePolicy is the policy of a bare job: the contract's defaults.
var barePolicy = policy{
	tries: duly.DefaultTries, maxStalls: duly.DefaultMaxStalls, backoff: duly.DefaultBackoff,
	lease: duly.DefaultLease, ttl: duly.None, retain: duly.None,
}

// policyParts is the number of parts of a packed policy.
const policyParts = 13

// Pack returns the packed policy. The scripts read the first parts (lua/include/policy.lua). The
// others are the exact values, which only Go reads.
func (p policy) Pack() string {
	var w Packer
	w.Array(policyParts)
	w.Integer(int64(p.tries))
	w.Integer(int64(p.maxStalls))
	w.Integer(Micros(p.lease))
	w.Integer(MillisOrNone(p.retain))
	w.Text(ShortBackoff(p.backoff))
	w.Text(string(p.mode))
	w.Text(string(p.until))
	w.Integer(clock.Millis(p.maxWait))
	w.Text(PackTTL(p.ttl))
	w.Text(string(p.backoff))
	w.Integer(int64(p.lease))
	w.Integer(int64(p.retain))
	w.Integer(int64(p.maxWait))
	return string(w)
}

// readPolicy reads a packed policy. An empty text means that the shard has lost the policy; the
// result is the defaults.
func readPolicy(text string) (p policy, ok bool) {
	if text == "" {
		return barePolicy, true
	}
	u := Unpacker{Rest: text}
	if u.Array() != policyParts {
		return p, false
	}
	p.tries, p.maxStalls = int(u.integer()), int(u.integer())
	// the lease in µs, which the exact lease below repeats
	u.integer()
	u.integer() // Retain in ms
	u.Text()    // the backoff's short form
	p.mode, p.until = duly.MergeMode(u.Text()), duly.MergeUntil(u.Text())
	u.integer() // MaxWait in ms
	p.ttl = unpackTTL(u.Text())
	p.backoff = duly.Backoff(u.Text())
	p.lease, p.retain, p.maxWait = time.Duration(u.integer()), time.Duration(u.integer()), time.Duration(u.integer())
	return p, !u.Bad
}

// IsBare reports whether the job has the contract's defaults and no options. Most
// jobs do.
func IsBare(p *contract.Planned, alias string) bool {
	return alias == "" && p.Priority == 0 && p.OrderKey == "" && p.MergeKey == "" && len(p.Body) <= BigBody &&
		PolicyOf(p) == barePolicy
}

// Alias returns the key that finds a job by its ID: n and the number for a ULID, i and the text
// for any other ID.
func Alias(id string) string {
	if n, ok := duly.ParseNumber(id); ok {
		return "n" + string(n[:])
	}
	return "i" + id
}

// IDOf returns the ID of an alias.
func IDOf(alias string) string {
	if alias == "" {
		return ""
	}
	if alias[0] == 'n' && len(alias) == 1+NumberSize {
		return duly.Number([]byte(alias[1:])).String()
	}
	return alias[1:]
}

// Flags returns the flags of a record that the client knows: all except those of the due time and
// the expiry.
func Flags(p *contract.Planned, alias string) (flags byte) {
	for _, f := range [...]struct {
		set  bool
		flag byte
	}{
		{p.Priority != 0, HasPriority}, {alias != "", hasID}, {p.OrderKey != "", hasOrder}, {p.MergeKey != "", hasMerge},
		{len(p.Body) > BigBody, hasSize}, {len(p.Headers) > 0 || hasDestination(&p.Job), hasHeaders},
	} {
		if f.set {
			flags |= f.flag
		}
	}
	return flags
}

// AppendTail appends the part of the record behind the priority.
func AppendTail(b []byte, p *contract.Planned, alias string) []byte {
	for _, text := range [...]string{alias, p.OrderKey, p.MergeKey} {
		if text != "" {
			b = append(append(b, byte(len(text))), text...)
		}
	}
	// A large body is stored next to the record, which only has its length.
	if len(p.Body) > BigBody {
		b = binary.BigEndian.AppendUint32(b, uint32(len(p.Body)))
	}
	if len(p.Headers) > 0 || hasDestination(&p.Job) {
		headers := appendDestinations(PackHeaders(p.Headers), &p.Job)
		b = append(binary.BigEndian.AppendUint16(b, uint16(len(headers))), headers...)
	}
	if len(p.Body) > BigBody {
		return b
	}
	return append(b, p.Body...)
}

// PackHeaders packs names and values, each after its length.
func PackHeaders(h map[string]string) []byte {
	var p []byte
	for name, value := range h {
		p = appendHeader(p, name, value)
	}
	return p
}

func appendHeader(p []byte, name, value string) []byte {
	p = append(binary.AppendUvarint(p, uint64(len(name))), name...)
	return append(binary.AppendUvarint(p, uint64(len(value))), value...)
}

// A job's destinations are stored among its headers, under names that no header can have. They
// cost nothing in a record without them, and the scripts need not know them.
const destinationNames = 3

func destinations(j *duly.Job) [destinationNames]*string {
	return [...]*string{&j.Callback, &j.OnDone, &j.OnDead}
}

func hasDestination(j *duly.Job) bool { return j.Callback != "" || j.OnDone != "" || j.OnDead != "" }

func appendDestinations(p []byte, j *duly.Job) []byte {
	for i, text := range destinations(j) {
		if *text != "" {
			// Header names have no control characters, so these can't collide.
			p = appendHeader(p, string(rune(1+i)), *text)
		}
	}
	return p
}

// unpackHeaders reads the headers of a job, with its destinations. It returns false for a damaged
// text.
func unpackHeaders(s string, j *duly.Job) (ok bool) {
	if j.Headers, ok = UnpackHeaders(s); !ok {
		return false
	}
	for i, to := range destinations(j) {
		name := string(rune(1 + i))
		if text, there := j.Headers[name]; there {
			*to = text
			delete(j.Headers, name)
		}
	}
	if len(j.Headers) == 0 {
		j.Headers = nil
	}
	return true
}

// UnpackHeaders reads the output of PackHeaders. It returns false for a damaged text.
func UnpackHeaders(s string) (map[string]string, bool) {
	if s == "" {
		return nil, true
	}

	h := map[string]string{}
	text := func() (string, bool) {
		// A length is at most this long, so the whole text is not copied.
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

// MillisOrNone returns d in milliseconds, or duly.None.
func MillisOrNone(d time.Duration) int64 {
	if d == duly.None {
		return duly.None
	}
	return clock.Millis(d)
}

// Micros returns d in microseconds, rounded up. The servers' clocks have no finer resolution.
func Micros(d time.Duration) int64 {
	us := int64(d / time.Microsecond)
	if d%time.Microsecond > 0 {
		us++
	}
	return us
}

// MicrosOrNone returns d in microseconds, or duly.None.
func MicrosOrNone(d time.Duration) int64 {
	if d == duly.None {
		return duly.None
	}
	return Micros(d)
}

// PackTTL returns a TTL as a text. The scripts pass it on without reading it.
func PackTTL(ttl time.Duration) string {
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

// ShortBackoff returns a policy as include/backoff.lua reads it. It returns "" for the contract's
// default.
func ShortBackoff(b duly.Backoff) string {
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
			// It was validated, so there is no error.
			return ""
		}
		if i > 0 {
			steps = append(steps, ',')
		}
		steps = strconv.AppendInt(steps, d.Milliseconds(), 10)
	}

	return string(steps)
}

// NumberSize is the length of a job's number. An outcome of only a number is an ack of a first
// delivery.
const NumberSize = len(duly.Number{})
