package cli

import (
	"fmt"
	"strings"
	"testing"
)

// C15.80, C15.81: key list and get show the jobs that hold order keys and the jobs that wait.
func TestKeyCommands(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for i, key := range []string{"ada", "bob", "ada", "ada", "eve", "bob", "a b", "a b"} {
		r.do("push", "q", fmt.Sprint("body ", i), "--id", fmt.Sprint("j", i), "--order-key", key)
	}
	receipt := firstWord(r.do("reserve", "q", "--receipts"))
	r.do("nack", receipt, "--reason", "no", "--delay", "10m")
	r.do("reserve", "q", "--receipts")
	r.do("key", "list", "q")
	r.do("key", "list", "q", "--prefix", "a", "--limit", "1")
	r.do("key", "list", "q", "--limit", "1", "--json")
	r.do("key", "list", "q", "--prefix", "a", "--limit", "1", "--json")
	r.do("key", "list", "q", "--prefix", "x")
	r.do("key", "list", "q", "--prefix", strings.Repeat("x", 129))
	r.do("key", "list", "nowhere")
	r.do("key", "list", "t@g")

	r.do("key", "get", "q", "ada")
	r.do("key", "get", "q", "ada", "--limit", "1")
	r.do("key", "get", "q", "eve")
	r.do("key", "get", "q", "ada", "--json")
	r.do("key", "get", "q", "eve", "--json")
	r.do("key", "get", "q", "nobody")
	r.do("key", "get", "nowhere", "ada")
	r.do("key", "get", "q", "a\nb")
	r.do("key", "get", "q")
	r.golden("key")
}
