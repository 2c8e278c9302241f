package codec

import (
	"encoding/binary"
	"errors"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/schedule"
)

// A record is the value of one schedule in the Redis hash named "schedules".
// lua/include/schedule.lua describes its bytes.

// scheduleHead is the length of a record's head: the part that the engine maintains, and not the
// caller.
const scheduleHead = 39

// The flags of a record.
const (
	schedulePaused = 1
	scheduleHeld   = 2
)

// ScheduleHead returns the head of a schedule's record.
func ScheduleHead(r *contract.ScheduleRecord) string {
	b := make([]byte, 0, scheduleHead)
	b = binary.BigEndian.AppendUint64(b, uint64(r.Version))
	flags := byte(0)
	if r.Paused {
		flags |= schedulePaused
	}
	if r.Held {
		flags |= scheduleHeld
	}
	b = append(b, flags)
	for _, n := range [...]int64{r.Next, r.Last, r.Fired, r.Skipped, r.Missed} {
		b = binary.BigEndian.AppendUint16(b, uint16(n>>32))
		b = binary.BigEndian.AppendUint32(b, uint32(n))
	}
	return string(b)
}

// PackSchedule returns the record of a schedule.
func PackSchedule(r *contract.ScheduleRecord) string {
	return ScheduleHead(r) + string(schedule.Encode(&r.Schedule))
}

// idlePlace is the score of a schedule that fires nothing.
const idlePlace = 1 << 52

// TickScore returns the score of a schedule in the order of the ticks.
func TickScore(r *contract.ScheduleRecord) string {
	if r.Idle() {
		return strconv.Itoa(idlePlace)
	}
	return strconv.FormatInt(r.Next, 10)
}

// IdlePlace returns the score of a schedule that fires nothing.
func IdlePlace() string { return strconv.Itoa(idlePlace) }

// ScheduleVersion returns a version in its stored form.
func ScheduleVersion(version int64) string {
	return string(binary.BigEndian.AppendUint64(nil, uint64(version)))
}

// ReadScheduleVersion is the inverse of ScheduleVersion.
func ReadScheduleVersion(m *rueidis.RedisMessage) int64 {
	u := Unpacker{Rest: Text(m)}
	return int64(u.number(8))
}

// ReadSchedule reads a record. It returns an error for a record that another program has written.
func ReadSchedule(ref duly.QueueRef, name, text string) (r contract.ScheduleRecord, err error) {
	r.Queue = ref
	u := Unpacker{Rest: text}
	r.Version = int64(u.number(8))
	flags := u.head()
	r.Paused, r.Held = flags&schedulePaused != 0, flags&scheduleHeld != 0
	for _, n := range [...]*int64{&r.Next, &r.Last, &r.Fired, &r.Skipped, &r.Missed} {
		*n = int64(u.number(6))
	}
	if u.Bad || r.Version <= 0 {
		return r, errors.New("the schedule's record is shorter than its parts")
	}
	r.Schedule, err = schedule.Decode(name, []byte(u.Rest))
	return r, err
}

// FireArgs appends an item of a Fire as the script takes it. p is the planned run, or nil if the
// tick makes no run. number is the number of the run's job.
func FireArgs(args []string, item *contract.FireItem, missed int, p *contract.Planned, number duly.Number) []string {
	var w Packer
	w.Array(7)
	w.Text(item.Name)
	w.Text(ScheduleVersion(item.Version))
	w.Integer(item.Expected)
	w.Integer(item.Tick)
	w.Integer(item.Following)
	w.Integer(int64(missed))
	if p == nil {
		w.No()
		return append(args, rueidis.BinaryString(w), "", "")
	}

	alias := Alias(p.ID)
	flags := Flags(p, alias)
	rest := AppendTail(nil, p, alias)
	policy := PolicyOf(p)
	w.Array(11)
	w.Text(string(number[:]))
	w.Text(alias)
	w.Integer(p.DueAt)
	w.Text(p.OrderKey)
	w.Text(p.MergeKey)
	w.Integer(int64(p.Priority))
	w.Integer(int64(flags))
	w.Text(policy.Pack())
	w.Integer(p.ExpiresAt)
	w.Integer(int64(1 + headersBegin(p, alias))) // Lua counts from 1
	w.Bool(flags&hasHeaders != 0)

	body := ""
	if len(p.Body) > BigBody {
		body = string(p.Body)
	}
	return append(args, rueidis.BinaryString(w), rueidis.BinaryString(rest), body)
}

// headersBegin returns where the headers begin behind the priority of a record, from 0, with
// their length.
func headersBegin(p *contract.Planned, alias string) (at int) {
	for _, text := range [...]string{alias, p.OrderKey, p.MergeKey} {
		if text != "" {
			at += 1 + len(text)
		}
	}
	if len(p.Body) > BigBody {
		at += 4
	}
	return at
}
