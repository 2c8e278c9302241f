package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/cmd/duly/internal/config"
	"github.com/dulymq/duly/contract"
)

// mustExist returns an error with the nearest name if no queue has this name. An
// engine answers for an unknown queue as for an empty one, so mustExist lists the
// names. It does so only for a queue without jobs and counters.
func (a *app) mustExist(ctx context.Context, s *session, name string) error {
	// Stats of an unknown queue are zero, so only an unused one needs the list.
	stats, err := s.Stats(ctx, s.queue(name))
	isGroup := s.queue(name).IsGroup()
	switch {
	case errors.Is(err, duly.ErrNotFound) && isGroup:
		return a.missingGroup(ctx, s, err, name)
	case errors.Is(err, duly.ErrConflict): // the name belongs to a topic
		return withHint(err, "see its groups: %s topic groups %s", a.program(), shellQuote(name))
	case err != nil || isUsed(&stats) || isGroup:
		return err
	}
	return a.checkListed(ctx, s, name)
}

// orMissing replaces an error by that of mustExist if the queue does not exist, or if
// its name belongs to a topic.
func (a *app) orMissing(ctx context.Context, s *session, err error, queue string) error {
	var e *duly.Error
	if !errors.As(err, &e) {
		return err
	}
	// A conflict with the state of a job says that the queue exists.
	if e.Code != duly.CodeNotFound && (e.Code != duly.CodeConflict || e.State != duly.StateNone) {
		return err
	}
	missing := a.mustExist(ctx, s, queue)
	if errors.Is(missing, duly.ErrNotFound) || errors.Is(missing, duly.ErrConflict) {
		return missing
	}
	return err
}

// isUsed reports whether a queue has, or ever had, a job.
func isUsed(s *duly.Stats) bool { return s.Sizes != (duly.Sizes{}) || s.Counters != (duly.Counters{}) }

// checkListed returns an error if the list of queues does not have an unused queue.
func (a *app) checkListed(ctx context.Context, s *session, name string) error {
	near, exists, err := findQueue(ctx, s, name)
	if err != nil || exists {
		return err
	}
	missing := contract.Errorf(duly.CodeNotFound, "no such queue %s in namespace %s", name, s.namespace)
	if near != "" {
		return withHint(missing, "did you mean %s?", near)
	}
	return withHint(missing, "see the queues: %s queues", a.program())
}

// missingTopic returns the error for a topic that does not exist, with the nearest name.
func (a *app) missingTopic(ctx context.Context, s *session, topics contract.Topics, err error, name string) error {
	if !errors.Is(err, duly.ErrNotFound) {
		return err
	}
	// If the list fails, the error only lacks the suggestion.
	near, _, _ := findName(ctx, name, func(page duly.PageParams) (duly.NamePage, error) {
		return topics.Topics(ctx, s.namespace, page)
	})
	missing := contract.Errorf(duly.CodeNotFound, "no such topic %s in namespace %s", name, s.namespace)
	if near != "" {
		return withHint(missing, "did you mean %s?", near)
	}
	return withHint(missing, "create it: %s topic create %s", a.program(), shellQuote(name))
}

// missingGroup returns the error for a group that does not exist, with the nearest name.
func (a *app) missingGroup(ctx context.Context, s *session, err error, full string) error {
	topics, unsupported := s.topics()
	if unsupported != nil {
		return err
	}

	// The suggestion has to be a group of the same topic, so the name is split first.
	ref, group, _ := s.queue(full).Group()
	near, _, listErr := findName(ctx, group, func(page duly.PageParams) (duly.NamePage, error) {
		return topics.Groups(ctx, ref, page)
	})

	// If even the topic is unknown, its name is the one to correct.
	if errors.Is(listErr, duly.ErrNotFound) {
		return a.missingTopic(ctx, s, topics, listErr, ref.Name)
	}

	missing := contract.Errorf(duly.CodeNotFound, "no such group %s of topic %s in namespace %s", group, ref.Name,
		s.namespace)
	if near != "" {
		return withHint(missing, "did you mean %s?", duly.GroupName(ref.Name, near))
	}
	topic := shellQuote(ref.Name)
	return withHint(missing, "see the groups: %s topic groups %s; to create it: %s topic group create %s %s",
		a.program(), topic, a.program(), topic, shellQuote(group))
}

