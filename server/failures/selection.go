package failures

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

const (
	// MaxSelected is the number of jobs of one [Selection.Each].
	MaxSelected = 10_000
	// patience bounds the time of one [Selection.Each].
	patience = 10 * time.Second
)

// Selection selects the dead jobs of a group in one queue.
type Selection struct {
	Fingerprint string
	// Before leaves out the jobs that died later, in milliseconds since 1970, as engines store it. 0 leaves out none.
	Before int64
	// Cursor is the place where the selection continues, "" for its beginning.
	Cursor string
	// More is set by Each if the selection may have more jobs. Then Cursor is their place. Err is why it ended early.
	More bool
	Err  error
	// Count is the number of jobs by a report. Uncounted is the number of dead jobs that the report has not counted.
	Count, Uncounted int64
}

// ParseSelection reads a selection from the fields fp, before and from of a form or a URL. Without fp it selects all
// jobs.
func ParseSelection(field func(name string) string) (*Selection, error) {
	s := &Selection{Fingerprint: field("fp"), Cursor: field("after")}
	if s.Fingerprint != "" && !IsFingerprint(s.Fingerprint) {
		return nil, contract.Invalid("fp", "is %q, must have 12 hexadecimal digits; take it from the list of groups",
			s.Fingerprint)
	}

	if before := field("before"); before != "" {
		var err error
		if s.Before, err = strconv.ParseInt(before, 10, 64); err != nil || s.Before <= 0 {
			return nil, contract.Invalid("before", "is %q, must be a time in milliseconds since 1970", before)
		}
	}
	return s, nil
}

// String describes the selection for a log.
func (s *Selection) String() string {
	text := "group " + s.Fingerprint
	if s.Before > 0 {
		text += ", dead until " + time.UnixMilli(s.Before).UTC().Format(time.RFC3339Nano)
	}
	return text
}

// Effect returns a note that says which jobs an action takes and which it leaves.
func (s *Selection) Effect() string {
	return fmt.Sprintf("Jobs that died after %s stay dead. One action takes at most %d jobs.",
		time.UnixMilli(s.Before).UTC().Format("2006-01-02 15:04:05.000 UTC"), MaxSelected)
}

// IsLarge reports whether a selection may have more than a number of jobs.
func (s *Selection) IsLarge(most int64) bool { return s != nil && s.Count+s.Uncounted > most }

// Question returns the question before an action. The action is a format such as Delete %d jobs.
func (s *Selection) Question(action, queue string) string {
	more := ""
	if s.Uncounted > 0 {
		more = " or more"
	}
	return fmt.Sprintf(action+more+" of %s with this error?", s.Count, queue)
}

// Rest returns the note about the jobs that an action has left, "" without any.
func (s *Selection) Rest() string {
	if s == nil || !s.More {
		return ""
	}
	if s.Err != nil {
		return fmt.Sprintf(" The action ended early: %v. Continue with the button of the group.", s.Err)
	}
	return " The group has more jobs. Continue with its button."
}

// has reports whether a job is selected.
func (s *Selection) has(j *duly.JobInfo) bool {
	return (s.Before == 0 || j.FinishedAt.UnixMilli() <= s.Before) && Fingerprint(j.LastError) == s.Fingerprint
}

// Each calls do with the IDs of the selected jobs, in steps of at most [duly.MaxBatch]. do removes the jobs from the
// dead ones. Each ends after [MaxSelected] jobs or 10 s, or at an error. A later call continues.
func (s *Selection) Each(
	ctx context.Context, e Lister, clock duly.Clock, q duly.QueueRef, do func(ids []string) error,
) error {
	s.Err = s.each(ctx, e, clock, q, do)
	s.More = s.More || s.Err != nil
	return s.Err
}

func (s *Selection) each(
	ctx context.Context, e Lister, clock duly.Clock, q duly.QueueRef, do func(ids []string) error,
) error {
	begin, left := clock.Mono(), MaxSelected
	for {
		page, err := listDead(ctx, e, q, s.Cursor, duly.MaxBatch)
		if err != nil {
			return err
		}
		var ids []string
		for i := range page.Jobs {
			if s.has(&page.Jobs[i]) {
				ids = append(ids, page.Jobs[i].ID)
			}
		}

		// The rest of a page stays where it is, so the selection continues at the same page.
		if s.More = len(ids) > left; s.More {
			ids = ids[:left]
		}
		if len(ids) > 0 {
			if err := do(ids); err != nil {
				return err
			}
		}
		left -= len(ids)
		if s.More {
			return nil
		}
		if s.Cursor = page.Next; s.Cursor == "" {
			return nil
		}
		if s.More = left == 0 || clock.Mono()-begin >= patience; s.More {
			return nil
		}
	}
}
