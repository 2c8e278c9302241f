// Package rules packs the fields of a job that differ from the contract's defaults into
// column rules of table jobs.
package rules

import (
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// The column rules holds all fields of a job that differ from the contract's defaults,
// packed. It is NULL for a job without any.
//
// It begins with a uvarint whose bits name the fields that follow, in the order of the
// bits. Numbers are varints, durations are in nanoseconds and times in milliseconds. A
// text follows its length. New fields take new bits; the meaning of a bit never changes.
const (
	hasID uint64 = 1 << iota
	hasPriority
	hasTries
	hasMaxStalls
	hasBackoff
	hasTTL
	hasExpiry
	hasLease
	hasRetain
	hasHeaders
	hasOrderKey
	hasMerge
	// isMessageCopy marks a copy of a message in a group, as opposed to a pointer into
	// the log.
	isMessageCopy
	hasCallback
	hasOnDone
	hasOnDead
	knownRules   = hasMerge<<1 - 1 | hasCallback | hasOnDone | hasOnDead
	messageRules = isMessageCopy | hasHeaders | hasOrderKey
)

// Pack packs the fields of a job that differ from the defaults. It returns nil if none does. alias
// is the ID of the job if its number is not the ID, else "".
func Pack(p *contract.Planned, alias string) []byte {
	return packFields(p, alias, ruleBits(p, alias))
}

// PackMessage packs the rules of a message of a group. For a dead copy it packs the headers and the
// key. For a pointer into the log it packs only the key that may block the message.
func PackMessage(p *contract.Planned, isCopy bool, blockingKey string) []byte {
	bits := uint64(0)
	switch {
	case isCopy:
		bits = isMessageCopy | ruleBits(p, "")&(hasHeaders|hasOrderKey)
	case blockingKey != "":
		bits = hasOrderKey
	}
	return packFields(p, "", bits)
}

// packFields packs the fields that bits names.
func packFields(p *contract.Planned, alias string, bits uint64) []byte {
	if bits == 0 {
		return nil
	}

	w := packer(binary.AppendUvarint(make([]byte, 0, 64), bits))
	w.text(bits&hasID, alias)
	w.number(bits&hasPriority, int64(p.Priority))
	w.number(bits&hasTries, int64(p.Tries))
	w.number(bits&hasMaxStalls, int64(p.MaxStalls))
	w.text(bits&hasBackoff, string(p.Backoff))
	w.number(bits&hasTTL, int64(p.TTL))
	w.number(bits&hasExpiry, p.ExpiresAt)
	w.number(bits&hasLease, int64(p.Lease))
	w.number(bits&hasRetain, int64(p.Retain))
	if bits&hasHeaders != 0 {
		w.headers(p.Headers)
	}

	w.text(bits&hasOrderKey, p.OrderKey)
	if bits&hasMerge != 0 {
		// One bit covers all fields of a merge, so each field is written even if it is empty.
		w.text(1, p.Merge.Key)
		w.text(1, p.MergeKey)
		w.text(1, string(p.Merge.Mode))
		w.text(1, string(p.Merge.Until))
		w.number(1, int64(p.Merge.MaxWait))
	}

	w.text(bits&hasCallback, p.Callback)
	w.text(bits&hasOnDone, p.OnDone)
	w.text(bits&hasOnDead, p.OnDead)
	return w
}

// ruleBits returns the bits of the fields that differ from the defaults.
func ruleBits(p *contract.Planned, alias string) (bits uint64) {
	set := func(bit uint64, differs bool) {
		if differs {
			bits |= bit
		}
	}

	set(hasID, alias != "")
	set(hasPriority, p.Priority != 0)
	set(hasTries, p.Tries != duly.DefaultTries)
	set(hasMaxStalls, p.MaxStalls != duly.DefaultMaxStalls)
	set(hasBackoff, p.Backoff != duly.DefaultBackoff)
	set(hasTTL, p.TTL != duly.None)
	set(hasExpiry, p.ExpiresAt != 0)
	set(hasLease, p.Lease != duly.DefaultLease)
	set(hasRetain, p.Retain != duly.None)
	set(hasHeaders, len(p.Headers) > 0)
	set(hasOrderKey, p.OrderKey != "")
	set(hasMerge, p.MergeKey != "")
	set(hasCallback, p.Callback != "")
	set(hasOnDone, p.OnDone != "")
	set(hasOnDead, p.OnDead != "")
	return bits
}

// packer appends fields to a buffer. It leaves out a field that is not wanted.
type packer []byte

func (w *packer) text(wanted uint64, v string) {
	if wanted != 0 {
		*w = append(binary.AppendUvarint(*w, uint64(len(v))), v...)
	}
}

func (w *packer) number(wanted uint64, v int64) {
	if wanted != 0 {
		*w = binary.AppendVarint(*w, v)
	}
}

// headers packs headers sorted by name, so that equal jobs are packed equally.
func (w *packer) headers(h map[string]string) {
	names := make([]string, 0, len(h))
	for name := range h {
		names = append(names, name)
	}
	slices.Sort(names)
	w.number(1, int64(len(names)))
	for _, name := range names {
		w.text(1, name)
		w.text(1, h[name])
	}
}

// ErrInvalid is the error for a rules column that can't be read.
var ErrInvalid = errors.New("sqliteengine: the rules of a job are damaged or from a newer version")

// IsMessageCopy reports whether rules belongs to a copy of a message.
func IsMessageCopy(rules []byte) bool {
	bits, n := binary.Uvarint(rules)
	return n > 0 && bits&isMessageCopy != 0
}

// Unpack sets the fields of a plan and returns the job's alias.
func Unpack(b []byte, p *contract.Planned) (alias string, err error) {
	return unpackFields(b, p, knownRules)
}

// UnpackMessage sets the fields of a message of a group.
func UnpackMessage(b []byte, p *contract.Planned) error {
	_, err := unpackFields(b, p, messageRules)
	return err
}

// HasEntries reports whether a job with these rules has rows in other tables: an alias, an
// order key or a merge key. It returns true for unknown rules.
func HasEntries(rules []byte) bool {
	if rules == nil {
		return false
	}
	bits, n := binary.Uvarint(rules)
	return n <= 0 || bits&^(knownRules&^(hasID|hasOrderKey|hasMerge)) != 0
}

// unpackFields is like Unpack for a given set of known bits.
func unpackFields(b []byte, p *contract.Planned, known uint64) (alias string, err error) {
	// A field without a bit has its default.
	p.Tries, p.MaxStalls, p.Backoff = duly.DefaultTries, duly.DefaultMaxStalls, duly.DefaultBackoff
	p.TTL, p.Lease, p.Retain = duly.None, duly.DefaultLease, duly.None
	if b == nil {
		return "", nil
	}

	r := &unpacker{rest: b}
	bits := r.uvarint()
	// The length of an unknown field is not known. No rules without bits are ever written.
	if bits&^known != 0 || bits == 0 {
		return "", ErrInvalid
	}

	alias = r.text(bits & hasID)
	r.integer(bits&hasPriority, &p.Priority)
	r.integer(bits&hasTries, &p.Tries)
	r.integer(bits&hasMaxStalls, &p.MaxStalls)
	if bits&hasBackoff != 0 {
		p.Backoff = duly.Backoff(r.text(1))
	}

	r.duration(bits&hasTTL, &p.TTL)
	p.ExpiresAt = r.number(bits & hasExpiry)
	r.duration(bits&hasLease, &p.Lease)
	r.duration(bits&hasRetain, &p.Retain)
	if bits&hasHeaders != 0 {
		p.Headers = r.headers()
	}

	p.OrderKey = r.text(bits & hasOrderKey)
	if bits&hasMerge != 0 {
		p.Merge.Key, p.MergeKey = r.text(1), r.text(1)
		p.Merge.Mode, p.Merge.Until = duly.MergeMode(r.text(1)), duly.MergeUntil(r.text(1))
		r.duration(1, &p.Merge.MaxWait)
	}

	p.Callback = r.text(bits & hasCallback)
	p.OnDone = r.text(bits & hasOnDone)
	p.OnDead = r.text(bits & hasOnDead)
	// Remaining bytes show that the bits and the fields disagree.
	if r.bad || len(r.rest) > 0 {
		return "", ErrInvalid
	}

	return alias, nil
}

// unpacker reads fields from a buffer. It does not read a field that is not wanted.
type unpacker struct {
	rest []byte
	bad  bool
}

func (r *unpacker) uvarint() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.bad = true
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *unpacker) number(wanted uint64) int64 {
	if wanted == 0 {
		return 0
	}
	v, n := binary.Varint(r.rest)
	if n <= 0 {
		r.bad = true
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *unpacker) integer(wanted uint64, to *int) {
	if wanted != 0 {
		*to = int(r.number(1))
	}
}

func (r *unpacker) duration(wanted uint64, to *time.Duration) {
	if wanted != 0 {
		*to = time.Duration(r.number(1))
	}
}

func (r *unpacker) text(wanted uint64) string {
	if wanted == 0 {
		return ""
	}
	n := r.uvarint()
	// The comparison is unsigned, because a damaged length may exceed an int.
	if n > uint64(len(r.rest)) {
		r.bad = true
		return ""
	}
	v := string(r.rest[:n])
	r.rest = r.rest[n:]
	return v
}

func (r *unpacker) headers() map[string]string {
	n := r.number(1)
	// The bound keeps a damaged number from allocating much memory.
	if n < 1 || n > duly.MaxHeaders {
		r.bad = true
		return nil
	}
	h := make(map[string]string, n)
	for range n {
		name := r.text(1)
		h[name] = r.text(1)
	}
	return h
}

// AppendText appends a string with its length.
func AppendText(b []byte, text string) []byte {
	w := packer(b)
	w.text(1, text)
	return w
}

// Texts reads n texts that fill a buffer. It returns false for an invalid buffer.
func Texts(b []byte, n int) (texts []string, ok bool) {
	r := &unpacker{rest: b}
	for range n {
		texts = append(texts, r.text(1))
	}
	return texts, !r.bad && len(r.rest) == 0
}

// PackHeaders packs headers. It returns nil if there are none.
func PackHeaders(h map[string]string) []byte {
	if len(h) == 0 {
		return nil
	}
	w := packer(make([]byte, 0, 64))
	w.headers(h)
	return w
}

// UnpackHeaders reverses PackHeaders. If the headers are damaged, it returns none, so that the
// message is still delivered.
func UnpackHeaders(b []byte) map[string]string {
	if b == nil {
		return nil
	}
	r := &unpacker{rest: b}
	h := r.headers()
	if r.bad || len(r.rest) > 0 {
		return nil
	}
	return h
}
