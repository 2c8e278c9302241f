package cli

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dulymq/duly"
)

// stateStyle returns the style of a state.
func stateStyle(s duly.State) style {
	switch s {
	case duly.StateReady:
		return green
	case duly.StateDelayed:
		return yellow
	case duly.StateBlocked:
		return magenta
	case duly.StateLeased:
		return blue
	case duly.StateDead:
		return red
	case duly.StateDone:
		return dim
	}
	return plain
}

// job prints everything about one job, and then its body.
func (p *printer) job(j *duly.JobInfo) {
	now := p.now()
	p.pairs(
		txt("id"), txt(j.ID),
		txt("queue"), txt(j.Queue),
		txt("state"), cell{j.State.String(), stateStyle(j.State)},
		txt("due"), txt(momentText(j.Due, now)),
		txt("pushed"), txt(momentText(j.PushedAt, now)),
		txt("expires"), txt(momentText(j.ExpiresAt, now)),
		txt("lease ends"), txt(momentText(j.LeaseEnd, now)),
		txt("finished"), txt(momentText(j.FinishedAt, now)),
		txt("try"), txt(tries(j)),
		txt("backoff"), txt(string(j.Backoff)),
		txt("lease"), txt(durationText(j.Lease)),
		txt("ttl"), txt(durationText(j.TTL)),
		txt("priority"), txt(fmt.Sprint(j.Priority)),
		txt("order key"), txt(j.OrderKey),
		txt("merge"), txt(mergeText(j.Merge)),
		txt("callback"), txt(j.Callback),
		txt("on done"), txt(j.OnDone),
		txt("on dead"), txt(j.OnDead),
		txt("retain"), txt(durationText(j.Retain)),
		txt("headers"), txt(headersText(j.Headers)),
		txt("last error"), cell{j.LastError, red},
		txt("result"), txt(preview(j.Result, 200)),
		txt("size"), txt(bytesText(int64(j.Size))),
	)

	if len(j.Body) > 0 {
		// The body comes last, because it is the longest part.
		p.printf("\n%s\n", preview(j.Body, 2000))
	}
}

// failed returns the number of a job's failed tries. It includes stalls if they count as
// failures.
func failed(j *duly.JobInfo) int {
	n := j.Failures
	if j.MaxStalls == duly.None {
		n += j.Stalls
	}
	return min(n, j.Tries)
}

// tries returns the current try of a job, or for a dead job the number of failed tries.
func tries(j *duly.JobInfo) string {
	text := fmt.Sprintf("%d of %d", j.Attempt, j.Tries)
	if j.State == duly.StateDead {
		text = fmt.Sprintf("%d of %d failed", failed(j), j.Tries)
	}
	text += fmt.Sprintf(" (%s, %s", plural(int64(j.Failures), "failure"), plural(int64(j.Stalls), "stall"))
	if j.MaxStalls == duly.None {
		return text + ", which count as failures)"
	}
	return text + fmt.Sprintf(" of at most %d)", j.MaxStalls)
}

// nextStateText describes the state of a job after its delivery has ended, like "dead after 2 of
// 2 tries", "again in 4s" or "again now". It returns "" for a job that is running or done.
func nextStateText(j *duly.JobInfo, now time.Time) string {
	switch {
	case j.State == duly.StateDead:
		return fmt.Sprintf("dead after %d of %d tries", failed(j), j.Tries)
	case j.State == duly.StateDelayed && j.Due.After(now):
		return "again " + relative(j.Due, now)
	case j.State == duly.StateDelayed, j.State == duly.StateReady:
		return "again now"
	case j.State == duly.StateBlocked:
		return "again after the jobs of its order key"
	}
	return ""
}

// mergeText returns the merge rule of a job, or "" if it has none.
func mergeText(m duly.Merge) string {
	if !m.Set() {
		return ""
	}
	key := "equal bodies"
	if m.Key != "" {
		key = m.Key
	}
	text := fmt.Sprintf("%s, %s until %s", key, m.Mode, m.Until)
	if m.MaxWait > 0 {
		text += ", at most " + shortDuration(m.MaxWait)
	}
	return text
}

func headersText(headers map[string]string) string {
	parts := make([]string, 0, len(headers))
	for name, value := range headers {
		parts = append(parts, name+"="+value)
	}

	// The order of a map changes from run to run.
	slices.Sort(parts)
	return strings.Join(parts, " ")
}

// jobTable returns a table for jobs in any state.
func (p *printer) jobTable() *table { return p.jobTableBy("ID") }

// jobTableBy returns a table for jobs whose first column has another header than ID.
func (p *printer) jobTableBy(first string) *table {
	return p.newTable(first, "STATE", "WHEN", ">FAILED", ">PRIO", ">SIZE", "")
}

// addJob adds a row for a job. WHEN depends on the state. FAILED is the number of failed
// tries.
func (t *table) addJob(j *duly.JobInfo) { t.addJobAs(j.ID, j) }

// addJobAs adds a row for a job with another text than its ID.
func (t *table) addJobAs(name string, j *duly.JobInfo) {
	when := j.Due

	// Each state has one time that matters: the end of its lease, its finish, or its due time.
	switch j.State {
	case duly.StateLeased:
		when = j.LeaseEnd
	case duly.StateDead, duly.StateDone:
		when = j.FinishedAt
	}
	about := j.LastError
	switch {
	// The last error is the most useful text of a job. If there is none, the body is shown, and
	// else the key.
	case about != "":
	case len(j.Body) > 0:
		about = preview(j.Body, 48)
	case j.OrderKey != "":
		about = "key " + j.OrderKey
	}

	t.add(txt(name), cell{j.State.String(), stateStyle(j.State)}, txt(relative(when, t.p.now())),
		txt(fmt.Sprintf("%d/%d", failed(j), j.Tries)), txt(fmt.Sprint(j.Priority)),
		txt(bytesText(int64(j.Size))), txt(about))
}
