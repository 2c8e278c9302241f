package enginetest

import (
	"context"
	"errors"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

func tokenWatchTests() []test {
	return []test{
		{"TellsOfEveryChange", []string{"C4.92"}, Options{}, watchChanges},
		{"TellsAllWhoWatch", []string{"C4.92"}, Options{}, watchAll},
		{"EndsWithItsContext", []string{"C4.92", "C4.2"}, Options{}, watchContext},
		{"EndsWithTheEngine", []string{"C4.92", "C13.13"}, Options{}, watchClosed},
	}
}

// tellWithin bounds how long a test waits for a notice: ten times what is
// promised. It is real time, for a notice goes by no clock.
const tellWithin = 10 * time.Second

// watch is a call of WatchTokens that runs beside the test.
type watch struct {
	s      *scene
	told   chan bool
	cancel context.CancelFunc
	done   chan error
}

func (s *scene) watch() *watch {
	s.Helper()
	watcher, ok := s.registry().(contract.Watcher)
	if !ok {
		s.Skip("this engine tells of no changes")
	}
	ctx, cancel := context.WithCancel(s.ctx)
	w := &watch{s: s, told: make(chan bool, 1000), cancel: cancel, done: make(chan error, 1)}
	go func() { w.done <- watcher.WatchTokens(ctx, func(hearing bool) { w.told <- hearing }) }()
	s.Cleanup(cancel)
	w.hears("it has begun")
	return w
}

// hears waits for a notice.
func (w *watch) hears(why string) {
	w.s.Helper()
	ctx, cancel := context.WithTimeout(w.s.ctx, tellWithin)
	defer cancel()
	for {
		select {
		case hearing := <-w.told:
			if hearing {
				return
			}
		case err := <-w.done:
			w.s.Fatalf("the watch has ended: %v", err)
		case <-ctx.Done():
			w.s.Fatalf("nobody was told although %s", why)
		}
	}
}

// forget drops what was told so far.
func (w *watch) forget() {
	for len(w.told) > 0 {
		<-w.told
	}
}

// ended waits for the watch to return.
func (w *watch) ended() error {
	w.s.Helper()
	ctx, cancel := context.WithTimeout(w.s.ctx, tellWithin)
	defer cancel()
	select {
	case err := <-w.done:
		return err
	case <-ctx.Done():
		w.s.Fatal("the watch goes on")
	}
	return nil
}

func watchChanges(s *scene) {
	w, r := s.watch(), s.registry()
	for range 3 {
		w.forget()
		t := s.token("a", "worker", contract.RightConsume)
		w.hears("a token was made")
		w.forget()
		t.Rights = contract.RightProduce
		s.must("change", r.PutToken(s.ctx, t))
		w.hears("its rights have changed")
		w.forget()
		s.must("limit", s.limiter().LimitToken(s.ctx, t.Hash, contract.Limits{Produce: 1, Per: time.Minute}))
		w.hears("its limits have changed")
		w.forget()
		s.must("revoke", r.DeleteToken(s.ctx, t.Hash))
		w.hears("it was revoked")
	}
}

func watchAll(s *scene) {
	first, second := s.watch(), s.watch()
	first.forget()
	second.forget()
	s.token("a", "worker", contract.RightConsume)
	first.hears("a token was made")
	second.hears("a token was made")
	first.cancel()
	first.ended()
	second.forget()
	s.token("a", "another", contract.RightConsume)
	second.hears("another one was made")
}

func watchContext(s *scene) {
	w := s.watch()
	w.cancel()
	if err := w.ended(); !errors.Is(err, context.Canceled) {
		s.Errorf("the watch returned %v", err)
	}
	w.forget()
	s.token("a", "worker", contract.RightConsume)
	s.Quiet()
	same(s, "the notices after the watch has ended", len(w.told), 0)
	err := s.registry().(contract.Watcher).WatchTokens(w.ctxEnded(), func(bool) { s.Error("told without a watch") })
	if !errors.Is(err, context.Canceled) {
		s.Errorf("a watch with an ended context returned %v", err)
	}
}

// ctxEnded is a context that has ended.
func (w *watch) ctxEnded() context.Context {
	ctx, cancel := context.WithCancel(w.s.ctx)
	cancel()
	return ctx
}

func watchClosed(s *scene) {
	owner, ok := s.registry().(duly.Engine)
	if !ok {
		s.Skip("the registry is not the engine's")
	}
	w := s.watch()
	s.closed = true
	s.must("close", owner.Close())
	s.refused("a watch when the engine closes", w.ended(), duly.CodeClosed)
	err := owner.(contract.Watcher).WatchTokens(s.ctx, func(bool) { s.Error("told by a closed engine") })
	s.refused("a watch of a closed engine", err, duly.CodeClosed)
}
