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
		{"ReportsEveryChange", []string{"C4.92"}, Options{}, watchChanges},
		{"NotifiesAllWatchers", []string{"C4.92"}, Options{}, watchAll},
		{"EndsWithItsContext", []string{"C4.92", "C4.2"}, Options{}, watchContext},
		{"EndsWithTheEngine", []string{"C4.92", "C13.13"}, Options{}, watchClosed},
	}
}

// reportWithin is the longest time that a test waits for a notification. It is ten times the
// promised time. It is real time, because notifications do not depend on the engine's clock.
const reportWithin = 10 * time.Second

// watch is a call to WatchTokens that runs concurrently with the test.
type watch struct {
	s       *scene
	notices chan bool
	cancel  context.CancelFunc
	done    chan error
}

func (s *scene) watch() *watch {
	s.Helper()
	watcher, ok := s.registry().(contract.Watcher)
	if !ok {
		s.Skip("this engine reports no changes")
	}
	ctx, cancel := context.WithCancel(s.ctx)
	w := &watch{s: s, notices: make(chan bool, 1000), cancel: cancel, done: make(chan error, 1)}
	go func() { w.done <- watcher.WatchTokens(ctx, func(active bool) { w.notices <- active }) }()
	s.Cleanup(cancel)
	w.notified("the watch has begun")
	return w
}

// notified waits for a notification.
func (w *watch) notified(why string) {
	w.s.Helper()
	ctx, cancel := context.WithTimeout(w.s.ctx, reportWithin)
	defer cancel()
	for {
		select {
		case active := <-w.notices:
			if active {
				return
			}
		case err := <-w.done:
			w.s.Fatalf("the watch ended early: %v", err)
		case <-ctx.Done():
			w.s.Fatalf("no notification within %s, although %s", reportWithin, why)
		}
	}
}

// forget drops the notifications so far.
func (w *watch) forget() {
	for len(w.notices) > 0 {
		<-w.notices
	}
}

// ended waits until the watch returns.
func (w *watch) ended() error {
	w.s.Helper()
	ctx, cancel := context.WithTimeout(w.s.ctx, reportWithin)
	defer cancel()
	select {
	case err := <-w.done:
		return err
	case <-ctx.Done():
		w.s.Fatal("the watch has not returned after its context ended")
	}
	return nil
}

func watchChanges(s *scene) {
	w, r := s.watch(), s.registry()
	for range 3 {
		// A change may be reported twice, so earlier notices are dropped before the next change.
		w.forget()
		t := s.token("a", "worker", contract.RightConsume)
		w.notified("a token was made")
		w.forget()
		t.Rights = contract.RightProduce
		s.must("change", r.PutToken(s.ctx, t))
		w.notified("the token's rights changed")
		w.forget()
		s.must("limit", s.limiter().LimitToken(s.ctx, t.Hash, contract.Limits{Produce: 1, Per: time.Minute}))
		w.notified("the token's limits changed")
		w.forget()
		s.must("revoke", r.DeleteToken(s.ctx, t.Hash))
		w.notified("the token was revoked")
	}
}

func watchAll(s *scene) {
	first, second := s.watch(), s.watch()
	first.forget()
	second.forget()
	s.token("a", "worker", contract.RightConsume)
	first.notified("a token was made")
	second.notified("a token was made")

	// The other watcher must not end with the first.
	first.cancel()
	first.ended()
	second.forget()
	s.token("a", "another", contract.RightConsume)
	second.notified("another token was created")
}

func watchContext(s *scene) {
	w := s.watch()
	w.cancel()
	if err := w.ended(); !errors.Is(err, context.Canceled) {
		s.Errorf("the watch returned %v, want context.Canceled", err)
	}
	// A change after the end must not be reported.
	w.forget()
	s.token("a", "worker", contract.RightConsume)
	s.Quiet()
	same(s, "the notifications after the end of the watch", len(w.notices), 0)

	err := s.registry().(contract.Watcher).WatchTokens(w.ctxEnded(),
		func(bool) { s.Error("a watch with an ended context was notified, want no notification") })
	if !errors.Is(err, context.Canceled) {
		s.Errorf("a watch with an ended context returned %v, want context.Canceled", err)
	}
}

// ctxEnded returns a context that has ended.
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

	// The audit cannot use a closed engine.
	s.closed = true
	s.must("close", owner.Close())
	s.refused("a watch when the engine closes", w.ended(), duly.CodeClosed)
	err := owner.(contract.Watcher).WatchTokens(s.ctx, func(bool) { s.Error("a closed engine sent a notification") })
	s.refused("a watch of a closed engine", err, duly.CodeClosed)
}
