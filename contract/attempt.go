package contract

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/dulymq/duly"
)

// Attempt returns the number of the running or the next delivery. It is failures + 1, plus the
// stalls if MaxStalls is None.
func Attempt(j *duly.Job, failures, stalls int) int {
	// Without a limit for stalls, a stall uses up a try like a failure.
	if j.MaxStalls == duly.None {
		return failures + stalls + 1
	}
	return failures + 1
}

// AttemptIn returns the attempt of a job in the given state. A dead job has no next delivery, so
// it has the attempt of the last one.
func AttemptIn(j *duly.Job, state duly.State, failures, stalls int) int {
	if state == duly.StateDead {
		// After the last failure, Attempt would be one more than Tries.
		return min(Attempt(j, failures, stalls), j.Tries)
	}
	return Attempt(j, failures, stalls)
}

// Exhausted reports whether a job with that many failures and stalls is dead.
func Exhausted(j *duly.Job, failures, stalls int) bool {
	if j.MaxStalls == duly.None {
		return failures+stalls >= j.Tries
	}
	return failures >= j.Tries || stalls > j.MaxStalls
}

// suspectStalls is the number of stalls from which every job is suspect.
const suspectStalls = 2

// Suspect reports whether Reserve returns the job alone, because it may be the job that kills its
// workers. The job has stalled twice, or it has stalled once and dies at the next stall. So no job
// dies of a stall that another job of its Reserve has caused.
func Suspect(j *duly.Job, failures, stalls int) bool {
	return stalls >= suspectStalls || stalls > 0 && Exhausted(j, failures, stalls+1)
}

// StallReason returns the last error of a job that died of its stalls.
func StallReason(stalls int) string {
	return fmt.Sprintf("the lease ran out %d times", stalls)
}

// CutError returns an error text in the form that engines store: valid UTF-8 without NUL, with
// at most [duly.MaxErrorText] bytes.
func CutError(text string) string { return cutText(text, duly.MaxErrorText) }

// cutText returns a string of at most that many bytes, in valid UTF-8 and without zero bytes.
func cutText(text string, most int) string {
	if len(text) > most {
		text = text[:most]
		for i := 0; i < utf8.UTFMax && len(text) > 0; i++ { // removes a rune that was cut in the middle
			if r, n := utf8.DecodeLastRuneInString(text); r != utf8.RuneError || n != 1 {
				break
			}
			text = text[:len(text)-1]
		}
	}
	// The replacements never make the text longer, so the bound still holds.
	text = strings.ToValidUTF8(text, "?")
	return strings.ReplaceAll(text, "\x00", "?")
}
