package failures

import (
	"strconv"
	"strings"
)

const (
	// buckets is the number of buckets of a histogram, columns the number that is drawn of them.
	buckets, columns = 48, 24
	// narrowest is the width of a bucket before the first doubling, as a power of two in milliseconds.
	narrowest = 10
	// height is the height of a drawing.
	height = 20
)

// histogram counts times. The width of its buckets doubles as often as the times need.
type histogram struct {
	counts [buckets]uint32
	// first is the number of the first bucket, used the number of buckets up to the last one with a count.
	first int64
	used  int64
	shift uint // the width of a bucket is 1<<shift ms
}

// add counts a time n times.
func (h *histogram) add(ms int64, n uint32) {
	if h.used == 0 {
		h.shift = max(h.shift, narrowest)
		h.first, h.used = ms>>h.shift, 1
	}
	for max(h.first+h.used-1, ms>>h.shift)-min(h.first, ms>>h.shift) >= buckets {
		h.double()
	}

	at := ms>>h.shift - h.first
	if at < 0 {
		copy(h.counts[-at:], h.counts[:h.used])
		clear(h.counts[:-at])
		h.first, h.used, at = h.first+at, h.used-at, 0
	}
	h.counts[at] += n
	h.used = max(h.used, at+1)
}

// double makes each bucket twice as wide.
func (h *histogram) double() {
	old := *h
	h.counts, h.first, h.shift = [buckets]uint32{}, old.first>>1, old.shift+1
	for i := range old.used {
		h.counts[(old.first+i)>>1-h.first] += old.counts[i]
	}
	h.used = (old.first+old.used-1)>>1 - h.first + 1
}

// merge adds the counts of another histogram, each at the middle of its bucket.
func (h *histogram) merge(o *histogram) {
	for i := range o.used {
		if o.counts[i] > 0 {
			h.add((o.first+i)<<o.shift+1<<o.shift>>1, o.counts[i])
		}
	}
}

// path returns the counts between two times as the path of an SVG with the size 96 × 20: a bar for each column.
func (h *histogram) path(from, to int64) string {
	var bars [columns]uint64
	most := uint64(0)
	for i := range h.used {
		middle := (h.first+i)<<h.shift + 1<<h.shift>>1
		at := min(max((middle-from)*columns/(to-from+1), 0), columns-1)
		bars[at] += uint64(h.counts[i])
		most = max(most, bars[at])
	}

	var b strings.Builder
	for i, n := range bars {
		if n == 0 {
			continue
		}
		tall := strconv.FormatUint(max(1, n*height/most), 10)
		b.WriteString("M" + strconv.Itoa(4*i) + " " + strconv.Itoa(height) + "v-" + tall + "h3v" + tall + "z")
	}
	return b.String()
}