// listNames lists a page of names.
type listNames func(duly.PageParams) (duly.NamePage, error)

// forEachPage calls do for each page of a list of names. A page has at most limit names.
func forEachPage(ctx context.Context, limit int, list listNames, do func(names []string) error) error {
	for page := (duly.PageParams{Limit: limit}); ; {
		names, err := list(page)
		if err == nil {
			err = do(names.Names)
		}
		if page.Cursor = names.Next; err != nil || page.Cursor == "" || ctx.Err() != nil {
			return err
		}
	}
}

// findName reports whether a list has a name, and returns the nearest other name.
func findName(ctx context.Context, name string, list listNames) (near string, exists bool, err error) {
	suggestion := config.Suggest(name)
	err = forEachPage(ctx, duly.MaxBatch, list, func(names []string) error {
		for _, other := range names {
			if other == name {
				exists = true
			} else {
				suggestion.Add(other)
			}
		}
		return nil
	})
	return suggestion.Best(), exists, err
}

// findQueue is like findName for the queues of the session's namespace.
func findQueue(ctx context.Context, s *session, name string) (near string, exists bool, err error) {
	return findName(ctx, name, func(page duly.PageParams) (duly.NamePage, error) {
		return s.Queues(ctx, s.namespace, page)
	})
}

// noteMissing prints a note for each queue that does not exist yet. That is not an error, because a
// worker may start before the first push.
func (a *app) noteMissing(ctx context.Context, s *session, names []string) {
	if a.json {
		return
	}
	for _, name := range names {
		stats, err := s.Stats(ctx, s.queue(name))
		isGroup := s.queue(name).IsGroup()
		if errors.Is(err, duly.ErrNotFound) && isGroup {
			topic, group, _ := s.queue(name).Group()
			a.note("no such group %s yet; create it with --from start, or: %s topic group create %s %s",
				name, a.program(), topic.Name, group)
		}
		if err != nil || isUsed(&stats) || isGroup {
			continue
		}
		// A worker may start before its first producer, so this is only a note.
		if near, exists, err := findQueue(ctx, s, name); err == nil && !exists {
			a.note("no such queue %s yet%s", name, didYouMean(near))
		}
	}
}

func didYouMean(near string) string {
	if near == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %s?", near)
}

// noteIfCreated prints a note if a push of n jobs created the queue, because the
// name may be misspelled. A queue with a configuration of its own existed before.
func (a *app) noteIfCreated(ctx context.Context, s *session, name string, n int64) {
	if a.json || n == 0 {
		return
	}
	stats, err := s.Stats(ctx, s.queue(name))
	if err != nil || stats.Counters.Pushed != n {
		return
	}

	// The URL may set the number of shards of new queues.
	set, err := s.Config(ctx, s.queue(name))
	unchanged := contract.DefaultQueueConfig()
	unchanged.Shards = set.Shards
	if err == nil && set == unchanged {
		a.noteCreated(ctx, s, name)
	}
}

// noteCreated prints that a queue was created, with the nearest other name.
func (a *app) noteCreated(ctx context.Context, s *session, name string) {
	near, _, _ := findQueue(ctx, s, name) // after an error, the note names no other queue
	a.note("created queue %s%s", name, didYouMean(near))
}

// note prints a line on standard error that does not report an error.
func (a *app) note(format string, args ...any) {
	fmt.Fprintf(a.env.Stderr, "%s\n", oneLine(fmt.Sprintf(format, args...)))
}

// noteOnTerminal is like note for people: it prints nothing unless standard error is a
// terminal.
func (a *app) noteOnTerminal(format string, args ...any) {
	if !a.json && a.env.Terminal(a.env.Stderr) {
		a.note(format, args...)
	}
}
