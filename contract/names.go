package contract

import (
	"strings"
	"unicode/utf8"

	"github.com/dulymq/duly"
)

// ValidateQueue returns [duly.ErrInvalid] for a name that no queue and no group can have.
func ValidateQueue(q duly.QueueRef) error {
	var f BadFields
	checkQueueRef(q, &f)
	return f.Err()
}

func checkQueueRef(q duly.QueueRef, f *BadFields) {
	checkNamespace(f, q.Namespace)
	checkQueue(f, "queue", q.Name)
}

// NamespaceOr returns the namespace, or [duly.DefaultNamespace] if it is empty.
func NamespaceOr(namespace string) string {
	if namespace == "" {
		return duly.DefaultNamespace
	}
	return namespace
}

// ValidateNamespace returns [duly.ErrInvalid] unless the name is valid for a namespace: 1–255 of
// A–Z a–z 0–9 . _ - with a letter, a digit, "-" or "_" at the beginning. The empty name means the
// default namespace.
func ValidateNamespace(name string) error {
	var f BadFields
	checkNamespace(&f, name)
	return f.Err()
}

// ValidateID returns [duly.ErrInvalid] unless the text is valid for a job's ID: 1–128 of
// A–Z a–z 0–9 . _ - : with a letter, a digit or "_" at the beginning.
func ValidateID(id string) error {
	var f BadFields
	checkID(&f, "id", id)
	return f.Err()
}

func checkID(f *BadFields, field, id string) {
	if len(id) == 0 || len(id) > duly.MaxID {
		f.Add(field, "has %d bytes, must have 1 to %d", len(id), duly.MaxID)
		return
	}
	checkChars(f, field, id, "_", "._-:")
}

// checkNamespace checks the name of a namespace. The empty name means the default namespace.
func checkNamespace(f *BadFields, name string) { checkName(f, "namespace", NamespaceOr(name), "-_") }

// checkQueue checks the name of a queue, or of a group: TOPIC@GROUP.
func checkQueue(f *BadFields, field, name string) {
	if strings.IndexByte(name, '@') >= 0 {
		checkGroup(f, field, name)
		return
	}
	checkName(f, field, name, "-")
}

// validQueue reports whether checkQueue finds no fault. It allocates nothing.
func validQueue(name string) bool {
	if topic, group, ok := strings.Cut(name, "@"); ok {
		return validName(topic) && validName(group)
	}
	return validName(name)
}

func validName(name string) bool {
	// These are the rules of checkName without errors, because errors would allocate memory.
	if len(name) == 0 || len(name) > duly.MaxName || !alphanumeric(name[0]) && name[0] != '-' {
		return false
	}
	for i := 1; i < len(name); i++ {
		if c := name[i]; !alphanumeric(c) && c != '.' && c != '_' && c != '-' {
			return false
		}
	}
	return true
}

// checkName checks a name that may begin with a letter, a digit, or a character of first.
func checkName(f *BadFields, field, name, first string) {
	if len(name) == 0 || len(name) > duly.MaxName {
		f.Add(field, "has %d bytes, must have 1 to %d", len(name), duly.MaxName)
		return
	}
	checkChars(f, field, name, first, "._-")
}

// checkChars checks the characters of a name. A name may begin with a letter, a digit or a
// character of first. Characters of rest may follow.
func checkChars(f *BadFields, field, name, first, rest string) {
	if !alphanumeric(name[0]) && strings.IndexByte(first, name[0]) < 0 {
		f.Add(field, "is %s, must begin with a letter, a digit%s", Quoted(name), orAny(first))
		return
	}
	// Every allowed character is ASCII, so bytes suffice.
	for i := 1; i < len(name); i++ {
		if !alphanumeric(name[i]) && strings.IndexByte(rest, name[i]) < 0 {
			f.Add(field, "is %s, may contain only A-Z a-z 0-9 and %s", Quoted(name), rest)
			return
		}
	}
}

// orAny lists the characters for an error.
func orAny(chars string) string {
	var b strings.Builder
	for _, c := range chars {
		b.WriteString(" or " + string(c))
	}
	return b.String()
}

func alphanumeric(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// checkKey checks an order key or a merge key: 1–128 bytes of UTF-8 without control characters.
func checkKey(f *BadFields, field, key string) {
	switch {
	case len(key) > duly.MaxKey:
		f.Add(field, "has %d bytes, must have 1 to %d", len(key), duly.MaxKey)
	case !utf8.ValidString(key):
		f.Add(field, "is not valid UTF-8")
	case strings.ContainsFunc(key, control):
		f.Add(field, "contains a control character")
	}
}

// control reports whether a rune is of Unicode's category Cc.
func control(r rune) bool { return r < 0x20 || r >= 0x7f && r < 0xa0 }

// checkHeaders checks the headers of a job or a message.
func checkHeaders(f *BadFields, headers map[string]string) {
	// The sizes are checked first, because they limit the work of the other checks.
	if len(headers) > duly.MaxHeaders {
		f.size("headers", "are %d, may be at most %d", len(headers), duly.MaxHeaders)
		return
	}
	if size := headerBytes(headers); size > duly.MaxHeaderBytes {
		f.size("headers", "have %d bytes together, may have at most %d", size, duly.MaxHeaderBytes)
		return
	}

	for name, value := range headers {
		if !token(name) {
			f.Add("headers", "name %s is not an RFC 9110 token", Quoted(name))
		}
		if !utf8.ValidString(value) || strings.ContainsAny(value, "\r\n\x00") {
			f.Add("headers", "value of %s must be UTF-8 without CR, LF and NUL", Quoted(name))
		}
	}
	// Names are stored in lower case, so if two names differ only by case, one header would be
	// lost.
	if len(lowerHeaders(headers)) != len(headers) {
		f.Add("headers", "have two names that differ only in case")
	}
}

func headerBytes(headers map[string]string) (n int) {
	for name, value := range headers {
		n += len(name) + len(value)
	}
	return n
}

// lowerHeaders returns the headers with lower-case names. If all names are in lower case, it
// returns the map itself.
func lowerHeaders(headers map[string]string) map[string]string {
	for name := range headers {
		if strings.ToLower(name) != name {
			// The map belongs to the caller, so it is copied.
			lower := make(map[string]string, len(headers))
			for name, value := range headers {
				lower[strings.ToLower(name)] = value
			}
			return lower
		}
	}
	return headers
}

// token reports whether the text is a token of RFC 9110, section 5.6.2.
func token(text string) bool {
	for i := 0; i < len(text); i++ {
		if !alphanumeric(text[i]) && strings.IndexByte("!#$%&'*+-.^_`|~", text[i]) < 0 {
			return false
		}
	}
	return text != ""
}

// ValidateTopic returns [duly.ErrInvalid] for a name that no topic can have.
func ValidateTopic(q duly.QueueRef) error {
	var f BadFields
	checkNamespace(&f, q.Namespace)
	checkName(&f, "topic", q.Name, "-")
	return f.Err()
}

// ValidateGroup returns [duly.ErrInvalid] for a name that no group can have.
func ValidateGroup(q duly.QueueRef) error {
	var f BadFields
	checkNamespace(&f, q.Namespace)
	checkGroup(&f, "group", q.Name)
	return f.Err()
}

func checkGroup(f *BadFields, field, name string) {
	topic, group, _ := strings.Cut(name, "@")
	if topic == "" || group == "" || strings.IndexByte(group, '@') >= 0 {
		f.Add(field, "is %s, must be TOPIC@GROUP, with one @ and a name on each side", Quoted(name))
		return
	}
	checkName(f, field, topic, "-")
	checkName(f, field, group, "-")
}
