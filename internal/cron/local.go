package cron

import (
	"math/bits"
	"time"
)

// In this file, a local time is a number of seconds: the Unix time at which a clock in UTC shows
// the same time. It has no offset, so every local time exists.

const (
	secondsPerDay = 24 * 60 * 60

	// weeks repeats a set of the seven weekdays over 35 days.
	weeks = 1 | 1<<7 | 1<<14 | 1<<21 | 1<<28
)

// nextLocal returns the first matching local time at or after local. It returns false if there is
// none up to limit.
func (e *Expr) nextLocal(local, limit int64) (int64, bool) {
	days := floorDiv(local, secondsPerDay)
	clock := int(local - days*secondsPerDay)
	year, month, dom := civil(days)

	// First the rest of the first day. Every other day is searched from midnight.
	if e.days(year, month).has(dom) {
		if at, ok := e.nextClock(clock); ok {
			local = days*secondsPerDay + int64(at)
			return local, local <= limit
		}
	}

	// Every matching day begins with the same second, so that second is computed once.
	first, _ := e.nextClock(0)

	for dom++; ; year, month, dom = following(year, month) {
		midnight := daysUntil(year, month)
		if midnight*secondsPerDay > limit {
			return 0, false
		}
		if d, ok := e.days(year, month).next(dom); ok {
			local = (midnight+int64(d-1))*secondsPerDay + int64(first)
			return local, local <= limit
		}
	}
}

// prevLocal returns the last matching local time at or before local. It returns false if there is
// none down to limit.
func (e *Expr) prevLocal(local, limit int64) (int64, bool) {
	days := floorDiv(local, secondsPerDay)
	clock := int(local - days*secondsPerDay)
	year, month, dom := civil(days)

	// First the part of the first day up to the clock. Every other day is searched from its end.
	if e.days(year, month).has(dom) {
		if at, ok := e.prevClock(clock); ok {
			local = days*secondsPerDay + int64(at)
			return local, local >= limit
		}
	}
	last, _ := e.prevClock(secondsPerDay - 1)

	for dom--; ; year, month, dom = preceding(year, month) {
		midnight := daysUntil(year, month)
		if d, ok := e.days(year, month).prev(dom); ok {
			local = (midnight+int64(d-1))*secondsPerDay + int64(last)
			return local, local >= limit
		}
		if midnight*secondsPerDay < limit {
			return 0, false
		}
	}
}

// days returns the matching days of a month.
func (e *Expr) days(year int, month time.Month) bitset {
	if !e.month.has(int(month)) {
		return 0
	}

	// Bit 1 is the first day. The weekdays are shifted to the weekday of that day.
	first := floorMod(daysUntil(year, month)+4, 7) // 4, because 1970-01-01 was a Thursday
	weekdays := (uint64(e.dow)>>first | uint64(e.dow)<<(7-first)) & 0x7f * weeks << 1
	var set uint64
	switch {
	case e.anyDom:
		set = weekdays
	case e.anyDow:
		set = uint64(e.dom)
	default:
		set = weekdays | uint64(e.dom)
	}
	return bitset(set) & (1<<(daysIn(year, month)+1) - 2)
}

// nextClock returns the first matching second of a day from clock on.
func (e *Expr) nextClock(clock int) (int, bool) {
	h, m, s := clock/3600, clock/60%60, clock%60
	hour, ok := e.hour.next(h)
	if !ok {
		return 0, false
	}
	if hour > h {
		return hour*3600 + e.minute.first()*60 + e.second.first(), true
	}

	// The hour matches, but its matching minutes may be over. In that case the search continues
	// with the next hour.
	if minute, ok := e.minute.next(m); ok {
		if minute > m {
			return hour*3600 + minute*60 + e.second.first(), true
		}
		if second, ok := e.second.next(s); ok {
			return hour*3600 + minute*60 + second, true
		}
		if m < 59 {
			return e.nextClock(hour*3600 + (m+1)*60)
		}
	}
	if h < 23 {
		return e.nextClock((h + 1) * 3600)
	}
	return 0, false
}

// prevClock returns the last matching second of a day up to clock.
func (e *Expr) prevClock(clock int) (int, bool) {
	h, m, s := clock/3600, clock/60%60, clock%60
	hour, ok := e.hour.prev(h)
	if !ok {
		return 0, false
	}
	if hour < h {
		return hour*3600 + e.minute.last()*60 + e.second.last(), true
	}

	// The hour matches, but its first match may be after the clock. In that case the search
	// continues with the hour before.
	if minute, ok := e.minute.prev(m); ok {
		if minute < m {
			return hour*3600 + minute*60 + e.second.last(), true
		}
		if second, ok := e.second.prev(s); ok {
			return hour*3600 + minute*60 + second, true
		}
		if m > 0 {
			return e.prevClock(hour*3600 + m*60 - 1)
		}
	}
	if h > 0 {
		return e.prevClock(h*3600 - 1)
	}
	return 0, false
}

func (b bitset) first() int { return bits.TrailingZeros64(uint64(b)) }

func (b bitset) last() int { return bits.Len64(uint64(b)) - 1 }

// civil returns the date of a day that is so many days after 1970-01-01.
func civil(days int64) (year int, month time.Month, dom int) {
	return time.Unix(days*secondsPerDay, 0).UTC().Date()
}

// daysUntil returns the number of days from 1970-01-01 to the first day of a month.
func daysUntil(year int, month time.Month) int64 {
	return floorDiv(time.Date(year, month, 1, 0, 0, 0, 0, time.UTC).Unix(), secondsPerDay)
}

func daysIn(year int, month time.Month) int {
	switch month {
	case time.April, time.June, time.September, time.November:
		return 30
	case time.February:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	}
	return 31
}

// following returns the first day of the next month.
func following(year int, month time.Month) (int, time.Month, int) {
	if month == time.December {
		return year + 1, time.January, 1
	}
	return year, month + 1, 1
}

// preceding returns a day that is not earlier than the last day of the month before.
func preceding(year int, month time.Month) (int, time.Month, int) {
	if month == time.January {
		return year - 1, time.December, 31
	}
	return year, month - 1, 31
}

func floorMod(a, b int64) int64 { return a - floorDiv(a, b)*b }
