package contract

import (
	"net/url"
	"slices"
	"strings"

	"github.com/dulymq/duly"
)

// FilterConditions parses the filter into its conditions, in the order of the text.
func FilterConditions(f duly.Filter) ([]duly.Condition, error) {
	if f == "" || f == duly.NoFilter {
		return nil, nil
	}
	// The text is split before it is unescaped, so that values may contain & and =.
	parts := strings.Split(string(f), "&")
	if len(parts) > duly.MaxConditions {
		return nil, Invalid("filter", "has %d conditions, may have at most %d", len(parts), duly.MaxConditions)
	}

	all := make([]duly.Condition, len(parts))
	for i, part := range parts {
		name, value, found := strings.Cut(part, "=")
		name, err := url.QueryUnescape(name)
		var err2 error
		value, err2 = url.QueryUnescape(value)
		if !found || err != nil || err2 != nil || name != duly.FilterKey && !token(name) {
			return nil, Invalid("filter",
				"has the condition %s, must have conditions like header=value or @key=value, joined by &", quoted(part, duly.MaxID))
		}
		// Stored headers have lower-case names.
		all[i] = duly.Condition{Name: strings.ToLower(name), Value: value}
	}

	// No header has a longer value, so no message could meet such a condition.
	if i := slices.IndexFunc(all, func(c duly.Condition) bool { return len(c.Value) > duly.MaxHeaderBytes }); i >= 0 {
		return nil, Invalid("filter", "has a value of %d bytes, may have at most %d", len(all[i].Value), duly.MaxHeaderBytes)
	}
	return all, nil
}

// ValidateFilter returns [duly.ErrInvalid] for a filter that cannot be parsed.
func ValidateFilter(f duly.Filter) error {
	_, err := FilterConditions(f)
	return err
}

// Matches reports whether a message with this key and these headers, whose names are in
// lower case, meets all conditions.
func Matches(conditions []duly.Condition, key string, headers map[string]string) bool {
	for _, c := range conditions {
		got, there := headers[c.Name]
		if c.Name == duly.FilterKey {
			// A message without a key meets no condition on the key.
			got, there = key, key != ""
		}
		if !there || got != c.Value {
			return false
		}
	}
	return true
}
