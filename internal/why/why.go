// Package why has the sentences for the facts that hold a job back. The command line and the dashboard share them.
package why

import (
	"fmt"
	"strconv"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// Sentence returns the sentence for a fact, without a capital and a full stop. at is the moment of the fact as text,
// empty if none is known. The sentence has that moment, or says that none is known.
func Sentence(f *contract.Fact, at string) string {
	text := phrase(f, at)
	if at == "" {
		text += "; no moment is known"
	}
	return text
}

// phrase returns the sentence for a fact. at is empty if its moment is not known.
func phrase(f *contract.Fact, at string) string {
	switch f.Code {
	case contract.FactDelayed:
		return delayed(f, at)
	case contract.FactPaused:
		return "the queue is paused until somebody resumes it"
	case contract.FactMaxLeased:
		return fmt.Sprintf("%d of %d leases are in use", f.Used, f.Limit) + until("; the next one ends", at)
	case contract.FactRate:
		return "the rate has no token" + until("; the next one comes", at)
	case contract.FactClosed:
		return "the queue is closed" + until(" until", at) + because(f.Cause)
	case contract.FactProbing:
		return "the queue waits for the end of its probe" + until(", job "+f.Holder.ID+", whose lease ends", at)
	case contract.FactBlocked:
		return blocked(f, at)
	case contract.FactBehind:
		return before(f, "ready job")
	case contract.FactLeased:
		return "the job is leased" + until(" until", at)
	case contract.FactStepPending:
		return "the engine has yet to move the job" + until(", since", at)
	case contract.FactExpires:
		return "the job expires" + until("", at)
	case contract.FactDead:
		return "the job is dead" + until(" since", at) + failed(f) + because(f.Cause)
	case contract.FactDone:
		return "the job is done" + until(" since", at)
	case contract.FactMerging:
		return merging(f, at)
	case contract.FactMoving:
		return "the namespace moves; the old pool is served first and has " + plural(f.Count, "job") + " of the queue"
	}
	// A newer server may have more facts.
	return "see a newer duly" + until("; it names the moment", at)
}

// until returns words and a moment, or "" if no moment is known.
func until(words, at string) string {
	if at == "" {
		return ""
	}
	return words + " " + at
}

func because(cause string) string {
	if cause == "" {
		return ""
	}
	return ": " + cause
}

func failed(f *contract.Fact) string {
	if f.Limit == 0 {
		return ""
	}
	return fmt.Sprintf("; %d of %d tries have failed", f.Used, f.Limit)
}

func delayed(f *contract.Fact, at string) string {
	why := "the job waits for a retry or a snooze"
	switch f.Cause {
	case contract.DelayedByPush:
		why = "the job is not due"
	case contract.DelayedByRetry:
		why = "the job waits for its next try"
	case contract.DelayedBySnooze:
		why = "the job was released and waits"
	}
	return why + until(" until", at) + failed(f)
}

func blocked(f *contract.Fact, at string) string {
	if f.Holder.ID == "" {
		return "the job that had its order key has expired or is lost; the next step frees the key"
	}
	text := fmt.Sprintf("job %s has its order key and is %s", f.Holder.ID, f.Holder.State)
	return text + until(" until", at) + "; " + before(f, "blocked job")
}

// before returns how many jobs of a kind are before the explained one.
func before(f *contract.Fact, kind string) string {
	verb := "are"
	if f.Count == 1 {
		verb = "is"
	}
	count := plural(f.Count, kind)
	switch {
	case f.More:
		count = "more than " + count
	case f.Count == 0:
		return "no " + kind + " is before this one"
	}
	return count + " " + verb + " before this one"
}

func merging(f *contract.Fact, at string) string {
	if f.Cause != string(duly.MergeReplace) {
		return "an equal push is merged into this job"
	}
	return "an equal push replaces this job" + until(", and postpones it at most until", at)
}

// plural returns "1 job" or "12 345 jobs".
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	digits := strconv.Itoa(n)

	// The groups are cut from the end, so the positions before it stay valid.
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + " " + digits[i:]
	}
	return digits + " " + noun + "s"
}
