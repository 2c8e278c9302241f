package cancelfeed

import (
	"strconv"
	"strings"

	"github.com/dulymq/duly"
)

// mostServers bounds the places in one cursor.
const mostServers = 8

// place is where a caller is in one feed.
type place struct {
	feed   string
	number uint64
}

// cursor holds a caller's places in the feeds of several servers, the latest first.
type cursor []place

// readCursor reads a cursor. It drops what is not a place, so that an answer never
// repeats any other text of a request.
func readCursor(text string) (c cursor) {
	for part := range strings.SplitSeq(text, ",") {
		feed, digits, _ := strings.Cut(part, ".")
		number, err := strconv.ParseUint(digits, 10, 64)
		if _, ok := duly.ParseNumber(feed); ok && err == nil && len(c) < mostServers {
			c = append(c, place{feed, number})
		}
	}
	return c
}

// in returns the caller's place in a feed.
func (c cursor) in(feed string) (number uint64, known bool) {
	for _, p := range c {
		if p.feed == feed {
			return p.number, true
		}
	}
	return 0, false
}

// with returns the text of the cursor after a step in one feed.
func (c cursor) with(step place) string {
	text := step.append(nil)
	places := 1
	for _, p := range c {
		if p.feed != step.feed && places < mostServers {
			text = p.append(append(text, ','))
			places++
		}
	}
	return string(text)
}

func (p place) append(text []byte) []byte {
	return strconv.AppendUint(append(append(text, p.feed...), '.'), p.number, 10)
}
