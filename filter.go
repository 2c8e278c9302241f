package duly

import (
	"net/url"
	"slices"
	"strings"
)

// Filter selects messages that meet all of its conditions, up to eight. It has the form
// of a query string: "type=order&region=eu" asks for two headers, "@key=a" for the
// message's key. The case of header names does not matter.
type Filter string

// NoFilter removes the filter of a group.
const NoFilter Filter = "none"

// MaxConditions is the number of conditions of a filter.
const MaxConditions = 8

// FilterKey names the key of a message in a condition. No header can have this name.
const FilterKey = "@key"

// Condition is one condition of a filter: the header Name, or the key for [FilterKey],
// has the Value.
type Condition struct{ Name, Value string }

// FilterOf returns the filter with these conditions.
func FilterOf(conditions ...Condition) Filter {
	parts := make([]string, len(conditions))
	for i, c := range conditions {
		name := c.Name
		if name != FilterKey {
			name = url.QueryEscape(strings.ToLower(name))
		}
		parts[i] = name + "=" + url.QueryEscape(c.Value)
	}
	if len(parts) == 0 {
		return NoFilter
	}
	return Filter(strings.Join(parts, "&"))
}

// Conditions parses the filter into its conditions, in the order of the text.
func (f Filter) Conditions() ([]Condition, error) {
	if f == "" || f == NoFilter {
		return nil, nil
	}
	parts := strings.Split(string(f), "&")
	if len(parts) > MaxConditions {
		return nil, Invalid("filter", "has %d conditions, may have at most %d", len(parts), MaxConditions)
	}

	all := make([]Condition, len(parts))
	for i, part := range parts {
		name, value, found := strings.Cut(part, "=")
		name, err := url.QueryUnescape(name)
		var err2 error
		value, err2 = url.QueryUnescape(value)
		if !found || err != nil || err2 != nil || name != FilterKey && !token(name) {
			return nil, Invalid("filter",
				"has %s, must be conditions like header=value or @key=value, joined by &", quoted(part, MaxID))
		}
		all[i] = Condition{strings.ToLower(name), value}
	}

	if i := slices.IndexFunc(all, func(c Condition) bool { return len(c.Value) > MaxHeaderBytes }); i >= 0 {
		return nil, Invalid("filter", "has a value of %d bytes, may have at most %d", len(all[i].Value), MaxHeaderBytes)
	}
	return all, nil
}

// Validate returns [ErrInvalid] for a filter that cannot be parsed.
func (f Filter) Validate() error {
	_, err := f.Conditions()
	return err
}

// Matches reports whether a message with this key and these headers, whose names are in
// lower case, meets all conditions.
func Matches(conditions []Condition, key string, headers map[string]string) bool {
	for _, c := range conditions {
		got, there := headers[c.Name]
		if c.Name == FilterKey {
			got, there = key, key != ""
		}
		if !there || got != c.Value {
			return false
		}
	}
	return true
}
