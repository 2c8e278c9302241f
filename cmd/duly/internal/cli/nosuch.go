package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/cmd/duly/internal/config"
)

// mustExist returns an error with the nearest name if no queue has this name. An
// engine answers for an unknown queue as for an empty one, so mustExist lists the
// names. It does so only for a queue without jobs and counters.
func (a *app) mustExist(ctx context.Context, s *session, name string) error {
	stats, err := s.Stats(ctx, s.queue(name))
	switch {
	case errors.Is(err, duly.ErrNotFound) && s.queue(name).IsGroup():
		return a.nearGroup(ctx, s, err, name)
	case isTopic(err):
		return advise(err, "see its groups: %s topic groups %s", a.program(), shellQuote(name))
	case err != nil || used(&stats) || s.queue(name).IsGroup():
		return err
	}
	return a.mustBeListed(ctx, s, name)
}

// orMissing replaces a not_found error by that of mustExist if the queue itself
// does not exist.
func (a *app) orMissing(ctx context.Context, s *session, err error, queue string) error {
	if errors.Is(err, duly.ErrNotFound) || isTopic(err) {
		if missing := a.mustExist(ctx, s, queue); errors.Is(missing, duly.ErrNotFound) || isTopic(missing) {
			return missing
		}
	}
	return err
}

// used reports whether a queue has, or ever had, a job.
func used(s *duly.Stats) bool { return s.Sizes != (duly.Sizes{}) || s.Counters != (duly.Counters{}) }

// mustBeListed is mustExist for a queue that is known to be unused.
func (a *app) mustBeListed(ctx context.Context, s *session, name string) error {
	near, known, err := findName(ctx, s, name)
	if err != nil || known {
		return err
	}
	missing := duly.Errorf(duly.CodeNotFound, "no such queue %s in namespace %s", name, s.namespace)
	if near != "" {
		return advise(missing, "did you mean %s?", near)
	}
	return advise(missing, "see which there are: %s queues", a.program())
}

// findName reports whether a queue exists, and returns the nearest other name.
func findName(ctx context.Context, s *session, name string) (near string, known bool, err error) {
	looking := config.NearTo(name)
	for page := (duly.PageParams{Limit: duly.MaxBatch}); ; {
		names, err := s.Queues(ctx, s.namespace, page)
		if err != nil {
			return "", false, err
		}
		for _, other := range names.Names {
			if other == name {
				known = true
			} else {
				looking.See(other)
			}
		}
		if page.Cursor = names.Next; page.Cursor == "" {
			return looking.Best(), known, nil
		}
	}
}

// hintMissing prints a note for each queue that does not exist yet. That is no
// error, because a worker may start before the first push.
func (a *app) hintMissing(ctx context.Context, s *session, names []string) {
	if a.json {
		return
	}
	for _, name := range names {
		stats, err := s.Stats(ctx, s.queue(name))
		if errors.Is(err, duly.ErrNotFound) && s.queue(name).IsGroup() {
			a.note("no such group %s yet; make it with --from start, or: %s topic group create", name, a.program())
		}
		if err != nil || used(&stats) || s.queue(name).IsGroup() {
			continue
		}
		if near, known, err := findName(ctx, s, name); err == nil && !known {
			a.note("no such queue %s yet%s", name, orMeant(near))
		}
	}
}

func orMeant(near string) string {
	if near == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %s?", near)
}

// hintCreated prints a note if a push of n jobs created the queue, because the
// name may be misspelled. A queue with a configuration of its own existed before.
func (a *app) hintCreated(ctx context.Context, s *session, name string, n int64) {
	if a.json || n == 0 {
		return
	}
	stats, err := s.Stats(ctx, s.queue(name))
	if err != nil || stats.Counters.Pushed != n {
		return
	}
	set, err := s.Config(ctx, s.queue(name))
	plain := duly.DefaultQueueConfig()
	plain.Shards = set.Shards // the URL may set it
	if err == nil && set == plain {
		a.noteCreated(ctx, s, name)
	}
}

// noteCreated prints that a queue was created, with the nearest other name.
func (a *app) noteCreated(ctx context.Context, s *session, name string) {
	near, _, _ := findName(ctx, s, name) // after an error the note has no other name
	a.note("created queue %s%s", name, orMeant(near))
}

// note prints a line on standard error that does not report an error.
func (a *app) note(format string, args ...any) {
	fmt.Fprintf(a.env.Stderr, "%s\n", oneLine(fmt.Sprintf(format, args...)))
}
