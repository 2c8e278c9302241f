// Package logcursor formats and parses the Next of a [contract.ReadPage] for the engines.
package logcursor

import (
	"strconv"
	"strings"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// Place is the position of a reader in one shard.
type Place struct {
	// Ordinal is the number of the first message that the reader has not seen.
	Ordinal uint64
	// Seen is the entry time, in ms, of the message before the place, or 0 if the reader has not
	// seen that message. If the shard has a different message there, the shard has lost writes.
	Seen int64
}

// Next returns the text for a list of places, one per shard.
func Next(places []Place) duly.From {
	text := []byte(contract.NextPrefix)
	for i, p := range places {
		if i > 0 {
			text = append(text, '.')
		}
		text = strconv.AppendUint(text, p.Ordinal, 10)
		if p.Seen > 0 {
			text = strconv.AppendInt(append(text, '-'), p.Seen, 36)
		}
	}
	return duly.From(text)
}

// Parse returns the places in a string without [contract.NextPrefix]. It returns [duly.ErrInvalid]
// unless the text has one place for each shard.
func Parse(text string, shards int) ([]Place, error) {
	parts := strings.Split(text, ".")
	places := make([]Place, len(parts))
	for i, part := range parts {
		ordinal, seen, has := strings.Cut(part, "-")
		var err error
		if places[i].Ordinal, err = strconv.ParseUint(ordinal, 10, 40); err == nil && has {
			var ms uint64
			ms, err = strconv.ParseUint(seen, 36, 48)
			places[i].Seen = int64(ms)
		}
		if err != nil || places[i].Ordinal == 0 || len(parts) != shards {
			return nil, contract.Invalid("from",
				"is not the Next of a page of this topic; begin with start, end, a time or a position")
		}
	}
	return places, nil
}
