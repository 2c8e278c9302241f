package lmstfyimport

import (
	"encoding/binary"
	"encoding/json"
	"strings"
)

// entry is the entry of a job in a list, or with its queue in the timer set.
type entry struct {
	namespace, queue string // set only for an entry of the timer set
	tries            int
	id               string
}

// unpackEntry reads tries and ID. Two bytes, little endian, have the tries, and two more the length of
// the ID.
func unpackEntry(text string) (e entry, ok bool) {
	u := unpacker{text}
	e.tries = u.number()
	e.id = u.text()
	return e, u.rest == "" && e.id != ""
}

// unpackTimer reads a member of the timer set: namespace, queue, and an entry.
func unpackTimer(text string) (e entry, ok bool) {
	u := unpacker{text}
	namespace, queue := u.text(), u.text()
	e, ok = unpackEntry(u.rest)
	e.namespace, e.queue = namespace, queue
	return e, ok && namespace != "" && queue != ""
}

// unpacker reads values from a string. A string that is too short becomes empty, and its values are zero.
type unpacker struct{ rest string }

func (u *unpacker) number() int {
	if len(u.rest) < 2 {
		u.rest = ""
		return 0
	}
	n := binary.LittleEndian.Uint16([]byte(u.rest[:2]))
	u.rest = u.rest[2:]
	return int(n)
}

func (u *unpacker) text() (text string) {
	n := u.number()
	if len(u.rest) < n {
		u.rest = ""
		return ""
	}
	text, u.rest = u.rest[:n], u.rest[n:]
	return text
}

// The lengths of IDs: 26 characters, and one more with a digit for the form of the body.
const (
	plainID     = 26
	versionedID = plainID + 1
	firstPacked = "1" // means JSON with attributes
)

// payload is the value of a job's own key in the form with attributes.
type payload struct {
	Body       []byte            `json:"body"`
	Attributes map[string]string `json:"attributes"`
}

// unpackPayload reads a job's body and attributes, in the form that its ID names.
func unpackPayload(id, text string) (p payload, ok bool) {
	switch {
	case len(id) != versionedID:
		return payload{Body: []byte(text)}, true
	case !strings.HasPrefix(id, firstPacked):
		return p, false
	}
	return p, json.Unmarshal([]byte(text), &p) == nil
}
