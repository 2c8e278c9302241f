package enginetest

import (
	"context"
	"slices"

	"github.com/dulymq/duly"
)

func cancelTests() []test {
	return []test{
		{"RemovedJobsAreReported", []string{"C4.97"}, Options{}, cancelsReported},
	}
}

// cancelsReported removes jobs in every way and expects a report of each. Reports
// come in order, so the report of the last deletion shows that there is no other.
func cancelsReported(s *scene) {
	watcher, ok := s.Engine.(duly.CancelWatcher)
	if !ok {
		s.Skip("the engine does not report canceled jobs")
	}
	ctx, cancel := context.WithCancel(s.ctx)
	s.Cleanup(cancel)
	ready, reports := make(chan struct{}, 10), make(chan duly.Canceled, 100)
	go func() {
		_ = watcher.WatchCancels(ctx, s.namespace, duly.CancelWatch{
			Ready: func() { ready <- struct{}{} }, Canceled: func(c duly.Canceled) { reports <- c },
		})
	}()
	await(s, "the watch to begin", ready)

	s.pushAll(duly.Job{ID: "j1"}, duly.Job{ID: "j2"}, duly.Job{ID: "j3"})
	s.reserve(2)
	s.must("delete", s.Engine.Delete(s.ctx, s.ref(), "j1"))
	_, err := s.Engine.Purge(s.ctx, s.ref(), duly.StateLeased, 0)
	s.must("purge", err)
	s.must("destroy", s.Engine.Destroy(s.ctx, s.ref()))
	other := s.on("other")
	other.push(duly.Job{ID: "last"})
	s.must("delete of a ready job", s.Engine.Delete(s.ctx, other.ref(), "last"))

	for _, want := range []duly.Canceled{{Queue: s.queue, IDs: []string{"j1"}}, {Queue: s.queue}, {Queue: s.queue}, {Queue: "other", IDs: []string{"last"}}} {
		got := await(s, "a report", reports)
		if got.Queue != want.Queue || !slices.Equal(got.IDs, want.IDs) || (got.IDs == nil) != (want.IDs == nil) {
			s.Errorf("reported %+v, want %+v", got, want)
		}
	}
}

// await receives from a channel, or fails the test after a while.
func await[T any](s *scene, what string, from <-chan T) (got T) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, tellWithin)
	defer cancel()
	select {
	case got = <-from:
	case <-ctx.Done():
		s.Fatalf("timed out waiting for %s", what)
	}
	return got
}
