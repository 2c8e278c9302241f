package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/open"
)

// readPools takes a table of names and URLs, or text with NAME=URL, apart by
// blanks.
func readPools(_ *Setting, raw any) (any, string) {
	pools := map[string]string{}
	table, ok := raw.(map[string]any)
	if text, isText := raw.(string); isText {
		table, ok = map[string]any{}, true
		for _, one := range strings.Fields(text) {
			name, url, _ := strings.Cut(one, "=")
			if _, twice := table[name]; twice {
				return pools, fmt.Sprintf("has two pools %s", shown(name))
			}
			table[name] = url
		}
	}
	if !ok {
		return pools, fmt.Sprintf("is %s, must be a table of NAME = \"URL\"", shown(raw))
	}
	return pools, addPools(pools, "", table)
}

// addPools takes a table's pools. A name with a dot in it is a table in a table
// to TOML.
func addPools(to map[string]string, before string, table map[string]any) (problem string) {
	for _, name := range slices.Sorted(maps.Keys(table)) {
		full := before + name
		if inside, isTable := table[name].(map[string]any); isTable {
			if problem := addPools(to, full+dot, inside); problem != "" {
				return problem
			}
			continue
		}
		url, _ := table[name].(string)
		switch {
		case url == "":
			return fmt.Sprintf("has %s without a URL; write NAME=URL, in a file NAME = \"URL\"", shown(full))
		case duly.ValidatePool(full) != nil:
			return fmt.Sprintf("has a pool %s; a name has letters, digits and . _ -", shown(full))
		case full == duly.DefaultPool:
			return "has a pool default, which is what engine names; leave it out here"
		}
		to[full] = url
	}
	return ""
}

func showPools(v any) string {
	pools := v.(map[string]string)
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(pools)) {
		texts = append(texts, name+"="+open.Redact(pools[name]))
	}
	return strings.Join(texts, " ")
}
