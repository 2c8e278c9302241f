package lmstfy

import (
	"maps"
	"net/http"
	"slices"
	"strings"
)

const (
	attributePrefix   = "Job-Attr-"
	maxAttributes     = 16
	maxAttributeName  = 32  // in bytes; longer names are cut
	maxAttributeValue = 128 // in bytes; longer values are cut
)

// readAttributes returns the attributes of a job in a request's headers. versioned reports whether
// the request enables them. If names are equal after the cut, the first one in alphabetical order
// counts.
func readAttributes(h http.Header) (attributes map[string]string, versioned bool, err error) {
	if !strings.EqualFold(h.Get("Enable-Job-Version"), "YES") {
		return nil, false, nil
	}

	// The order decides which of two equal names counts.
	for _, header := range slices.Sorted(maps.Keys(h)) {
		name, ok := strings.CutPrefix(header, attributePrefix)
		value := h.Get(header)
		if !ok || name == "" || value == "" {
			continue
		}
		name = strings.ToLower(cut(name, maxAttributeName))
		// After the cut, two names may be equal.
		if _, twice := attributes[name]; twice {
			continue
		}
		if attributes == nil {
			attributes = map[string]string{}
		}
		attributes[name] = wellFormed(cut(value, maxAttributeValue))
	}

	if len(attributes) > maxAttributes {
		return nil, true, badRequest("too many attributes, cannot exceed 16")
	}
	return attributes, true, nil
}

func cut(text string, most int) string { return text[:min(len(text), most)] }

// wellFormed returns a string as JSON shows it: invalid UTF-8, such as half of a cut character,
// becomes the replacement character.
func wellFormed(text string) string { return string([]rune(text)) }
