package wire

import "bytes"

// Join combines several requests into one with all their items, in order. The requests must be
// pushes, settles or publishes written by this package: objects with one list.
func Join(requests [][]byte) []byte {
	size := 0
	for _, r := range requests {
		size += len(r)
	}
	joined := make([]byte, 0, size)

	for _, r := range requests {
		// The list is the only field, so the first bracket begins the list.
		from := bytes.IndexByte(r, '[') + 1

		// Requests of this package end with these two brackets.
		items := r[from : len(r)-len("]}")]
		switch {
		case len(joined) == 0:
			joined = append(joined, r[:from]...)
		// An empty list adds no comma, and no comma follows an open bracket.
		case len(items) > 0 && joined[len(joined)-1] != '[':
			joined = append(joined, ',')
		}
		joined = append(joined, items...)
	}

	return append(joined, "]}"...)
}
