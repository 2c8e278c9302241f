package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

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

// C15.70: each sentence has the moment of its change, or says that none is known.
func TestFactsNameTheirMoments(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	at := now.Add(90 * time.Second)
	const moment = "2030-01-01T00:01:30.000Z (in 1m30s)"
	holder := contract.Holder{ID: "a", State: duly.StateLeased, At: at}

	for want, f := range map[string]contract.Fact{
		"the job is not due until AT":             {Code: contract.FactDelayed, At: at, Cause: contract.DelayedByPush},
		"the job was released and waits until AT": {Code: contract.FactDelayed, At: at, Cause: contract.DelayedBySnooze},
		"waits for a retry or a snooze until AT; 1 of 3 tries have failed": {Code: contract.FactDelayed,
			At: at, Cause: contract.DelayedByEither, Used: 1, Limit: 3},
		"the queue is paused until somebody resumes it; no moment is known": {Code: contract.FactPaused},
		"5 of 5 leases are in use; the next one ends AT":                    {Code: contract.FactMaxLeased, At: at, Used: 5, Limit: 5},
		"the rate has no token; the next one comes AT":                      {Code: contract.FactRate, At: at},
		"the queue is closed until AT: 429":                                 {Code: contract.FactClosed, At: at, Cause: "429"},
		"waits for the end of its probe, job a, whose lease ends AT": {Code: contract.FactProbing,
			At: at, Holder: holder},
		"waits for the end of its probe; no moment is known": {Code: contract.FactProbing},
		"job a has its order key and is leased until AT; no blocked job is be": {Code: contract.FactBlocked,
			At: at, Holder: holder},
		"is leased until AT; more than 1 000 blocked jobs are before this one": {Code: contract.FactBlocked,
			At: at, Holder: holder, Count: 1000, More: true},
		"has expired; the next step frees the key; no moment is known": {Code: contract.FactBlocked},
		"1 ready job is before this one; no moment is known":           {Code: contract.FactBehind, Count: 1},
		"the job is leased until AT":                                   {Code: contract.FactLeased, At: at},
		"the engine has yet to move the job, since AT":                 {Code: contract.FactStepPending, At: at},
		"the job expires AT":                                           {Code: contract.FactExpires, At: at},
		"the job is dead since AT; 1 of 3 tries have failed: boom": {Code: contract.FactDead,
			At: at, Used: 1, Limit: 3, Cause: "boom"},
		"the job is done since AT":                                  {Code: contract.FactDone, At: at},
		"an equal push is merged into this job; no moment is known": {Code: contract.FactMerging, Cause: "keep"},
		"an equal push replaces this job, and postpones it at most until AT": {Code: contract.FactMerging,
			Cause: "replace", At: at},
		"served first and has 2 jobs of the queue; no moment is known": {Code: contract.FactMoving, Count: 2},
		"see a newer duly; it names the moment AT":                     {Code: "unheard_of", At: at},
	} {
		if got := factText(&f, now); !strings.Contains(got, strings.ReplaceAll(want, "AT", moment)) {
			t.Errorf("%s: %q, want %q", f.Code, got, want)
		}
	}
}
