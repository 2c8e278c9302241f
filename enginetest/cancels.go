package enginetest

import (
	"context"
	"errors"
	"slices"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

func cancelTests() []test {
	return []test{
		{"RemovedJobsAreReported", []string{"C4.97", "C4.105"}, Options{}, cancelsReported},
	}
}

// cancelsReported removes jobs in every way, and each removal must be reported. It waits for each
// report, because an engine may combine reports that are a few milliseconds apart. A report may
// come twice, for example from both pools of a namespace that moves.
func cancelsReported(s *scene) {
	watcher, ok := s.Engine.(contract.CancelWatcher)
	if !ok {
		s.Skip("the engine does not report canceled jobs")
	}
	ctx, cancel := context.WithCancel(s.ctx)
	s.Cleanup(cancel)
	ready, reports := make(chan struct{}, 10), make(chan contract.Canceled, 100)
	go func() {
		_ = watcher.WatchCancels(ctx, s.namespace, contract.CancelWatch{
			Ready: func() { ready <- struct{}{} }, Canceled: func(c contract.Canceled) { reports <- c },
		})
	}()
	await(s, "the watch to begin", ready)

	// Two of the three jobs are leased, so that the purge of leased jobs has something to remove.
	s.pushAll(duly.Job{ID: "j1"}, duly.Job{ID: "j2"}, duly.Job{ID: "j3"})
	s.reserve(2)
	other := s.on("other")
	other.pushAll(duly.Job{ID: "a"}, duly.Job{ID: "b"}, duly.Job{ID: "c"}, duly.Job{ID: "last"})
	var last contract.Canceled
	for _, removal := range []struct {
		name   string
		remove func() error
		want   contract.Canceled
	}{
		{"delete", func() error { return s.Engine.Delete(s.ctx, s.ref(), "j1") },
			contract.Canceled{Queue: s.queue, IDs: []string{"j1"}}},
		{"purge", func() error {
			_, err := s.Engine.Purge(s.ctx, s.ref(), duly.StateLeased, 0)
			return err
		}, contract.Canceled{Queue: s.queue}},
		// No worker runs a job that is ready, so only the second deletion is reported.
		{"deletion by IDs", func() error {
			other.must("deletion of a ready job", other.deleteJobs(duly.StateReady, "a")[0])
			errs := other.deleteJobs(duly.StateNone, "b", "none", "c")
			return errors.Join(errs[0], errs[2])
		}, contract.Canceled{Queue: "other", IDs: []string{"b", "c"}}},
		{"delete of a ready job", func() error { return s.Engine.Delete(s.ctx, other.ref(), "last") },
			contract.Canceled{Queue: "other", IDs: []string{"last"}}},
		{"destroy", func() error { return s.Engine.Destroy(s.ctx, s.ref()) }, contract.Canceled{Queue: s.queue}},
	} {
		s.must(removal.name, removal.remove())
		got, want := await(s, "a report of the "+removal.name, reports), removal.want
		// Skip repetitions of the report before.
		for sameReport(got, last) && !sameReport(got, want) {
			got = await(s, "a report of the "+removal.name, reports)
		}
		if !sameReport(got, want) {
			s.Errorf("the %s reported %+v, want %+v", removal.name, got, want)
		}
		last = want
	}
}

func sameReport(a, b contract.Canceled) bool {
	return a.Queue == b.Queue && slices.Equal(a.IDs, b.IDs) && (a.IDs == nil) == (b.IDs == nil)
}

// await receives from a channel. It fails the test after a timeout.
func await[T any](s *scene, what string, from <-chan T) (got T) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, reportWithin)
	defer cancel()
	select {
	case got = <-from:
	case <-ctx.Done():
		s.Fatalf("timed out waiting for %s", what)
	}
	return got
}
