package messages

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/redis/rueidis"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/redisengine/internal/codec"
)

// Group holds the properties that all deliveries of a group's shard share.
type Group struct {
	Ref    duly.QueueRef
	Shard  Shard
	Config duly.QueueConfig
}

// GroupOf returns a shard of a group.
func GroupOf(ref duly.QueueRef, index int, cfg duly.QueueConfig) Group {
	topic, _, _ := ref.Group()
	return Group{ref, ShardOf(topic, index), cfg}
}

// job converts a message to a job of the group. It returns false for a damaged value.
func (g *Group) job(j *duly.Job, p Place, value string) bool {
	var m duly.Message
	if !Read(&m, value) {
		return false
	}
	d := g.Config.Defaults
	*j = duly.Job{
		ID: g.Shard.Position(p).String(), Namespace: g.Ref.Namespace, Queue: g.Ref.Name, OrderKey: m.Key,
		Body: m.Body, Headers: m.Headers,
		Due: clock.FromMilli(p.Millis), Tries: d.Tries, MaxStalls: d.MaxStalls, Backoff: d.Backoff, Lease: d.Lease,
		TTL: duly.None, Retain: duly.None,
	}
	return true
}

// Token identifies a Reserve in its receipts.
type Token uint64

// String returns the token as it is stored.
func (t Token) String() string { return string(binary.BigEndian.AppendUint64(nil, uint64(t))) }

// Deliveries reads the answer of the group_reserve script.
func (g *Group) Deliveries(r []rueidis.RedisMessage, t Token) (all []duly.Delivery, more, now, end int64) {
	more, now, end = codec.Integer(&r[0]), codec.Integer(&r[1]), codec.Integer(&r[2])
	again, fresh := codec.Elements(&r[3]), codec.Elements(&r[4])
	all = make([]duly.Delivery, 0, len(again)/4+len(fresh)/2)
	add := func(p Place, value string, failures, stalls int) {
		var d duly.Delivery
		if !g.job(&d.Job, p, value) {
			// Check reports the damaged message. When its lease ends, it counts as missed.
			return
		}
		parts := contract.ReceiptParts{Queue: g.Ref.Name, Shard: g.Shard.Index, Number: g.Shard.Position(p),
			Delivery: uint64(t)}
		d.Receipt, d.Failures, d.Stalls = parts.Receipt(), failures, stalls
		d.Attempt = contract.Attempt(&d.Job, failures, stalls)
		d.PushedAt, d.LeaseEnd, d.Now = clock.FromMilli(p.Millis), clock.FromMilli(end), clock.FromMilli(now)
		// The server's clock went back, and a message must not seem early.
		if d.Due.After(d.Now) {
			d.Now = d.Due
		}
		all = append(all, d)
	}

	addAgain := func(from, to int) {
		for i := from; i+3 < to; i += 4 {
			p, _ := ReadPlace(codec.Text(&again[i]))
			add(p, codec.Text(&again[i+3]), int(codec.Integer(&again[i+1])), int(codec.Integer(&again[i+2])))
		}
	}

	// Redelivered messages of a key come before its new messages, other redelivered messages come
	// after them.
	before := 4 * int(codec.Integer(&r[5]))
	addAgain(0, before)
	for i := 0; i+1 < len(fresh); i += 2 {
		if p, ok := readID(codec.Text(&fresh[i])); ok {
			add(p, codec.Text(&fresh[i+1]), 0, 0)
		}
	}
	addAgain(before, len(again))
	return all, more, now, end
}

// Info reads a message in the answer of include/group_find.lua.
func (g *Group) Info(m *rueidis.RedisMessage, body bool) (info duly.JobInfo, ok bool) {
	r := codec.Elements(m)
	if len(r) < 9 {
		return info, false
	}

	p, _ := ReadPlace(codec.Text(&r[0]))
	if !g.job(&info.Job, p, codec.Text(&r[7])) {
		return info, false
	}

	info.State, info.Size = codec.State(&r[1]), int(codec.Integer(&r[8]))
	info.Failures, info.Stalls = int(codec.Integer(&r[3])), int(codec.Integer(&r[4]))
	info.Attempt = contract.AttemptIn(&info.Job, info.State, info.Failures, info.Stalls)
	info.PushedAt, info.LastError = clock.FromMilli(p.Millis), codec.Text(&r[6])
	at := clock.FromMilli(codec.Integer(&r[2]))
	switch info.State {
	case duly.StateLeased:
		info.LeaseEnd = at
	case duly.StateDelayed:
		info.Due = clock.FromMilli(codec.Integer(&r[5]))
	case duly.StateDead:
		info.FinishedAt = at
	}

	if !body {
		info.Body = nil
	}
	return info, true
}

