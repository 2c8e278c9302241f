package wire

import "bytes"

// Join is one request for the items of several that hold nothing but a list
// under the same name, in order: pushes, or settles, as AppendPush and
// AppendSettle write them.
func Join(requests [][]byte) []byte {
	size := 0
	for _, r := range requests {
		size += len(r)
	}
	joined := make([]byte, 0, size)
	for _, r := range requests {
		from := bytes.IndexByte(r, '[') + 1
		items := r[from : len(r)-len("]}")]
		switch {
		case len(joined) == 0:
			joined = append(joined, r[:from]...)
		case len(items) > 0 && joined[len(joined)-1] != '[':
			joined = append(joined, ',')
		}
		joined = append(joined, items...)
	}
	return append(joined, "]}"...)
}
