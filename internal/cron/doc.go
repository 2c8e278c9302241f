// Package cron reads the expressions of schedules and computes their ticks: the moments
// at which a schedule makes a job.
//
//	e, err := cron.Parse("30 2 * * MON-FRI")
//	zone, err := cron.LoadZone("Europe/Berlin")
//	tick, ok := e.Next(now, zone) // ok is false if there is none within 10 years
//
// [Timing] adds the bounds of a schedule: start and end, both included.
//
// # Expressions
//
//	second 0-59, optional
//	|  minute 0-59
//	|  |  hour 0-23
//	|  |  |  day of month 1-31
//	|  |  |  |  month 1-12 or JAN-DEC
//	|  |  |  |  |  day of week 0-7 or SUN-SAT; 0 and 7 are Sunday
//	0  0  3  *  *  *
//
// A field is "*", a value, a range or a list of these. A step may follow "*", a value or a
// range:
//
//	*/15 * * * *           minutes 0, 15, 30 and 45
//	10/20 * * * *          minutes 10, 30 and 50: from 10 to the highest value
//	0 9-17/4 * * 1,3,FRI   09:00, 13:00 and 17:00 on three days
//	0 0 13 * FRI           midnight of each 13th, and of each Friday
//	@daily                 midnight; also @yearly, @annually, @monthly, @weekly, @hourly, @midnight
//	@every 90s             every 90 s since the start, or since 1970
//
// If both day fields are restricted, a day matches when either field matches. Only "*" and
// "?" are unrestricted: "*/1" and "0-7" are not, though they match every day. The highest
// day of week is 7, so "1/3" is Monday, Thursday and Sunday.
//
// A range never wraps around, and the forms "L", "W", "#" and "H", years and "TZ=" do not
// exist, because other programs disagree on them. An [Error] names the field, its bounds
// and a form to write instead.
//
// # Daylight saving time
//
// Ticks are whole seconds of local time. Where the clock jumps, the hour field decides. A
// field with "*" or "/" makes a wildcard expression: it follows the elapsed time. Every
// other field makes a fixed-time expression: one tick for each matching date and time.
//
// The clock jumps forward in New York on 2026-03-08. 02:00 to 03:00 do not exist:
//
//	local      00:00   01:00   03:00   04:00
//	           --+-------+-------+-------+--
//	30 2 * * *                   x                at the end of the gap
//	0 * * * *    x       x       x       x        once per elapsed hour
//
// The clock jumps back on 2026-11-01. 01:00 to 02:00 occur twice:
//
//	local      00:00   01:00   01:00   02:00
//	           --+-------+-------+-------+--
//	30 1 * * *               x                    at the first occurrence
//	0 * * * *    x       x       x       x        once per elapsed hour
//
// Several local times of one gap make one tick: "0,30 2 * * *" has one tick on
// 2026-03-08. A gap of more than three hours is a change of the date line. Samoa had no
// 2011-12-30, so "0 9 * * *" has no tick for it. An @every expression ignores all zones.
//
// # Search
//
// Next and Prev walk over months, not over days or minutes: a leap day eight years ahead
// costs a few µs. They give up after ten years, so that a date that never comes, such as
// "0 0 30 2 *", costs a few µs too. No tick lies outside the years 1 to 9999.
//
// Package time does not define which offset time.Date takes in a gap or an overlap. This
// package therefore computes moments from the offsets on both sides of a change. After the
// last entry of a zone, time.ZoneBounds assumes years of 365 days. Its bounds are then no real
// changes. On 31 December of a leap year, it even returns an end before the given moment.
//
// # Zones
//
// This package does not import time/tzdata, which adds 450 KB to a program. Packages that
// compute ticks for schedules import it, so that their zones do not depend on the host.
// The zones of a host come first, so two processes can have different data.
package cron
