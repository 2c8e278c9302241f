package failures

import "strings"

func isDigit(c byte) bool  { return '0' <= c && c <= '9' }
func isLetter(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }
func isAlnum(c byte) bool  { return isDigit(c) || isLetter(c) }
func isHex(c byte) bool    { return isDigit(c) || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F' }

// isWord reports whether a byte is a part of a word. The bytes of other alphabets are.
func isWord(c byte) bool { return isAlnum(c) || c == '_' || c >= 0x80 }

// isVersion reports whether a byte is a part of a version, such as 1.1.
func isVersion(c byte) bool { return isDigit(c) || c == '.' }

// isChunk reports whether a byte is a part of a chunk, which ends at spaces, quotes and brackets.
func isChunk(c byte) bool { return chunkBytes[c] }

var chunkBytes = func() (is [256]bool) {
	for c := range is {
		is[c] = c > ' ' && strings.IndexByte("\"'`<>()[]{},;=|", byte(c)) < 0
	}
	return is
}()

// count returns the number of bytes of a kind at the beginning of a text.
func count(text string, kind func(byte) bool) int {
	n := 0
	for n < len(text) && kind(text[n]) {
		n++
	}
	return n
}

// digits returns the number of digits of a text from an index on.
func digits(text string, from int) int {
	if from >= len(text) {
		return 0
	}
	return count(text[from:], isDigit)
}

// kindOf returns the placeholder of a run of letters and digits that is a number or an ID, "" for another run. object is
// set after an @, where Java writes the hash of an object.
func kindOf(w string, object bool) string {
	hex := count(w, isHex)

	switch {
	case len(w) > 2 && w[0] == '0' && (w[1] == 'x' || w[1] == 'X') && count(w[2:], isHex) == len(w)-2:
		return "<hex>"
	case isULID(w):
		return "<ulid>"
	case hex == len(w) && len(w) >= 8 && digits(w, 0) < len(w):
		return "<hex>"
	case object && hex == len(w) && len(w) >= 4:
		return "<hex>"
	case isNumber(w):
		return "<n>"
	case isID(w):
		return "<id>"
	}
	return ""
}

// isUUID reports whether a text begins with a UUID.
func isUUID(text string) bool {
	if len(text) < 36 || len(text) > 36 && isWord(text[36]) {
		return false
	}
	for i := range 36 {
		if dash := i == 8 || i == 13 || i == 18 || i == 23; dash != (text[i] == '-') || !dash && !isHex(text[i]) {
			return false
		}
	}
	return true
}

// isULID reports whether a word is a ULID: 26 letters and digits in one case, without I, L, O and U.
func isULID(w string) bool {
	if len(w) != 26 || w[0] > '7' {
		return false
	}
	lower, upper := false, false
	for i := range len(w) {
		c := w[i]
		lower, upper = lower || 'a' <= c && c <= 'z', upper || 'A' <= c && c <= 'Z'
		if !isAlnum(c) || strings.IndexByte("ILOUilou", c) >= 0 {
			return false
		}
	}
	return lower != upper
}

// isID reports whether a word is a random ID, in which letters and digits alternate. A name such as log4j, sha256 or
// customer4711 is not one.
func isID(w string) bool {
	changes, figures := 0, 0
	for i := range len(w) {
		if isDigit(w[i]) {
			figures++
		}
		if i > 0 && isDigit(w[i]) != isDigit(w[i-1]) {
			changes++
		}
	}
	return len(w) >= 8 && changes >= 3 && figures < len(w) ||
		len(w) >= 16 && changes >= 2 && figures >= 3
}

// units follow a number without a space. The longest come first.
var units = []string{
	"KiB", "MiB", "GiB", "ns", "us", "µs", "ms", "KB", "kB", "MB", "GB", "TB", "s", "m", "h", "d", "B", "k", "K", "M",
	"G",
}

// unitLength returns the length of a unit at the beginning of a text, 0 if there is none.
func unitLength(text string) int {
	for _, u := range units {
		if strings.HasPrefix(text, u) {
			return len(u)
		}
	}
	return 0
}

// plainLength returns the length of a number with separators, such as 1,234.5 or 1.2.3.
func plainLength(text string) int {
	n := digits(text, 0)
	for n > 0 && n < len(text) && (text[n] == '.' || text[n] == ',' || text[n] == '_') {
		more := digits(text, n+1)
		if more == 0 || text[n] != '.' && more != 3 {
			break
		}
		n += 1 + more
	}

	// An exponent.
	if n > 0 && n+1 < len(text) && (text[n] == 'e' || text[n] == 'E') {
		sign := 0
		if text[n+1] == '-' || text[n+1] == '+' {
			sign = 1
		}
		if more := digits(text, n+1+sign); more > 0 {
			n += 1 + sign + more
		}
	}
	return n
}

// durationLength returns the length of numbers with units, such as 1m30.5s, at the beginning of a text.
func durationLength(text string) int {
	at := 0
	for {
		n := plainLength(text[at:])
		if n == 0 {
			break
		}
		unit := unitLength(text[at+n:])
		if unit == 0 {
			break
		}
		at += n + unit
	}
	if at == 0 || at < len(text) && isWord(text[at]) {
		return 0
	}
	return at
}

// numberLength returns the length of a number at the beginning of a text, with its units.
func numberLength(text string) int {
	if n := durationLength(text); n > 0 {
		return n
	}
	n := plainLength(text)
	// A word continues, such as 2fa.
	if n < len(text) && isWord(text[n]) {
		return 0
	}
	return n
}

// isNumber reports whether a word is a number, possibly with units.
func isNumber(w string) bool { return isDigit(w[0]) && numberLength(w) == len(w) }

// isEmail reports whether a word is the address of a mailbox.
func isEmail(w string) bool {
	name, host, ok := strings.Cut(w, "@")
	return ok && name != "" && strings.Contains(host, ".") && count(host, isHost) == len(host) &&
		strings.IndexByte(name, '/') < 0
}

func isHost(c byte) bool { return isAlnum(c) || c == '.' || c == '-' || c == '_' }

// sources are the endings of source files: what follows a colon behind them is a line and not a port.
var sources = []string{
	".go", ".java", ".rb", ".py", ".js", ".ts", ".c", ".cc", ".cpp", ".h", ".rs", ".php", ".cs", ".kt", ".scala", ".ex",
	".lua", ".sql", ".yml", ".yaml", ".json", ".xml", ".html", ".erb",
}

// isAddress reports whether a word is an IP address, a host with a port, or the name of a host.
func isAddress(w string) bool {
	if slash := strings.LastIndexByte(w, '/'); slash > 0 && digits(w, slash+1) == len(w)-slash-1 {
		w = w[:slash] // the length of a network's prefix
	}
	if isIPv6(w) {
		return true
	}

	host, port, ok := strings.Cut(w, ":")
	if host == "" || count(host, isHost) != len(host) {
		return false
	}
	if isIPv4(host) {
		return !ok || digits(port, 0) == len(port)
	}
	if !ok {
		return isDomain(host)
	}

	// A name with a number of two to five digits is a host, unless it is a source file with a line.
	if len(port) < 2 || len(port) > 5 || digits(port, 0) != len(port) {
		return false
	}
	for _, end := range sources {
		if strings.HasSuffix(host, end) {
			return false
		}
	}
	return host == "localhost" || isLetter(host[0]) && strings.ContainsAny(host, ".-0123456789")
}

func isIPv4(text string) bool {
	for i := range 4 {
		n := digits(text, 0)
		if n == 0 || n > 3 {
			return false
		}
		text = text[n:]
		if i < 3 {
			if text == "" || text[0] != '.' {
				return false
			}
			text = text[1:]
		}
	}
	return text == ""
}

// isIPv6 reports whether a text has the form of an IPv6 address. A time of day such as 10:15:30 is not one.
func isIPv6(text string) bool {
	text, _, _ = strings.Cut(text, "%")
	colons, letters := 0, false
	for i := range len(text) {
		c := text[i]
		if !isHex(c) && c != ':' && c != '.' {
			return false
		}
		letters = letters || isLetter(c)
		if c == ':' {
			colons++
		}
	}
	return strings.Contains(text, "::") && len(text) > 2 || colons == 7 && len(text) >= 15
}

// domains are the last parts of host names that errors have.
var domains = map[string]bool{
	"com": true, "net": true, "org": true, "io": true, "dev": true, "local": true, "internal": true, "svc": true,
	"example": true, "test": true, "de": true, "eu": true, "uk": true, "fr": true, "cloud": true, "app": true, "lan": true,
	"localdomain": true, "co": true, "us": true, "invalid": true, "arpa": true, "info": true, "tech": true,
}

// isDomain reports whether a word is the name of a host. The name of a Java package has its parts in reverse.
func isDomain(w string) bool {
	first, _, ok := strings.Cut(w, ".")
	if !ok || first == "" || domains[first] || first == "java" || first == "javax" {
		return false
	}
	return domains[w[strings.LastIndexByte(w, '.')+1:]] && strings.ToLower(w) == w
}
