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

// result is what an action has done. The fields below until are set when done is closed.
type result struct {
	done  chan struct{}
	until time.Duration // monotonic; zero while the action runs
	text  string
	page  render.Path // the page after the action
	err   error
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
	if known := r.list[key]; known != nil && (known.until == 0 || r.clock.Mono() < known.until) {
		r.mu.Unlock()
		<-known.done
		return known.page, known.err
	}

	if r.list == nil {
		r.list = map[string]*result{}
	}
	if r.list[key] == nil {
		r.keys = append(r.keys, key)
	}

	// An action that panics must not block a second click.
	mine := &result{done: make(chan struct{}), err: duly.ErrInternal}
	r.list[key] = mine
	if len(r.keys) > maxResults {
		delete(r.list, r.keys[0])
		r.keys = r.keys[1:]
	}
	r.mu.Unlock()

	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		mine.until = r.clock.Mono() + doubleClick
		close(mine.done)
	}()
	mine.text, mine.page, mine.err = run()
	return mine.page, mine.err
}

// text returns the result of an action that has ended without an error.
func (r *results) text(key string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known := r.list[key]; known != nil && known.until != 0 && known.err == nil {
		return known.text
	}
	return ""
}
