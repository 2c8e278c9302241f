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

// cancelsReported removes jobs in every way, each of which must be reported.
// Reports come in order, so the deletion at the end shows that nothing else is.
func cancelsReported(s *scene) {
	watcher, ok := s.Engine.(duly.CancelWatcher)
	if !ok {
		s.Skip("this engine reports no canceled jobs")
	}
	ctx, cancel := context.WithCancel(s.ctx)
	s.Cleanup(cancel)
	hearing, told := make(chan struct{}, 10), make(chan duly.Canceled, 100)
	go func() {
		_ = watcher.WatchCancels(ctx, s.namespace, duly.CancelWatch{
			Hearing: func() { hearing <- struct{}{} }, Canceled: func(c duly.Canceled) { told <- c },
		})
	}()
	await(s, "the watch to begin", hearing)

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
		got := await(s, "a report", told)
		if got.Queue != want.Queue || !slices.Equal(got.IDs, want.IDs) || (got.IDs == nil) != (want.IDs == nil) {
			s.Errorf("reported %+v, want %+v", got, want)
		}
	}
}

// await receives from a channel, or ends the test.
func await[T any](s *scene, what string, from <-chan T) (got T) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, tellWithin)
	defer cancel()
	select {
	case got = <-from:
	case <-ctx.Done():
		s.Fatalf("waited in vain for %s", what)
	}
	return got
}
