package maintain

import (
	"context"
	"log/slog"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/redisengine/internal/catalog"
	"github.com/dulymq/duly/redisengine/internal/link"
	"github.com/dulymq/duly/redisengine/internal/store"
	"github.com/dulymq/duly/redisengine/lua"
)

// The names of the libraries contain a hash of their text, so each version of duly leaves its own
// on the servers. One hash records when processes last used each library. Every process updates
// the entries of its libraries. A library that no process has recorded for a week is removed. If
// a process still uses it, the next call loads it again.
const (
	libraryAge   = 7 * 24 * time.Hour
	libraryPause = time.Hour // pause between two cleanups of one process
)

// isLibrary matches the names of duly's libraries, of all versions. Other programs may have
// libraries whose names begin with duly_.
var isLibrary = regexp.MustCompile(`^` + lua.NamePrefix + `[a-z]+_[0-9a-f]{8,}$`)

// LibraryCleaner records the libraries that this process uses, and removes those that no process
// uses.
type LibraryCleaner struct {
	e *catalog.Catalog

	mu   sync.Mutex    // held during a cleanup, so that one runs at a time
	next time.Duration // time of the next cleanup, on the monotonic clock
	said bool          // whether the reason was logged why no library is removed
}

// key returns the key of the hash: library → when it was last recorded, in ms. All namespaces
// share it, so it is stored with the tokens.
func (c *LibraryCleaner) key() string { return c.e.TokenKey("libraries") }

// RecordOwn records the libraries of a starting process. An unreachable node does not make Open
// fail, because the first sweep records them as well.
func (c *LibraryCleaner) RecordOwn(ctx context.Context) error {
	hasty, cancel := link.Hasty(ctx)
	defer cancel()
	if now, err := c.e.Now(hasty); err == nil && c.e.Link.UsesFunctions() {
		_ = c.record(hasty, now, store.OwnLibraryNames()...)
	}
	return ctx.Err()
}

// isDue reports whether an hour has passed since the last cleanup.
func (c *LibraryCleaner) isDue() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.e.Local().Mono() >= c.next
}

// clean records the libraries of this process, and removes those that no process has recorded for
// a week. No call depends on it, so it returns no error and the next cleanup retries. It logs a
// permanent error, such as a missing right, once.
func (c *LibraryCleaner) clean(ctx context.Context) {
	if !c.e.Link.UsesFunctions() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next = c.e.Local().Mono() + libraryPause

	err := c.cleanOnce(ctx)
	// Errors that pass are not worth a line in the log.
	if code := duly.CodeOf(err); err == nil || c.said || ctx.Err() != nil || code == duly.CodeUnavailable ||
		code == duly.CodeClosed {
		return
	}
	c.said = true
	c.e.Settings.Logger.Info("libraries of other versions of duly are not removed; that needs the rights "+
		"+function|list +function|delete",
		slog.String("error", err.Error()))
}

func (c *LibraryCleaner) cleanOnce(ctx context.Context) error {
	now, err := c.e.Now(ctx)
	if err != nil {
		return err
	}
	own := store.OwnLibraryNames()
	if err := c.record(ctx, now, own...); err != nil {
		return err
	}
	names, err := c.e.Link.Libraries(ctx, lua.NamePrefix)
	if err != nil {
		return err
	}
	recorded, err := c.recorded(ctx)
	if err != nil {
		return err
	}

	names = slices.DeleteFunc(names, func(name string) bool {
		return slices.Contains(own, name) ||
			!isLibrary.MatchString(name)
	})

	for _, name := range names {
		at, known := recorded[name]
		switch age := now.Sub(at); {
		case !known, age < 0:
			// The week of an unknown library starts now, and so does that of an entry with a time
			// in the future.
			err = c.record(ctx, now, name)
		case age >= libraryAge:
			err = c.remove(ctx, name)
		}
		if err != nil {
			return err
		}
	}
	// Entries of libraries that no server has any more expire as well.
	for name, at := range recorded {
		if now.Sub(at) < libraryAge || slices.Contains(names, name) || slices.Contains(own, name) {
			continue
		}
		if err := c.forget(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// record stores the current time for libraries.
func (c *LibraryCleaner) record(ctx context.Context, now time.Time, names ...string) error {
	hset := c.e.Link.B().Hset().Key(c.key()).FieldValue()
	for _, name := range names {
		hset = hset.FieldValue(name, strconv.FormatInt(now.UnixMilli(), 10))
	}
	_, err := c.e.Link.Do(ctx, hset.Build())
	return err
}

// recorded returns when each library was last recorded. A time that can't be read counts as 1970.
func (c *LibraryCleaner) recorded(ctx context.Context) (map[string]time.Time, error) {
	all := map[string]time.Time{}
	for cursor := uint64(0); ; {
		msg, err := c.e.Link.Do(ctx, c.e.Link.B().Hscan().Key(c.key()).Cursor(cursor).Count(checkPage).Build())
		if err != nil {
			return nil, err
		}

		page, err := msg.AsScanEntry()
		if err != nil {
			return nil, c.e.UnexpectedReply("hscan " + c.key())
		}

		for i := 0; i+1 < len(page.Elements); i += 2 {
			ms, _ := strconv.ParseInt(page.Elements[i+1], 10, 64)
			all[page.Elements[i]] = time.UnixMilli(ms)
		}

		if cursor = page.Cursor; cursor == 0 {
			return all, nil
		}
	}
}

// remove removes a library from the servers, and then its entry.
func (c *LibraryCleaner) remove(ctx context.Context, name string) error {
	// The entry goes last, so a failed removal is retried.
	if err := c.e.Link.RemoveLibrary(ctx, name); err != nil {
		return err
	}
	c.e.Settings.Logger.Info("removed a library of Redis Functions that no process has used for a week",
		slog.String("library", name))
	return c.forget(ctx, name)
}

// forget removes the entry of a library.
func (c *LibraryCleaner) forget(ctx context.Context, name string) error {
	_, err := c.e.Link.Do(ctx, c.e.Link.B().Hdel().Key(c.key()).Field(name).Build())
	return err
}
