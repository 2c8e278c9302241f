package cli

import (
	"context"
	"fmt"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/cmd/duly/internal/config"
)

// mustExist returns an error that names the nearest queue where there is no queue
// of that name. An engine answers for an unknown queue as for an empty one, so
// the names are listed, but only if the queue looks as if it was never used.
func (a *app) mustExist(ctx context.Context, s *session, name string) error {
	stats, err := s.Stats(ctx, s.queue(name))
	if err != nil || used(&stats) {
		return err
	}
	return a.mustBeListed(ctx, s, name)
}

// used reports whether anything has ever happened in a queue.
func used(s *duly.Stats) bool { return s.Sizes != (duly.Sizes{}) || s.Counters != (duly.Counters{}) }

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

// findName looks for a queue, and for the other one whose name is nearest to it.
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

// hintMissing says on standard error that a queue does not exist (yet): a worker
// may be started before the first push.
func (a *app) hintMissing(ctx context.Context, s *session, names []string) {
	if a.json {
		return
	}
	for _, name := range names {
		stats, err := s.Stats(ctx, s.queue(name))
		if err != nil || used(&stats) {
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

// hintCreated says that a push made its queue, after the first n jobs of it were
// stored: a misspelled name makes a new queue. One that was set up before has a
// configuration of its own.
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
	plain.Shards = set.Shards // which the URL may choose
	if err != nil || set != plain {
		return
	}
	near, _, _ := findName(ctx, s, name) // without it the note says less
	a.note("created queue %s%s", name, orMeant(near))
}

// note prints a line on standard error that is no error.
func (a *app) note(format string, args ...any) {
	fmt.Fprintf(a.env.Stderr, "%s\n", oneLine(fmt.Sprintf(format, args...)))
}
