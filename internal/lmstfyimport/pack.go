package lmstfyimport

import (
	"encoding/binary"
	"encoding/json"
	"strings"
)

// entry is where a job stands in a list, or with its queue in the timer set.
type entry struct {
	namespace, queue string // of the timer set's alone
	tries            int
	id               string
}

// unpackEntry reads tries and ID, each behind two bytes of little endian: the
// number itself, and the length.
func unpackEntry(text string) (e entry, ok bool) {
	u := unpacker{text}
	e.tries = u.number()
	e.id = u.text()
	return e, u.rest == "" && e.id != ""
}

// unpackTimer reads a member of the timer set: namespace and queue before what
// unpackEntry reads.
func unpackTimer(text string) (e entry, ok bool) {
	u := unpacker{text}
	namespace, queue := u.text(), u.text()
	e, ok = unpackEntry(u.rest)
	e.namespace, e.queue = namespace, queue
	return e, ok && namespace != "" && queue != ""
}

// unpacker takes a text apart; what is too short leaves it empty, and gives "".
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

// The lengths of IDs: 26 characters with the body as it is, and those with a
// digit before them that says how it is packed.
const (
	plainID     = 26
	versionedID = plainID + 1
	firstPacked = "1" // JSON with attributes
)

// payload is what stands under a job's own key.
type payload struct {
	Body       []byte            `json:"body"`
	Attributes map[string]string `json:"attributes"`
}

// unpackPayload reads a job's body and attributes, in the form that its ID
// tells.
func unpackPayload(id, text string) (p payload, ok bool) {
	switch {
	case len(id) != versionedID:
		return payload{Body: []byte(text)}, true
	case !strings.HasPrefix(id, firstPacked):
		return p, false
	}
	return p, json.Unmarshal([]byte(text), &p) == nil
}
