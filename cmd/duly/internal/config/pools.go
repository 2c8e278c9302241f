package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/open"
)

// parsePools accepts a table of names and URLs, or a string with NAME=URL items that are
// separated by spaces.
func parsePools(_ *Setting, raw any) (any, string) {
	pools := map[string]string{}
	table, ok := raw.(map[string]any)
	if text, isText := raw.(string); isText {
		table, ok = map[string]any{}, true
		for _, item := range strings.Fields(text) {
			name, url, _ := strings.Cut(item, "=")

			// A second URL would silently replace the first one.
			if _, duplicate := table[name]; duplicate {
				return pools, fmt.Sprintf("has two pools %s", quote(name))
			}
			table[name] = url
		}
	}
	if !ok {
		return pools, fmt.Sprintf("is %s, must be a table of NAME = \"URL\"", quote(raw))
	}
	return pools, addPools(pools, "", table)
}

// addPools adds the pools of a table, whose names begin with prefix. TOML reads a name with a dot
// as a nested table.
func addPools(to map[string]string, prefix string, table map[string]any) (problem string) {
	// The keys are sorted, so that the same file always has the same first error.
	for _, key := range slices.Sorted(maps.Keys(table)) {
		name := prefix + key
		if inner, isTable := table[key].(map[string]any); isTable {
			if problem := addPools(to, name+dot, inner); problem != "" {
				return problem
			}
			continue
		}

		url, _ := table[key].(string)
		switch {
		case url == "":
			return fmt.Sprintf("has %s without a URL; write NAME=URL, in a file NAME = \"URL\"", quote(name))
		case contract.ValidatePool(name) != nil:
			return fmt.Sprintf("has a pool %s; a name has letters, digits and . _ -", quote(name))
		case name == contract.DefaultPool:
			return "has a pool default, which is the setting engine; leave it out here"
		}
		to[name] = url
	}
	return ""
}

func formatPools(v any) string {
	pools := v.(map[string]string)
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(pools)) {
		// The URL of a pool holds a password.
		texts = append(texts, name+"="+open.Redact(pools[name]))
	}
	return strings.Join(texts, " ")
}
