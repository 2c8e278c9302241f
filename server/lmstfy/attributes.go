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
	maxAttributeName  = 32  // bytes; what is longer is cut
	maxAttributeValue = 128 // bytes; what is longer is cut
)

// readAttributes takes the attributes of a job out of a request's headers, if
// they are switched on: versioned. Names that are equal once they are cut are
// one attribute, the first in alphabetical order.
func readAttributes(h http.Header) (attributes map[string]string, versioned bool, err error) {
	if !strings.EqualFold(h.Get("Enable-Job-Version"), "YES") {
		return nil, false, nil
	}
	for _, header := range slices.Sorted(maps.Keys(h)) {
		name, ok := strings.CutPrefix(header, attributePrefix)
		value := h.Get(header)
		if !ok || name == "" || value == "" {
			continue
		}
		name = strings.ToLower(cut(name, maxAttributeName))
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

// wellFormed is the text as JSON will show it: a byte that is no UTF-8, half
// of what was cut for instance, becomes the replacement character.
func wellFormed(text string) string { return string([]rune(text)) }
