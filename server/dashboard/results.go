package dashboard

import (
	"sync"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/server/dashboard/render"
)

const (
	// doubleClick is the time in which a form that arrives again is the same click.
	doubleClick = 5 * time.Second
	// maxResults bounds the results in memory. Beyond it the oldest one is dropped.
	maxResults = 1000
)

// results are the results of recent actions, for a second click and for the page after the action.
type results struct {
	clock duly.Clock

	mu   sync.Mutex
	list map[string]*result
	keys []string // oldest first
}

// result is what an action has done. A second click waits for the run of the first one.
type result struct {
	run   func() (render.Path, error)
	until time.Duration // monotonic; zero while the action runs
	text  string        // of an action without an error
}

// once runs an action, unless the same form has just run it. Then it waits for that run. It returns the page that run
// returned besides its text. A form without its mark is refused.
func (r *results) once(
	mark, key string, run func() (text string, page render.Path, err error),
) (render.Path, error) {
	if mark == "" {
		return "", contract.Invalid("once", "is missing; send the form of the page")
	}
	r.mu.Lock()
	known := r.recent(key)
	if known == nil {
		known = r.add(key, run)
	}
	r.mu.Unlock()
	return known.run()
}

// has reports whether the same form has just run an action, or runs it now.
func (r *results) has(key string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.recent(key) != nil
}

// recent returns the action that a second click repeats, or nil. The caller holds the lock.
func (r *results) recent(key string) *result {
	if known := r.list[key]; known != nil && (known.until == 0 || r.clock.Mono() < known.until) {
		return known
	}
	return nil
}

// add adds an action that has not run.
func (r *results) add(key string, run func() (string, render.Path, error)) *result {
	if r.list[key] == nil {
		r.keys = append(r.keys, key)
	}
	if len(r.keys) > maxResults {
		delete(r.list, r.keys[0])
		r.keys = r.keys[1:]
	}
	mine := &result{}
	mine.run = sync.OnceValues(func() (page render.Path, err error) {
		text := ""
		defer func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			mine.until = r.clock.Mono() + doubleClick
			if err == nil {
				mine.text = text
			}
		}()
		text, page, err = run()
		return page, err
	})
	r.list[key] = mine
	return mine
}

// text returns the result of an action that has ended without an error.
func (r *results) text(key string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known := r.list[key]; known != nil {
		return known.text
	}
	return ""
}
