package failures

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dulymq/duly"
)

const (
	// maxSamples is the number of jobs that a group shows.
	maxSamples = 3
	// maxSample bounds the error of a sample, in bytes.
	maxSample = 300
	// maxAttempts is the number of different attempts that a group counts. Further ones count together.
	maxAttempts = 16
)

// Group has the dead jobs with one fingerprint.
type Group struct {
	Fingerprint, Pattern string
	Count                int64
	// First and Last are the times at which the first and the last job of the group became dead.
	First, Last time.Time
	// Queues are those of the jobs, the largest count first.
	Queues []QueueCount
	// Samples are some of the jobs, the newest first.
	Samples []Sample
	// Attempts are the numbers of the last deliveries, the smallest first.
	Attempts []AttemptCount

	finished histogram
}

// QueueCount is the number of a group's jobs in one queue.
type QueueCount struct {
	Queue string
	Count int64
}

// Sample is one job of a group.
type Sample struct {
	Queue, ID, Error string
	At               time.Time
}

// AttemptCount is the number of jobs that died at one attempt. The 16th entry of a group counts all attempts from Attempt
// on.
type AttemptCount struct {
	Attempt int
	Count   int64
}

// add counts a job.
func (g *Group) add(queue string, j *duly.JobInfo) {
	g.Count++
	g.finished.add(j.FinishedAt.UnixMilli(), 1)
	g.seen(j.FinishedAt, j.FinishedAt)
	g.attempt(j.Attempt, 1)

	// The strings of an engine may be parts of a whole record. Copies do not keep that record in memory.
	g.keep(Sample{Queue: queue, ID: strings.Clone(j.ID), Error: cut(firstLine(j.LastError)), At: j.FinishedAt})
}

// cut returns a copy of the beginning of a text.
func cut(text string) string {
	if len(text) <= maxSample {
		return strings.Clone(text)
	}
	return strings.ToValidUTF8(text[:maxSample], "") + " …"
}

func (g *Group) seen(first, last time.Time) {
	if g.First.IsZero() || first.Before(g.First) {
		g.First = first
	}
	if last.After(g.Last) {
		g.Last = last
	}
}

// attempt adds to the count of an attempt.
func (g *Group) attempt(n int, count int64) {
	i, found := slices.BinarySearchFunc(g.Attempts, n, func(a AttemptCount, n int) int { return cmp.Compare(a.Attempt, n) })
	switch {
	case found:
		g.Attempts[i].Count += count
	case len(g.Attempts) < maxAttempts:
		g.Attempts = slices.Insert(g.Attempts, i, AttemptCount{n, count})
	default:
		// The last entry takes what is larger. A smaller attempt moves the largest one into it.
		last := len(g.Attempts) - 1
		if i < last {
			g.Attempts[last].Attempt, g.Attempts[last].Count = g.Attempts[last-1].Attempt,
				g.Attempts[last].Count+g.Attempts[last-1].Count
			g.Attempts = slices.Insert(slices.Delete(g.Attempts, last-1, last), i, AttemptCount{n, count})
			return
		}
		g.Attempts[last].Attempt = min(g.Attempts[last].Attempt, n)
		g.Attempts[last].Count += count
	}
}

// keep keeps a job if it is one of the newest.
func (g *Group) keep(s Sample) {
	i, _ := slices.BinarySearchFunc(g.Samples, s, func(a, b Sample) int { return b.At.Compare(a.At) })
	if i < maxSamples {
		g.Samples = slices.Insert(g.Samples, i, s)
		g.Samples = g.Samples[:min(len(g.Samples), maxSamples)]
	}
}

// merge adds a group of one queue with the same fingerprint.
func (g *Group) merge(queue string, o *Group) {
	g.Count += o.Count
	g.Queues = append(g.Queues, QueueCount{queue, o.Count})
	g.seen(o.First, o.Last)
	g.finished.merge(&o.finished)
	for _, a := range o.Attempts {
		g.attempt(a.Attempt, a.Count)
	}
	for _, s := range o.Samples {
		g.keep(s)
	}
}

// Sample returns the error of the newest job.
func (g *Group) Sample() string {
	if len(g.Samples) > 0 && g.Samples[0].Error != "" {
		return g.Samples[0].Error
	}
	return g.Pattern
}

// Tries returns the range of attempts: 16, or 1 to 16.
func (g *Group) Tries() string {
	if len(g.Attempts) == 0 {
		return ""
	}
	first, last := g.Attempts[0].Attempt, g.Attempts[len(g.Attempts)-1].Attempt
	if first == last {
		return strconv.Itoa(first)
	}
	return strconv.Itoa(first) + " to " + strconv.Itoa(last)
}
