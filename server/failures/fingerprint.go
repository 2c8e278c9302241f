package failures

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// NoReason is the pattern of jobs without an error text, such as jobs that were buried without a reason.
const NoReason = "buried without a reason"

// Stalled is the pattern of jobs that died because their leases ran out.
const Stalled = "stalled: the lease ran out too often"

// Fingerprint returns the name of an error's group: the first 12 hexadecimal digits of the SHA-256 of its pattern.
func Fingerprint(lastError string) string { return hashOf(Pattern(lastError)) }

func hashOf(pattern string) string {
	sum := sha256.Sum256([]byte(pattern))
	return hex.EncodeToString(sum[:6])
}

// IsFingerprint reports whether a text has the form of a fingerprint.
func IsFingerprint(text string) bool {
	return len(text) == 12 && strings.Trim(text, "0123456789abcdef") == ""
}

// maxPattern is the length at which a pattern ends, in bytes. A longer line is a dump of data in most cases.
const maxPattern = 512

// Pattern returns the first line of an error, with placeholders for the parts that differ from job to job.
func Pattern(lastError string) string {
	line := firstLine(lastError)
	switch {
	case line == "":
		return NoReason
	case isStall(line):
		return Stalled
	}

	s := scanner{text: line, out: make([]byte, 0, min(len(line), maxPattern)+32)}
	for s.at < len(s.text) && len(s.out) < maxPattern {
		s.next()
	}
	return strings.ToValidUTF8(strings.TrimRight(string(s.out), " .:;,"), "\uFFFD")
}

// FirstLine returns the beginning of an error for a list: at most 200 bytes of its first line, with an
// ellipsis if there is more.
func FirstLine(text string) string {
	const most = 200
	line, _, more := strings.Cut(text, "\n")
	if len(line) > most {
		line, more = strings.ToValidUTF8(line[:most], ""), true
	}
	if more {
		line += " …"
	}
	return line
}

// firstLine returns the first line that is not empty, without spaces around it. It reads as much as engines store of
// an error.
func firstLine(text string) string {
	text = strings.TrimSpace(text[:min(len(text), duly.MaxErrorText)])
	if end := strings.IndexAny(text, "\r\n"); end >= 0 {
		text = strings.TrimSpace(text[:end])
	}
	return text
}

// isStall reports whether a line is the error of a job that died of its stalls.
func isStall(line string) bool {
	before, after, _ := strings.Cut(contract.StallReason(0), "0")
	n, ok := strings.CutPrefix(line, before)
	if ok {
		n, ok = strings.CutSuffix(n, after)
	}
	return ok && n != "" && count(n, isDigit) == len(n)
}

// scanner reads a line once and writes its pattern.
type scanner struct {
	text string
	at   int
	out  []byte
	// open is set after a single quote that does not end. No later one ends either.
	open bool
}

// next reads one token: space, a quoted text, a date or time, a chunk without spaces, or one byte.
func (s *scanner) next() {
	c := s.text[s.at]
	switch {
	case c == ' ' || c == '\t':
		if n := len(s.out); n > 0 && s.out[n-1] != ' ' {
			s.out = append(s.out, ' ')
		}
		s.at++
	case s.quoted():
	case s.wordStart() && s.moment():
	case c == '[' && s.bracketed():
	case isChunk(c):
		s.chunk()
	default:
		s.out = append(s.out, c)
		s.at++
	}
}

// wordStart reports whether the next byte begins a word.
func (s *scanner) wordStart() bool { return s.at == 0 || !isWord(s.text[s.at-1]) }

// put writes a placeholder and skips n bytes.
func (s *scanner) put(placeholder string, n int) {
	s.out = append(s.out, placeholder...)
	s.at += n
}

// quoted replaces a quoted text. A quote that does not end takes the rest of the line, because engines cut long errors.
// A single quote may be an apostrophe.
func (s *scanner) quoted() bool {
	rest := s.text[s.at:]
	switch c := rest[0]; c {
	case '"':
		n := closing(rest, `"`)
		if n == 0 {
			n = len(rest)
		}
		s.put("<text>", n)
		return true
	case '`', '\'':
		if s.open || c == '\'' && !s.wordStart() {
			return false
		}
		// Ruby wrote `name' for a long time.
		n := closing(rest, "'`")
		if s.open = n == 0; s.open {
			return false
		}
		s.put("<text>", n)
		return true
	}

	for _, pair := range [...][2]string{{"“", "”"}, {"‘", "’"}, {"«", "»"}} {
		if strings.HasPrefix(rest, pair[0]) {
			if n := strings.Index(rest, pair[1]); n > 0 {
				s.put("<text>", n+len(pair[1]))
				return true
			}
		}
	}
	return false
}

// closing returns the length of a quoted text, 0 if it does not end. A single quote before a letter is an apostrophe.
func closing(text, quotes string) int {
	for i := 1; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\':
			i++
		case strings.IndexByte(quotes, c) >= 0 && (c != '\'' || i+1 == len(text) || !isWord(text[i+1])):
			return i + 1
		}
	}
	return 0
}

// bracketed replaces an IPv6 address in brackets, with its port.
func (s *scanner) bracketed() bool {
	rest := s.text[s.at:]
	end := strings.IndexByte(rest, ']')
	if end < 0 || !isIPv6(rest[1:end]) {
		return false
	}
	n := end + 1
	if port := digits(rest, n+1); n < len(rest) && rest[n] == ':' && port > 0 {
		n += 1 + port
	}
	s.put("<addr>", n)
	return true
}

