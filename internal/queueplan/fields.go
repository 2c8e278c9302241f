package queueplan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/wire"
)

// Field is a setting with its value as text.
type Field struct {
	Name, Value string
}

// Fields returns the settings of a configuration in the order of the HTTP API. A nested field has a name such as
// defaults.tries. A setting that the queue cannot have is left out.
func Fields(c duly.QueueConfig) []Field {
	text := wire.ConfigForm.Append(nil, c)
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()

	var list []Field
	var path []string // the names of the objects around the current value
	name := ""
	for {
		token, err := dec.Token()
		if err != nil {
			return list // the end of the text
		}
		switch delim, isDelim := token.(json.Delim); {
		case isDelim && delim == '{':
			path = append(path, name)
			name = ""
		case isDelim:
			path, name = path[:len(path)-1], ""
		case name == "":
			name = fmt.Sprint(token)
		default:
			full := strings.Join(append(path[1:len(path):len(path)], name), ".")
			if full == "adapt.floor" {
				full = "adapt" // its only field
			}
			list, name = append(list, Field{full, fmt.Sprint(token)}), ""
		}
	}
}

// changes returns the fields that differ. An absent field is none.
func changes(before, after duly.QueueConfig) (list []Change) {
	old := map[string]string{}
	for _, f := range Fields(before) {
		old[f.Name] = f.Value
	}
	for _, f := range Fields(after) {
		if was, ok := old[f.Name]; was != f.Value {
			if !ok {
				was = "none"
			}
			list = append(list, Change{f.Name, was, f.Value})
		}
		delete(old, f.Name)
	}
	for _, f := range Fields(before) {
		if _, gone := old[f.Name]; gone {
			list = append(list, Change{f.Name, f.Value, "none"})
		}
	}
	return list
}
