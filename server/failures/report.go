package failures

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// Report has the groups of some queues.
type Report struct {
	// Groups are sorted by count, the largest first.
	Groups []*Group
	// Jobs is the number of dead jobs by the statistics, Examined the number of counted ones, and Other the number of
	// counted ones without a group.
	Jobs, Examined, Other int64
	// At is the time of the oldest count.
	At time.Time
	// Unfinished is set if a walk continues at the next look.
	Unfinished bool
	// Problems are the queues that could not be read.
	Problems []string

	groups map[string]*Group
}

// add adds the groups of one queue.
func (r *Report) add(queue string, t *tally) {
	r.Examined += t.examined
	r.Other += t.other
	if r.At.IsZero() || t.at.Before(r.At) {
		r.At = t.at
	}
	for pattern, from := range t.groups {
		g := r.groups[pattern]
		if g == nil {
			g = &Group{Fingerprint: from.Fingerprint, Pattern: pattern}
			r.groups[pattern] = g
			r.Groups = append(r.Groups, g)
		}
		g.merge(queue, from)
	}
}

func (r *Report) sort() {
	slices.SortFunc(r.Groups, func(a, b *Group) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Pattern, b.Pattern))
	})
	for _, g := range r.Groups {
		slices.SortFunc(g.Queues, func(a, b QueueCount) int {
			return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Queue, b.Queue))
		})
	}
}

// Find returns the group with a fingerprint, nil if there is none.
func (r *Report) Find(fingerprint string) *Group {
	i := slices.IndexFunc(r.Groups, func(g *Group) bool { return g.Fingerprint == fingerprint })
	if i < 0 {
		return nil
	}
	return r.Groups[i]
}

// Share returns the part of the examined jobs that a group has, in percent: 12.5 %.
func (r *Report) Share(g *Group) string {
	share := 100 * float64(g.Count) / float64(max(r.Examined, 1))
	if share < 0.1 {
		return "< 0.1 %"
	}
	return strconv.FormatFloat(share, 'f', 1, 64) + " %"
}

// maxRows is the number of groups of a table.
const maxRows = 100

// Table is a report ready to be shown.
type Table struct {
	Rows []Row
	// Examined is the largest value of a row's count.
	Examined int64
	// Progress says how many jobs are counted. Counted is the time of the count.
	Progress string
	Counted  time.Time
	Notes    []string
	// Group is the only row of a table of one group.
	Group *Row
}

// Row is a group ready to be shown.
type Row struct {
	*Group
	Share, Tries, Sample string
	// Spark is the path of an SVG of the times at which jobs became dead. All rows of a table have one time axis.
	Spark string
	// Where names the queues.
	Where string
}

// Table returns the largest groups with their texts. With a fingerprint it returns that group alone.
func (r *Report) Table(fingerprint string) *Table {
	t := &Table{
		Examined: r.Examined, Counted: r.At, Progress: fmt.Sprintf("%d of %d examined", r.Examined, max(r.Jobs, r.Examined)),
	}

	// All rows have the time axis of all groups.
	var first, last time.Time
	for _, g := range r.Groups {
		if first.IsZero() || g.First.Before(first) {
			first = g.First
		}
		if g.Last.After(last) {
			last = g.Last
		}
	}

	switch g := r.Find(fingerprint); {
	case fingerprint == "":
		for _, g := range r.Groups[:min(len(r.Groups), maxRows)] {
			t.Rows = append(t.Rows, r.row(g, first, last))
		}
	case g != nil:
		row := r.row(g, first, last)
		t.Group = &row
	}

	if n := len(r.Groups); n > maxRows && fingerprint == "" {
		t.Notes = append(t.Notes, fmt.Sprintf("These are the largest %d of %d groups.", maxRows, n))
	}
	if r.Other > 0 {
		t.Notes = append(t.Notes, fmt.Sprintf("%d jobs count as other: the server keeps at most %d groups of one queue, and "+
			"%d of all queues.", r.Other, MaxGroups, maxAll))
	}
	if r.Unfinished {
		t.Notes = append(t.Notes, "The count continues when this page is loaded again.")
	}
	for _, queue := range r.Problems {
		t.Notes = append(t.Notes, "The queue "+queue+" could not be read.")
	}
	return t
}

// row returns a group with its texts.
func (r *Report) row(g *Group, first, last time.Time) Row {
	row := Row{
		Group: g, Share: r.Share(g), Tries: g.Tries(), Sample: g.Sample(),
		Spark: g.finished.path(first.UnixMilli(), last.UnixMilli()),
	}
	for i, q := range g.Queues {
		if i == 3 {
			row.Where += fmt.Sprintf(" and %d more", len(g.Queues)-i)
			break
		}
		if i > 0 {
			row.Where += ", "
		}
		row.Where += q.Queue
	}
	return row
}
