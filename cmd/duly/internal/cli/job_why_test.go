package cli

import "testing"

// C15.70: job why prints a sentence per fact, and the facts of the job that has the order key.
func TestJobWhy(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.do("queue", "set", "q", "--max-leased", "2", "--rate", "1", "--burst", "2")
	r.do("push", "q", "first", "--id", "k1", "--order-key", "k", "--tries", "3")
	r.do("push", "q", "second", "--id", "k2", "--order-key", "k", "--ttl", "1h")
	r.do("push", "q", "third", "--id", "k3", "--order-key", "k")
	r.do("push", "q", "later", "--id", "late", "--delay", "1h", "--merge-key", "m", "--merge-mode", "replace",
		"--merge-max-wait", "2h")
	r.do("push", "q", "free", "--id", "free")
	r.do("job", "why", "q", "k1")
	r.do("job", "why", "q", "free")
	r.do("job", "why", "q", "late")
	r.do("push", "r", "body", "--id", "a", "--ttl", "1h")
	r.do("job", "why", "r", "a")

	receipt := firstWord(r.do("reserve", "q", "--receipts"))
	r.do("job", "why", "q", "k2")
	r.do("nack", receipt, "--reason", "mailbox\nis full", "--delay", "10m")
	r.do("pause", "q")
	r.do("job", "why", "q", "k3")
	r.do("job", "why", "q", "k3", "--json")
	r.do("resume", "q")
	receipt = firstWord(r.do("reserve", "q", "--receipts"))
	r.do("job", "why", "q", "free")
	r.do("bury", receipt, "--reason", "no such customer")
	r.do("job", "why", "q", "free")

	r.do("job", "why", "q", "nobody")
	r.do("job", "why", "nowhere", "k1")
	r.do("job", "why", "q", "a b")
	r.do("job", "why", "q")
	r.do("job", "why", "t@g", "k1")
	r.golden("why")
}