// Held identifies a delivery of a message: the token and the place of its receipt.
type Held struct {
	Token Token
	Place Place
}

// HeldSize is the length of a packed Held.
const HeldSize = 8 + PlaceSize

// HeldOf returns the delivery that a receipt of a group names. It returns false if the receipt does
// not belong to this group's topic.
func HeldOf(topic duly.QueueRef, p *contract.ReceiptParts) (h Held, ok bool) {
	parts := contract.PositionPartsOf(p.Number)
	return Held{Token(p.Delivery), Place{parts.Ordinal, parts.Millis}}, parts.Topic == contract.TopicChecksum(topic) &&
		parts.Shard == p.Shard
}

// String packs the delivery for the sender of a batch.
func (h Held) String() string {
	return rueidis.BinaryString(h.Place.Append(binary.BigEndian.AppendUint64(make([]byte, 0, HeldSize),
		uint64(h.Token))))
}

// ReadHeld reads a packed Held.
func ReadHeld(s string) Held {
	p, _ := ReadPlace(s[8:HeldSize])
	return Held{Token(binary.BigEndian.Uint64([]byte(s[:8]))), p}
}

// Bits holds messages of one token as a bitmap of ordinals.
type Bits struct {
	Token  Token
	First  uint64 // ordinal of the first bit
	Bitmap []byte
	items  []gathered // items sorted by ordinal
}

// gathered is a receipt, and its index in the call.
type gathered struct {
	Held
	at int
}

// maxSpan bounds a bitmap. Without the bound, redelivered messages that are far apart would need a
// huge bitmap.
const maxSpan = 4096

// Gather groups packed receipts by their tokens. It calls lost with the indexes of duplicates.
func Gather(args []string, lost func(at int)) (all []*Bits) {
	items := make([]gathered, len(args))
	for i, arg := range args {
		items[i] = gathered{ReadHeld(arg), i}
	}
	// Sorted by ordinal, the messages of a token form dense bitmaps.
	slices.SortStableFunc(items, func(a, b gathered) int {
		return cmp.Or(cmp.Compare(a.Token, b.Token), cmp.Compare(a.Place.Ordinal, b.Place.Ordinal))
	})

	var b *Bits
	for i, item := range items {
		ordinal := item.Place.Ordinal
		if i > 0 && items[i-1].Token == item.Token && items[i-1].Place.Ordinal == ordinal {
			lost(item.at)
			continue
		}
		if b == nil || b.Token != item.Token || ordinal-b.First >= maxSpan {
			b = &Bits{Token: item.Token, First: ordinal}
			all = append(all, b)
		}
		at := int(ordinal - b.First)
		for len(b.Bitmap) <= at/8 {
			b.Bitmap = append(b.Bitmap, 0)
		}
		b.Bitmap[at/8] |= 1 << (at % 8)
		b.items = append(b.items, item)
	}
	return all
}

// Places returns the places of the messages, concatenated in their order.
func (b *Bits) Places() string {
	text := make([]byte, 0, PlaceSize*len(b.items))
	for _, item := range b.items {
		text = item.Place.Append(text)
	}
	return rueidis.BinaryString(text)
}

// Lost calls f with the index in the call of each message that the bitmap of an answer marks.
func (b *Bits) Lost(bitmap string, f func(at int)) {
	if bitmap == "" {
		return
	}
	for _, item := range b.items {
		at := int(item.Place.Ordinal - b.First)
		if at/8 < len(bitmap) && bitmap[at/8]>>(at%8)&1 == 1 {
			f(item.at)
		}
	}
}

// PackOutcome packs an outcome other than a plain ack for the group_settle script.
func PackOutcome(h Held, o *duly.SettleRequest, position string) string {
	var w codec.Packer
	w.Array(6 + SlowParts(o))
	w.Text(h.Token.String())
	w.Text(h.Place.String())
	w.Text(o.As.String())
	delay := int64(duly.None)
	if o.Delay != nil {
		delay = codec.Micros(*o.Delay)
	}
	w.Integer(delay)
	w.Text(contract.CutError(o.Error))
	w.Text(position)
	PackSlow(&w, o)
	return string(w)
}

// PackAck packs a plain ack as PackOutcome packs other outcomes.
func PackAck(h Held) string { return PackOutcome(h, &duly.SettleRequest{As: duly.Ack}, "") }

// SlowParts returns how many elements PackSlow packs.
func SlowParts(o *duly.SettleRequest) int {
	if o.Slow == nil {
		return 0
	}
	return 2
}

// PackSlow packs what closes the queue of an outcome, in µs, and the reason.
func PackSlow(w *codec.Packer, o *duly.SettleRequest) {
	if o.Slow != nil {
		w.Integer(codec.Micros(*o.Slow))
		w.Text(contract.CutReason(o.Error))
	}
}
