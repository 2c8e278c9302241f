package why

import (
	"strings"
	"testing"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// C15.70, P7.4: each sentence has the moment of its change, or says that none is known.
func TestSentencesNameTheirMoments(t *testing.T) {
	t.Parallel()
	holder := contract.Holder{ID: "a", State: duly.StateLeased}
	for want, f := range map[string]contract.Fact{
		"the job is not due until AT": {Code: contract.FactDelayed, Cause: contract.DelayedByPush},
		"the job waits for its next try until AT; 1 of 3 tries have failed": {
			Code: contract.FactDelayed, Cause: contract.DelayedByRetry, Used: 1, Limit: 3,
		},
		"the job was released and waits until AT":        {Code: contract.FactDelayed, Cause: contract.DelayedBySnooze},
		"the job waits for a retry or a snooze until AT": {Code: contract.FactDelayed, Cause: contract.DelayedByEither},
		"5 of 5 leases are in use; the next one ends AT": {Code: contract.FactMaxLeased, Used: 5, Limit: 5},
		"the rate has no token; the next one comes AT":   {Code: contract.FactRate},
		"the queue is closed until AT: 429":              {Code: contract.FactClosed, Cause: "429"},
		"the queue waits for the end of its probe, job a, whose lease ends AT": {
			Code: contract.FactProbing, Holder: holder,
		},
		"job a has its order key and is leased until AT; no blocked job is before this one": {
			Code: contract.FactBlocked, Holder: holder,
		},
		"job a has its order key and is leased until AT; more than 1 000 blocked jobs are before this one": {
			Code: contract.FactBlocked, Holder: holder, Count: 1000, More: true,
		},
		"the job is leased until AT":                                         {Code: contract.FactLeased},
		"the engine has yet to move the job, since AT":                       {Code: contract.FactStepPending},
		"the job expires AT":                                                 {Code: contract.FactExpires},
		"the job is dead since AT; 1 of 3 tries have failed: boom":           {Code: contract.FactDead, Used: 1, Limit: 3, Cause: "boom"},
		"the job is done since AT":                                           {Code: contract.FactDone},
		"an equal push replaces this job, and postpones it at most until AT": {Code: contract.FactMerging, Cause: "replace"},
		"see a newer duly; it names the moment AT":                           {Code: "unheard_of"},
	} {
		if got := Sentence(&f, "AT"); got != want {
			t.Errorf("%s: %q, want %q", f.Code, got, want)
		}
		if got := Sentence(&f, ""); !strings.HasSuffix(got, "; no moment is known") || strings.Contains(got, "AT") {
			t.Errorf("%s without a moment: %q", f.Code, got)
		}
	}

	for want, f := range map[string]contract.Fact{
		"the queue is paused until somebody resumes it":                                      {Code: contract.FactPaused},
		"the queue waits for the end of its probe":                                           {Code: contract.FactProbing},
		"the job that had its order key has expired or is lost; the next step frees the key": {Code: contract.FactBlocked},
		"1 ready job is before this one":                                                     {Code: contract.FactBehind, Count: 1},
		"more than 10 000 ready jobs are before this one": {
			Code: contract.FactBehind, Count: 10_000, More: true,
		},
		"an equal push is merged into this job":                                              {Code: contract.FactMerging, Cause: "keep"},
		"the namespace moves; the old pool is served first and has 1 234 jobs of the queue":  {Code: contract.FactMoving, Count: 1234},
		"the namespace moves; the old pool is served first and has 12 345 jobs of the queue": {Code: contract.FactMoving, Count: 12345},
	} {
		if got := Sentence(&f, ""); got != want+"; no moment is known" {
			t.Errorf("%s: %q, want %q", f.Code, got, want)
		}
	}
}
