package cron

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// MinEvery and MaxEvery are the shortest and the longest period of an @every expression.
const (
	MinEvery = time.Second
	MaxEvery = 366 * day
)

const day = 24 * time.Hour

func parseEvery(args []string) (*Expr, error) {
	const form = "write a duration of 1s to 366d in whole milliseconds, such as @every 90s or @every 1d12h"
	if len(args) != 1 {
		return nil, bad("has %d words after @every, must have 1; %s", len(args), form)
	}

	d, ok := parseDuration(args[0])
	switch {
	case !ok:
		return nil, bad("has %.40q after @every, which is not a duration; %s", args[0], form)
	case d < MinEvery || d > MaxEvery:
		return nil, bad("has %.40q after @every, must be 1s to 366d; %s", args[0], form)
	case d%time.Millisecond != 0:
		return nil, bad("has %.40q after @every, which is not in whole milliseconds; %s", args[0], form)
	}
	return &Expr{every: d}, nil
}

// parseDuration reads a duration without a sign as duly.ParseDuration does, which this
// package cannot import: Go's syntax with days in front.
func parseDuration(text string) (time.Duration, bool) {
	var whole time.Duration
	if days, rest, found := strings.Cut(text, "d"); found {
		n, err := strconv.ParseInt(days, 10, 32)
		if err != nil || n < 0 || n > 106_751 { // more days than that overflow a Duration
			return 0, false
		}
		if whole, text = time.Duration(n)*day, rest; text == "" {
			return whole, true
		}

		// ParseDuration would accept a second sign here, as in "1d-2h".
		if text[0] == '+' || text[0] == '-' {
			return 0, false
		}
	}

	d, err := time.ParseDuration(text)
	if err != nil || d > math.MaxInt64-whole {
		return 0, false
	}
	return whole + d, true
}

// nextEvery returns the first tick after a moment. Ticks are at anchor + k·every for every integer
// k.
func (e *Expr) nextEvery(after, anchor time.Time) time.Time {
	// A tick is a whole ms. It is after the moment if it is after the start of the moment's ms.
	ms, from, period := after.UnixMilli(), anchor.UnixMilli(), e.every.Milliseconds()
	return time.UnixMilli(from + (floorDiv(ms-from, period)+1)*period)
}

// prevEvery returns the last tick before a moment.
func (e *Expr) prevEvery(before, anchor time.Time) time.Time {
	ms, from, period := before.UnixMilli(), anchor.UnixMilli(), e.every.Milliseconds()

	// A tick at the moment itself does not count.
	if before.Nanosecond()%1e6 == 0 {
		ms--
	}
	return time.UnixMilli(from + floorDiv(ms-from, period)*period)
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		// Go's division rounds toward zero, which is wrong before the anchor.
		q--
	}
	return q
}
