package cron

import (
	"math"
	"strings"
	"time"
)

// MaxZone is the length of the name of a zone, in bytes.
const MaxZone = 64

const zoneForm = "write a name of the IANA database, such as Europe/Berlin or UTC"

// LoadZone returns the zone of that name, UTC for an empty name. An error is an [Error]
// for the field "zone". LoadZone reads files, so the caller keeps the result.
func LoadZone(name string) (*time.Location, error) {
	if name == "" {
		return time.UTC, nil
	}
	if len(name) > MaxZone {
		return nil, badZone("has %d bytes, must have 1 to %d; %s", len(name), MaxZone, zoneForm)
	}
	if name == "Local" || name == "localtime" {
		return nil, badZone("is %q, which differs from host to host; %s", name, zoneForm)
	}

	// LoadLocation opens a file, so only a string with the form of a zone name may be passed to it.
	if !zoneName(name) {
		return nil, badZone("is %.64q, which is not the name of a zone; %s", name, zoneForm)
	}

	loc, err := time.LoadLocation(name)
	if err != nil {
		return nil, badZone("is %q, which this host does not know; %s", name, zoneForm)
	}
	return loc, nil
}

// zoneName reports whether a string has the form of a zone name. The folders with zones have other
// files as well: those below posix and right, and some whose names begin in lower case.
func zoneName(name string) bool {
	if name[0] < 'A' || name[0] > 'Z' {
		return false
	}
	for part := range strings.SplitSeq(name, "/") {
		if strings.Trim(part, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_+-") != "" || part == "" {
			return false
		}
	}
	return true
}

const (
	// maxGap is the longest gap whose local times have a tick, in seconds. A longer gap
	// is a change of the date line.
	maxGap = 3 * 3600

	// maxChange is more than the greatest difference between two offsets, in seconds.
	maxChange = 2 * secondsPerDay

	always = math.MaxInt64 / 4
)

// segment is a period with one offset. It contains start, but not end. Two adjacent segments may
// have the same offset.
type segment struct {
	offset     int64
	start, end int64
}

// segmentAt returns the segment that contains a moment.
func segmentAt(unix int64, loc *time.Location) segment {
	t := time.Unix(unix, 0).In(loc)
	_, offset := t.Zone()
	s := segment{offset: int64(offset), start: -always, end: always}

	start, end := t.ZoneBounds()
	if !start.IsZero() {
		s.start = start.Unix()
	}
	if !end.IsZero() {
		s.end = end.Unix()
	}

	// Beyond its table, package time counts 365 days for each year. So on the last day of a leap
	// year, the end that it returns is before the moment. In that case the end is set to the end of
	// the year in UTC.
	if s.end <= unix {
		s.end = (floorDiv(unix, secondsPerDay) + 1) * secondsPerDay
	}
	return s
}

// reached returns the end of the local times that have begun up to a moment. While a repeated hour
// occurs for the second time, the result is later than the local time of the moment.
func reached(unix int64, loc *time.Location) int64 {
	s := segmentAt(unix, loc)
	most := unix + s.offset + 1

	// Only a change within maxChange can have reached a later local time.
	for s.start > unix-maxChange {
		start := s.start
		s = segmentAt(start-1, loc)
		most = max(most, start+s.offset)
	}
	return most
}

// first returns the moment of a local time: its first occurrence, or the end of the gap that
// contains it. If that gap is longer than maxGap, ok is false, and gap has the missing local times,
// from gap.start to before gap.end.
func first(local int64, loc *time.Location) (unix int64, gap segment, ok bool) {
	// No offset is as large as maxChange, so the search begins before the local time.
	s := segmentAt(local-maxChange, loc)
	for {
		unix = local - s.offset
		if unix < s.end {
			return unix, gap, true
		}
		// No moment of s has the local time. If the next segment begins after it, the local time is
		// in the gap between the two.
		next := segmentAt(s.end, loc)
		if local < s.end+next.offset {
			if next.offset-s.offset <= maxGap {
				return s.end, gap, true
			}
			return 0, segment{start: s.end + s.offset, end: s.end + next.offset}, false
		}
		s = next
	}
}
