package cancelfeed

import (
	"strconv"
	"strings"

	"github.com/dulymq/duly"
)

// maxServers is the largest number of positions in one cursor.
const maxServers = 8

// position is the number up to which a caller has read one feed.
type position struct {
	feed   string
	number uint64
}

// cursor holds a caller's positions in the feeds of several servers, the latest first.
type cursor []position

// readCursor parses a cursor. It drops every part that is not a position, so an answer
// never repeats other text of a request.
func readCursor(text string) (c cursor) {
	for part := range strings.SplitSeq(text, ",") {
		feed, digits, _ := strings.Cut(part, ".")
		number, err := strconv.ParseUint(digits, 10, 64)
		if _, ok := duly.ParseNumber(feed); ok && err == nil && len(c) < maxServers {
			c = append(c, position{feed, number})
		}
	}
	return c
}

// position returns the caller's position in a feed.
func (c cursor) position(feed string) (number uint64, ok bool) {
	for _, p := range c {
		if p.feed == feed {
			return p.number, true
		}
	}
	return 0, false
}

// with returns the text of the cursor with one position replaced or added.
func (c cursor) with(latest position) string {
	text := latest.append(nil)
	positions := 1
	for _, p := range c {
		// The newest position comes first, so at the maximum the oldest one is dropped.
		if p.feed != latest.feed && positions < maxServers {
			text = p.append(append(text, ','))
			positions++
		}
	}
	return string(text)
}

func (p position) append(text []byte) []byte {
	return strconv.AppendUint(append(append(text, p.feed...), '.'), p.number, 10)
}