// chunk reads a text without spaces, quotes and brackets, and writes it by its kind.
func (s *scanner) chunk() {
	rest := s.text[s.at:]
	if n := urlLength(rest); n > 0 {
		s.at += n
		s.url(rest[:n])
		return
	}

	n := chunkLength(rest)

	// Punctuation at the end belongs to the sentence.
	word := strings.TrimRight(rest[:n], ".:!?-+*")
	if word == "" {
		word = rest[:1]
	}
	s.at += len(word)

	switch {
	case isEmail(word), isAddress(word):
		s.out = append(s.out, "<addr>"...)
	case s.path(word):
	default:
		s.words(word)
	}
}

// chunkLength returns the length of the chunk at the beginning of a text. A number may have a comma in it, and the query
// of a path an equals sign.
func chunkLength(text string) int {
	n, query := 0, false
	for ; n < len(text) && n < maxPattern; n++ {
		switch c := text[n]; {
		case c == '?':
			query = true
		case isChunk(c), c == '=' && query, c == ',' && n > 0 && isDigit(text[n-1]) && digits(text, n+1) == 3:
		default:
			return n
		}
	}
	return n
}

// urlLength returns the length of the URL at the beginning of a text, 0 if there is none.
func urlLength(text string) int {
	scheme := 0
	for scheme < len(text) && (isLetter(text[scheme]) || text[scheme] == '+') {
		scheme++
	}
	if scheme == 0 || !strings.HasPrefix(text[scheme:], "://") {
		return 0
	}
	end := scheme + 3
	for end < len(text) && text[end] > ' ' && strings.IndexByte("\"'`<>()|", text[end]) < 0 {
		end++
	}
	return len(strings.TrimRight(text[:end], ".,:;!?"))
}

// url writes the scheme of a URL and the beginning of its path.
func (s *scanner) url(text string) {
	scheme, rest, _ := strings.Cut(text, "://")
	s.out = append(append(s.out, scheme...), "://<addr>"...)
	if end := strings.IndexAny(rest, "?#"); end >= 0 {
		rest = rest[:end]
	}
	if slash := strings.IndexByte(rest, '/'); slash >= 0 {
		s.tail(rest[slash:])
	}
}

// path writes the beginning of a path. It reports whether the word is one.
func (s *scanner) path(word string) bool {
	word, _, query := strings.Cut(word, "?")
	slashes := strings.Count(word, "/")

	switch {
	case len(word) > 2 && word[1] == ':' && word[2] == '\\' && isLetter(word[0]):
		s.out = append(s.out, "<path>"...)
		return true
	case slashes == 0 && !query:
		return false
	case strings.HasPrefix(word, "/"):
		s.tail(word)
		return true
	case slashes > 1 || slashes == 1 && (query || strings.ContainsAny(word[strings.IndexByte(word, '/'):], ".0123456789")):
		head, rest, _ := strings.Cut(word, "/")

		// A protocol with its version, such as HTTP/1.1, is not a path.
		if slashes == 1 && count(rest, isVersion) == len(rest) {
			return false
		}
		s.words(head)
		s.out = append(s.out, "/<path>"...)
		return true
	}
	return false
}

// tail writes an absolute path: its first part, and a placeholder for the others. The position in a source file at the
// end of a path is part of it.
func (s *scanner) tail(path string) {
	head, rest, more := strings.Cut(path[1:], "/")
	s.out = append(s.out, '/')
	s.words(head)
	if more && rest != "" {
		s.out = append(s.out, "/<path>"...)
	}
}

// words writes a text in which letters, digits and signs follow each other.
func (s *scanner) words(text string) {
	for at := 0; at < len(text); {
		rest := text[at:]
		first := at == 0 || !isWord(text[at-1])

		switch {
		case first && isUUID(rest):
			s.out, at = append(s.out, "<uuid>"...), at+36
			continue
		case (rest[0] == '-' || rest[0] == '+') && at == 0 && digits(rest, 1) > 0:
			at++ // the sign of a number
			continue
		case !isAlnum(rest[0]):
			s.out, at = append(s.out, rest[0]), at+1
			continue
		}

		n := 0
		for n < len(rest) && isAlnum(rest[n]) {
			n++
		}
		// A number may have dots and commas in it.
		if isDigit(rest[0]) {
			n = max(n, numberLength(rest))
		}
		s.word(rest[:n], at > 0 && text[at-1] == '@')
		at += n
	}
}

// word writes a run of letters and digits.
func (s *scanner) word(w string, object bool) {
	switch kind := kindOf(w, object); {
	case kind == "<n>" && s.isStatus(w):
		s.out = append(s.out, w...)
	case kind != "":
		s.out = append(s.out, kind...)
	default:
		for i := 0; i < len(w); {
			if n := digits(w, i); n > 0 {
				s.out, i = append(s.out, "<n>"...), i+n
				continue
			}
			s.out, i = append(s.out, w[i]), i+1
		}
	}
}

// isStatus reports whether a number is the status of an HTTP response, by the word before it. Failures with the
// statuses 404 and 503 have different causes, although only a number differs.
func (s *scanner) isStatus(number string) bool {
	if len(number) != 3 || digits(number, 0) != 3 || number[0] < '1' || number[0] > '5' {
		return false
	}
	before := strings.TrimRight(string(s.out[max(0, len(s.out)-16):]), " :=(<")
	before = strings.TrimSuffix(strings.ToLower(before), " code")
	before = strings.TrimSuffix(strings.TrimSuffix(before, "n>"), "<")
	for _, word := range [...]string{"status", "http", "http/", "statuscode", "status_code", "response"} {
		if strings.HasSuffix(before, word) {
			return true
		}
	}
	return false
}
