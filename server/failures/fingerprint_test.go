package failures

import (
	"bufio"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/dulymq/duly/contract"
)

// example is a text of the corpus with the group that a person has given it.
type example struct{ label, text string }

func corpus(t testing.TB) (list []example) {
	t.Helper()
	file, err := os.Open("testdata/errors.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		label, text, ok := strings.Cut(lines.Text(), "\t")
		if !ok {
			t.Fatalf("the line %q has no label", lines.Text())
		}
		list = append(list, example{label, strings.ReplaceAll(text, `\n`, "\n")})
	}
	return list
}

// most returns the key with the largest count.
func most(counts map[string]int) (key string) {
	for k, n := range counts {
		if key == "" || n > counts[key] || n == counts[key] && k < key {
			key = k
		}
	}
	return key
}

// P8.4: of at least 200 error texts, 95 % are in the group of their label, and that group has no other label.
func TestCorpusGroupsAsLabelled(t *testing.T) {
	t.Parallel()
	texts := corpus(t)
	byLabel, byGroup := map[string]map[string]int{}, map[string]map[string]int{}
	for _, e := range texts {
		print := Fingerprint(e.text)
		if byLabel[e.label] == nil {
			byLabel[e.label] = map[string]int{}
		}
		if byGroup[print] == nil {
			byGroup[print] = map[string]int{}
		}
		byLabel[e.label][print]++
		byGroup[print][e.label]++
	}

	right := 0
	for _, e := range texts {
		print := Fingerprint(e.text)
		if most(byLabel[e.label]) == print && most(byGroup[print]) == e.label {
			right++
			continue
		}
		t.Logf("%s has the pattern %q", e.label, Pattern(e.text))
	}
	t.Logf("%d of %d texts are grouped as labelled", right, len(texts))
	if len(texts) < 200 || right*100 < len(texts)*95 {
		t.Errorf("%d of %d texts are grouped as labelled, want 95 %% of at least 200", right, len(texts))
	}
}

func TestPatterns(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ text, want string }{
		{"", NoReason},
		{" \n ", NoReason},
		{"\n\nsecond line\nthird", "second line"},
		{contract.StallReason(3), Stalled},
		{contract.StallReason(17), Stalled},
		{"the lease ran out many times", "the lease ran out many times"},
		{"job 4711 of 10: gone.", "job <n> of <n>: gone"},
		{"id 0b8f5a1e-3c1d-4e0a-9f5b-1d2e3f4a5b6c", "id <uuid>"},
		{"id 01ARZ3NDEKTSV4RRFFQ69G5FAV", "id <ulid>"},
		{"commit 9fceb02d and 0x1f", "commit <hex> and <hex>"},
		{"can't open 'a b' or \"c \\\" d\" or `e`", "can't open <text> or <text> or <text>"},
		{`cut "in the middle`, "cut <text>"},
		{"open /var/lib/app/x.png: gone", "open /var/<path>: gone"},
		{"open /tmp", "open /tmp"},
		{`open C:\Users\ada\x.txt now`, "open <path> now"},
		{"get https://ada:x@api.example.com:8443/v1/users/7?x=1#y, then", "get https://<addr>/v<n>/<path>, then"},
		{"GET /search?q=duly failed", "GET /search failed"},
		{"mail to ada.b+c@example.com bounced", "mail to <addr> bounced"},
		{"from 10.0.0.1:80 to [::1]:443 by fe80::1%eth0 or db.example.com", "from <addr> to <addr> by <addr> or <addr>"},
		{"main.go:42: x at Foo.java:7", "main.go:<n>: x at Foo.java:<n>"},
		{"at 2026-11-22T10:15:30.123Z and 2026/11/22 10:15 and 10:15:30", "at <time> and <time> and <time>"},
		{"at Sun, 22 Nov 2026 10:15:30 GMT or Sun Nov 22 10:15:30 2026", "at <time> or <time>"},
		{"May the job run", "May the job run"},
		{"Monday is no day", "Monday is no day"},
		{"took 1m30.5s for 12.5MB at 3e5/s, -7 %", "took <n> for <n> at <n>/s, <n> %"},
		{"text/html and and/or and HTTP/1.1", "text/html and and/or and HTTP/<n>"},
		{"status 404", "status 404"},
		{"HTTP/1.1 503 and status code: 429, code 500", "HTTP/<n> 503 and status code: 429, code <n>"},
		{"log4j utf8 sha256 x86 worker17", "log<n>j utf<n> sha<n> x<n> worker<n>"},
		{"com.shop.Order@1b6d3586", "com.shop.Order@<hex>"},
		{"a  \t b", "a b"},
		{"\xff\xfe 7", "\uFFFD <n>"},
	} {
		if got := Pattern(tt.text); got != tt.want {
			t.Errorf("the pattern of %q is %q, want %q", tt.text, got, tt.want)
		}
	}
}

// Stalled jobs and jobs without a reason have groups of their own.
func TestFingerprintForm(t *testing.T) {
	t.Parallel()
	prints := map[string]bool{}
	for _, text := range []string{"", contract.StallReason(3), "boom", strings.Repeat("x", 64<<10), "\xff"} {
		print := Fingerprint(text)
		if !IsFingerprint(print) || prints[print] {
			t.Errorf("the fingerprint of %.20q is %q", text, print)
		}
		prints[print] = true
	}
	for _, bad := range []string{"", "0123456789ag", "0123456789a", "0123456789abc"} {
		if IsFingerprint(bad) {
			t.Errorf("%q is a fingerprint", bad)
		}
	}
}

// A line of any bytes has a short pattern of valid UTF-8, and a second line changes nothing.
func FuzzPattern(f *testing.F) {
	for _, e := range corpus(f) {
		f.Add(e.text)
	}
	for _, text := range []string{
		"", "'", "\"", "`'", "[::]:", "0x", "a@b", "://", "1e", "1.", "-", "+1", "Mon, ", "2026-", "“", "\xff'\xfe",
		"1:2:3:4:5:6:7:8",
		strings.Repeat("/", 100), strings.Repeat("a1", 50), strings.Repeat("12:34:", 20), "Sun", "Nov 1", "1 Nov",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		pattern := Pattern(text)
		if pattern == "" && strings.Trim(firstLine(text), " .:;,\t") != "" || !utf8.ValidString(pattern) ||
			len(pattern) > 8*maxPattern {
			t.Errorf("the pattern of %q is %q", text, pattern)
		}
		if line := firstLine(text); line != "" && Pattern(line+"\nmore") != pattern {
			t.Errorf("a second line changes the pattern of %q", text)
		}
	})
}

func BenchmarkFingerprint(b *testing.B) {
	texts := corpus(b)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		Fingerprint(texts[i%len(texts)].text)
	}
}

func BenchmarkFingerprintLongLine(b *testing.B) {
	text := strings.Repeat("it's 'x", 64<<10/7)
	for b.Loop() {
		Fingerprint(text)
	}
}
